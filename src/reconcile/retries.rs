//! When a run tries again what failed for something that may pass: a nightly schedule would come back to it a day later.

use chrono::{DateTime, TimeDelta, Utc};

use crate::net::retry::Retry;
use crate::rollout::reason::Reason;

/// How long after a failure the next attempts follow, in minutes.
const WAITS: [i64; 5] = [1, 2, 5, 10, 30];

/// The longest that the other end may ask to wait.
const LONGEST_WAIT: TimeDelta = TimeDelta::hours(1);

/// The attempts of a run. All that failed is tried at the same time.
#[derive(Debug, Default)]
pub(super) struct Retries {
    /// How often that was done.
    count: usize,
    /// The next time.
    pub(super) at: Option<DateTime<Utc>>,
}

impl Retries {
    /// Says in the reason of a failure when it is tried again, if it is.
    pub(super) fn schedule(&mut self, reason: &mut Reason, now: DateTime<Utc>) {
        if let (Some(minutes), Some(retry)) = (WAITS.get(self.count), reason.retry_mut())
            && let Retry::Later(asked) = retry
        {
            let asked = asked.and_then(|asked| TimeDelta::from_std(asked).ok());
            let wait = TimeDelta::minutes(*minutes).max(asked.unwrap_or_default().min(LONGEST_WAIT));
            let at = self.at.map_or(now + wait, |next| next.max(now + wait));
            self.at = Some(at);
            *retry = Retry::At(at);
        }
    }

    /// Whether an attempt is due, which this counts.
    pub(super) fn take(&mut self, now: DateTime<Utc>) -> bool {
        let is_due = self.at.is_some_and(|at| at <= now);
        if is_due {
            (self.count, self.at) = (self.count + 1, None);
        }
        is_due
    }
}
