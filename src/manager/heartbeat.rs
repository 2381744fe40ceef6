//! Letting the Manager hear of us between scheduled passes. It shows AUTO UPGRADE as off for a delegate that nobody has
//! asked about for 90 minutes, whatever the schedule is. Nothing follows from the answers but that they are told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::error::ManagerError;
use super::source::{Answers, ImageSource, Query, ask_all};
use crate::image::ImageReference;
use crate::text::time;

/// Half of the Manager's 90 minutes, so that one failure does no harm.
pub(crate) const EVERY: Duration = Duration::from_secs(45 * 60);
/// After a failure, sooner.
pub(crate) const AGAIN: Duration = Duration::from_secs(5 * 60);

/// What to ask: for each `DELEGATE_NAME`, the image that one of its delegates runs.
pub(crate) type Queries = BTreeMap<String, ImageReference>;

/// What the Manager said the last time it was asked for each delegate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ManagerStatus {
    /// Since when it has answered for all delegates: the oldest of their last answers.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "time::serialize_option"
    )]
    pub answered_at: Option<DateTime<Utc>>,
    /// Why it does not say what is published, of the first delegate for which it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What it has published, by `DELEGATE_NAME`.
    pub published: BTreeMap<String, String>,
}

/// What is known of one `DELEGATE_NAME`.
#[derive(Debug)]
struct CheckIn {
    /// When to ask for it.
    due: Instant,
    answered_at: Option<DateTime<Utc>>,
    published: Option<String>,
    problem: Option<ManagerError>,
}

impl Default for CheckIn {
    fn default() -> Self {
        Self {
            due: Instant::now(),
            answered_at: None,
            published: None,
            problem: None,
        }
    }
}

/// Asks beside the passes. The Manager counts the minutes of each name, and so does this.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    check_ins: BTreeMap<String, CheckIn>,
    asking: JoinSet<Answers>,
}

impl Heartbeat {
    /// How long until there is something to do here.
    pub(crate) fn wait(&self, queries: &Queries) -> Duration {
        let now = Instant::now();
        let waits = queries.keys().map(|delegate| match self.check_ins.get(delegate) {
            Some(check_in) => check_in.due.saturating_duration_since(now),
            None => Duration::ZERO,
        });
        waits.min().unwrap_or(EVERY)
    }

    pub(crate) fn manager_status(&self) -> ManagerStatus {
        let asked = |check_in: &&CheckIn| check_in.answered_at.is_some() || check_in.problem.is_some();
        let asked = self.check_ins.values().filter(asked);
        let published =
            |(delegate, check_in): (&String, &CheckIn)| Some((delegate.clone(), check_in.published.clone()?));
        ManagerStatus {
            // None is the oldest.
            answered_at: asked.map(|check_in| check_in.answered_at).min().flatten(),
            problem: self.problem().map(ToString::to_string),
            published: self.check_ins.iter().filter_map(published).collect(),
        }
    }

    fn problem(&self) -> Option<&ManagerError> {
        self.check_ins
            .values()
            .find_map(|check_in| check_in.problem.as_ref())
    }

    /// Forgets whom there is nothing to ask for.
    pub(crate) fn keep(&mut self, queries: &Queries) {
        self.check_ins
            .retain(|delegate, _| queries.contains_key(delegate));
    }

    /// Takes in what came of a pass's questions, or of those asked here.
    pub(crate) fn note(&mut self, answers: &Answers, now: DateTime<Utc>) {
        let was_told = self.problem().is_some();
        for (workload, answer) in answers.by_workload() {
            let check_in = self.check_ins.entry(workload.to_owned()).or_default();
            check_in.due = Instant::now() + if answer.is_ok() { EVERY } else { AGAIN };
            match answer {
                Ok(published) => {
                    check_in.answered_at = Some(now);
                    check_in.published = Some(published.to_string());
                    check_in.problem = None;
                }
                Err(problem) => check_in.problem = Some(problem.clone()),
            }
        }
        if was_told && self.problem().is_none() {
            info!("the Manager says again what is published");
        }
    }

    /// Takes in what came, and asks if it is time.
    pub(crate) fn check_in<M: ImageSource>(
        &mut self,
        source: &Arc<M>,
        queries: &Queries,
        now: DateTime<Utc>,
    ) {
        while let Some(ended) = self.asking.try_join_next() {
            let answers = ended.unwrap_or_default();
            debug!(?answers, "the Manager was asked between two passes");
            let before = self.problem().map(ManagerError::kind);
            self.note(&answers, now);
            if let Some(problem) = self.problem().filter(|problem| before != Some(problem.kind())) {
                warn!(
                    problem = problem.to_string(),
                    "the Manager does not hear of us; its UI will show auto upgrade as off"
                );
            }
        }
        let mut due = Vec::new();
        for (workload, image) in queries {
            let check_in = self.check_ins.entry(workload.clone()).or_default();
            if check_in.due <= Instant::now() {
                // Until the answer is in.
                check_in.due = Instant::now() + AGAIN;
                due.push(Query {
                    workload: workload.clone(),
                    image: image.clone(),
                });
            }
        }
        if !self.asking.is_empty() || due.is_empty() {
            return;
        }
        let source = Arc::clone(source);
        self.asking
            .spawn(async move { ask_all(source.as_ref(), due).await });
    }
}
