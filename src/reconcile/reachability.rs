//! Whether the Manager can be reached, asked before a restart for health: without its Manager, no delegate is healthy.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

use crate::image::ImageReference;
use crate::manager::ManagerError;
use crate::rollout::Reach;

/// How long an answer is valid.
const ANSWER_TTL: Duration = Duration::from_secs(60);
/// A Manager that takes longer counts as unreachable. A stop-first replacement stands still meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The last answers to one kind of question.
#[derive(Debug, Default)]
pub(super) struct Reachability {
    /// Since when an answer is awaited.
    pub(super) asked: Option<Instant>,
    /// When the last answer came, and the outage, if any.
    last: Option<(DateTime<Utc>, Option<ManagerError>)>,
}

impl Reachability {
    /// Records an answer. Any answer will do, even a refusal.
    pub(super) fn note_answer(&mut self, answer: &Result<ImageReference, ManagerError>, now: DateTime<Utc>) {
        if self.asked.take().is_some() {
            let outage = answer.as_ref().err().filter(|error| error.is_outage());
            self.last = Some((now, outage.cloned()));
        }
    }

    /// Whether the Manager can be reached; `None` if it was not asked within the last minute. `last_error` is the Manager's error
    /// so far for a question that is still open.
    pub(super) fn known(&self, last_error: Option<ManagerError>, now: DateTime<Utc>) -> Option<Reach> {
        let ttl = TimeDelta::from_std(ANSWER_TTL).unwrap_or_default();
        let reach = |outage: Option<&ManagerError>| match outage {
            None => Reach::Reachable,
            Some(error) => Reach::Unreachable(error.to_string()),
        };
        if let Some((at, outage)) = &self.last
            && (TimeDelta::zero()..ttl).contains(&(now - *at))
        {
            return Some(reach(outage.as_ref()));
        }
        let waited = self.asked?.elapsed();
        if waited < ANSWER_TIMEOUT {
            return Some(Reach::Asking);
        }
        let error = last_error.unwrap_or(ManagerError::Timeout(ANSWER_TIMEOUT));
        (waited < ANSWER_TIMEOUT + ANSWER_TTL).then(|| reach(Some(&error).filter(|error| error.is_outage())))
    }
}
