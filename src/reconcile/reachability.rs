//! Whether the Manager can be reached, which is asked before a candidate is rejected: without a Manager no delegate is
//! healthy.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::task::JoinSet;

use crate::manager::{ImageSource, ManagerError, Query, ask_all};
use crate::rollout::Reach;

/// How long an answer counts.
const ANSWER_TTL: TimeDelta = TimeDelta::seconds(60);
/// A Manager that takes longer is unreachable. A stop-first replacement stands still meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Asks the Manager in the background.
#[derive(Debug, Default)]
pub(super) struct Reachability {
    asking: JoinSet<Option<ManagerError>>,
    /// When it was last asked, and the outage, if there was one.
    last: Option<(DateTime<Utc>, Option<ManagerError>)>,
}

impl Reachability {
    /// Takes in an answer.
    pub(super) fn collect(&mut self, now: DateTime<Utc>) {
        while let Some(answer) = self.asking.try_join_next() {
            self.last = Some((now, answer.unwrap_or_default()));
        }
    }

    /// Whether the Manager can be reached; `None` where it was not asked within the last minute.
    pub(super) fn known(&self, now: DateTime<Utc>) -> Option<Reach> {
        if let Some((at, outage)) = &self.last
            && (TimeDelta::zero()..ANSWER_TTL).contains(&(now - *at))
        {
            return Some(match outage {
                None => Reach::Reachable,
                Some(error) => Reach::Unreachable(error.to_string()),
            });
        }
        (!self.asking.is_empty()).then_some(Reach::Asking)
    }

    /// Asks the Manager, unless it is being asked. Any answer will do, a refusal too.
    pub(super) fn ask<M: ImageSource>(&mut self, source: &Arc<M>, query: Query) {
        if self.asking.is_empty() {
            let source = Arc::clone(source);
            self.asking.spawn(async move {
                let answers = ask_all(source.as_ref(), [query]);
                match tokio::time::timeout(ANSWER_TIMEOUT, answers).await {
                    Ok(answers) => answers.outage().cloned(),
                    Err(_) => Some(ManagerError::Timeout(ANSWER_TIMEOUT)),
                }
            });
        }
    }
}
