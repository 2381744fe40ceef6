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

use crate::image::ImageReference;
use crate::manager::Published;

/// Half of the Manager's 90 minutes, so that one failure does no harm.
pub(crate) const EVERY: Duration = Duration::from_secs(45 * 60);
/// After a failure, sooner.
pub(crate) const AGAIN: Duration = Duration::from_secs(5 * 60);

/// What to ask: for each `DELEGATE_NAME`, the image that one of its delegates runs.
pub(crate) type Questions = BTreeMap<String, ImageReference>;

/// What the Manager said the last time it was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Heard {
    /// When it answered for all delegates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<DateTime<Utc>>,
    /// Why it did not, the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What it has published, by `DELEGATE_NAME`.
    pub published: BTreeMap<String, String>,
}

/// Asks beside the passes.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    due: Option<Instant>,
    asking: JoinSet<Result<BTreeMap<String, String>, String>>,
    heard: Heard,
}

impl Heartbeat {
    /// How long until there is something to do here.
    pub(crate) fn wait(&self) -> Duration {
        match self.due {
            Some(due) => due.saturating_duration_since(Instant::now()),
            None => EVERY,
        }
    }

    pub(crate) fn heard(&self) -> &Heard {
        &self.heard
    }

    /// A pass has asked by itself.
    pub(crate) fn note(&mut self, answer: Result<BTreeMap<String, String>, String>, now: DateTime<Utc>) {
        self.due = Some(Instant::now() + if answer.is_ok() { EVERY } else { AGAIN });
        match answer {
            Ok(published) => {
                if self.heard.problem.take().is_some() {
                    info!("the Manager answers again");
                }
                self.heard.answered_at = Some(now);
                self.heard.published = published;
            }
            Err(problem) => self.heard.problem = Some(problem),
        }
    }

    /// Takes in what came, and asks if it is time.
    pub(crate) fn beat<M: Published>(&mut self, source: &Arc<M>, questions: Questions, now: DateTime<Utc>) {
        while let Some(ended) = self.asking.try_join_next() {
            let answer = ended.unwrap_or_else(|error| Err(error.to_string()));
            match &answer {
                Ok(published) => debug!(?published, "the Manager has heard of us between two passes"),
                Err(problem) if self.heard.problem.as_ref() != Some(problem) => {
                    warn!(
                        problem,
                        "the Manager does not hear of us; its UI will show auto upgrade as off"
                    );
                }
                Err(_) => {}
            }
            self.note(answer, now);
        }
        if self.due.is_none_or(|due| due > Instant::now()) {
            return;
        }
        // Until the answer is in, or there is somebody to ask for.
        self.due = Some(Instant::now() + AGAIN);
        if !self.asking.is_empty() || questions.is_empty() {
            return;
        }
        let source = Arc::clone(source);
        self.asking.spawn(async move {
            let mut published = BTreeMap::new();
            for (delegate, image) in questions {
                let answer = source.published(&image, &delegate).await;
                let answer = answer.map_err(|error| error.to_string())?;
                published.insert(delegate, answer.to_string());
            }
            Ok(published)
        });
    }
}
