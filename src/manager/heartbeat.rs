//! Checks in with the Manager between scheduled runs.
//!
//! The Manager shows AUTO UPGRADE OFF for a workload that sends no request for 90 minutes, regardless of the schedule. The
//! answers to check-ins are only reported.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::error::ManagerError;
use super::source::Query;
use crate::image::ImageReference;
use crate::text::time;

/// The interval between check-ins. It is half of the Manager's 90 minutes, so that one failure does no harm.
const INTERVAL: Duration = Duration::from_secs(45 * 60);
/// The interval after a failed check-in.
const RETRY_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// For each workload, the images that its delegates run.
pub(crate) type Queries = BTreeMap<String, Vec<ImageReference>>;

/// The Manager's last answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ManagerStatus {
    /// When the Manager had last answered for all workloads: the time of the oldest of their last answers.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub answered_at: Option<DateTime<Utc>>,
    /// The error for the first workload for which the Manager gave no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The published image of each workload.
    pub published: BTreeMap<String, String>,
}

impl fmt::Display for ManagerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.problem, self.answered_at.map(time::text)) {
            (None, None) => f.write_str("Manager: not asked yet"),
            (None, Some(at)) => write!(f, "Manager: last answer at {at}"),
            // The Manager may well be answering, but with an error.
            (Some(problem), Some(at)) => write!(f, "Manager: {problem} (last successful answer at {at})"),
            (Some(problem), None) => write!(f, "Manager: {problem} (no successful answer since start)"),
        }
    }
}

/// The last check-in of one workload.
#[derive(Debug, Default)]
struct CheckIn {
    /// When the next check-in is due. `None` means now.
    due: Option<Instant>,
    /// The images that the Manager knows. A check-in with others is due at once.
    images: Vec<ImageReference>,
    /// Whether the answer to a check-in is pending.
    is_asked: bool,
    answered_at: Option<DateTime<Utc>>,
    published: Option<String>,
    problem: Option<ManagerError>,
}

impl CheckIn {
    fn is_about(&self, images: &[ImageReference]) -> bool {
        self.images.len() == images.len() && self.images.iter().all(|image| images.contains(image))
    }
}

/// Checks in independently of the runs. Each workload has its own timer, as it does in the Manager.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    check_ins: BTreeMap<String, CheckIn>,
}

impl Heartbeat {
    /// Returns the time until the next check-in is due.
    pub(crate) fn wait(&self, queries: &Queries) -> Duration {
        let now = Instant::now();
        let waits = queries.iter().map(|(workload, images)| {
            let known = self.check_ins.get(workload);
            let due = known.filter(|it| it.is_about(images)).and_then(|it| it.due);
            due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now))
        });
        waits.min().unwrap_or(INTERVAL)
    }

    pub(crate) fn manager_status(&self) -> ManagerStatus {
        let asked = |check_in: &&CheckIn| check_in.answered_at.is_some() || check_in.problem.is_some();
        let asked = self.check_ins.values().filter(asked);
        let published =
            |(workload, check_in): (&String, &CheckIn)| Some((workload.clone(), check_in.published.clone()?));
        ManagerStatus {
            // `None` is the smallest, so one unanswered workload makes the result `None`.
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

    /// Forgets the workloads that no longer have a delegate.
    pub(crate) fn keep(&mut self, queries: &Queries) {
        self.check_ins
            .retain(|workload, _| queries.contains_key(workload));
    }

    /// Records an answer to a run or a check-in. For a workload with several images, the Manager is asked once per image; a
    /// successful answer to any of these questions counts as a check-in.
    pub(crate) fn note(
        &mut self,
        query: &Query,
        answer: &Result<ImageReference, ManagerError>,
        asked_at: DateTime<Utc>,
        now: DateTime<Utc>,
    ) {
        debug!(workload = query.workload, ?answer, "the Manager's answer");
        let before = self.problem().map(ManagerError::kind);
        let check_in = self.check_ins.entry(query.workload.clone()).or_default();
        let is_check_in = std::mem::take(&mut check_in.is_asked);
        if !check_in.images.contains(&query.image) {
            check_in.images.push(query.image.clone());
        }
        match answer {
            Ok(published) => {
                check_in.due = Some(Instant::now() + INTERVAL);
                check_in.answered_at = Some(now);
                check_in.published = Some(published.to_string());
                check_in.problem = None;
            }
            Err(_) if check_in.answered_at.is_some_and(|at| at > asked_at) => {}
            Err(problem) => {
                check_in.due = Some(Instant::now() + RETRY_INTERVAL);
                check_in.problem = Some(problem.clone());
            }
        }
        match self.problem() {
            None if before.is_some() => info!("Manager is answering again"),
            Some(problem) if is_check_in && before != Some(problem.kind()) => warn!(
                error = problem.to_string(),
                "Manager check-in failed; after 90 minutes its UI will show AUTO UPGRADE OFF"
            ),
            _ => {}
        }
    }

    /// Returns the questions that are due. Each becomes due again after a while, whether or not it is answered.
    pub(crate) fn due(&mut self, queries: &Queries) -> Vec<Query> {
        let mut due = Vec::new();
        for (workload, images) in queries {
            let check_in = self.check_ins.entry(workload.clone()).or_default();
            let is_due = check_in.due.is_none_or(|due| due <= Instant::now());
            if is_due || !check_in.is_about(images) {
                check_in.due = Some(Instant::now() + RETRY_INTERVAL);
                check_in.is_asked = true;
                check_in.images.clone_from(images);
                due.extend(images.iter().map(|image| Query {
                    workload: workload.clone(),
                    image: image.clone(),
                }));
            }
        }
        due
    }
}
