//! When a run retries temporary failures: a nightly schedule would return to them only a day later.

use chrono::{DateTime, TimeDelta, Utc};

use crate::net::retry::Retry;
use crate::rollout::reason::Reason;

/// The pauses between the attempts, in minutes.
const WAITS: [i64; 5] = [1, 2, 5, 10, 30];

/// The longest pause that the other end may ask for.
const LONGEST_WAIT: TimeDelta = TimeDelta::hours(1);

/// The retries of a run. Everything that failed is tried at the same time.
#[derive(Debug, Default)]
pub(super) struct Retries {
    /// Whether there are any; otherwise only the next run tries again.
    pub(super) are_on: bool,
    /// The number of retries so far.
    count: usize,
    /// The next retry.
    pub(super) at: Option<DateTime<Utc>>,
}

impl Retries {
    /// Adds the time of the next retry, if any, to the reason of a failure.
    pub(super) fn schedule(&mut self, reason: &mut Reason, now: DateTime<Utc>) {
        if self.are_on
            && let (Some(minutes), Some(retry)) = (WAITS.get(self.count), reason.retry_mut())
            && let Retry::Later(asked) = retry
        {
            let asked = asked.and_then(|asked| TimeDelta::from_std(asked).ok());
            let wait = TimeDelta::minutes(*minutes).max(asked.unwrap_or_default().min(LONGEST_WAIT));
            let at = self.at.map_or(now + wait, |next| next.max(now + wait));
            self.at = Some(at);
            *retry = Retry::At(at);
        }
    }

    /// Whether a retry is due; if so, counts it.
    pub(super) fn take(&mut self, now: DateTime<Utc>) -> bool {
        let is_due = self.at.is_some_and(|at| at <= now);
        if is_due {
            (self.count, self.at) = (self.count + 1, None);
        }
        is_due
    }
}
