//! Engine calls that failed are repeated after a pause, which grows with each failure.

use chrono::{DateTime, TimeDelta, Utc};

use super::reason::Reason;

/// The longest pause between two attempts.
const LONGEST_PAUSE: TimeDelta = TimeDelta::seconds(60);

/// After this many failures in a row, which take five minutes, a delegate's next step is no longer waited for.
const MAX_AWAITED_RETRIES: u32 = 9;

/// The call that failed where a container cannot be inspected.
pub(crate) const INSPECT: &str = "inspect";

/// The last call to the engine for a delegate failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Backoff {
    /// The call that failed, and how.
    pub reason: Reason,
    /// How many times in a row.
    pub attempts: u32,
    /// Nothing is tried before then.
    pub retry_at: DateTime<Utc>,
}

impl Backoff {
    /// The pause after a failure: 2 s after the first one, doubled with each that follows, at most a minute.
    pub(crate) fn after(previous: Option<&Self>, reason: Reason, now: DateTime<Utc>) -> Self {
        let attempts = previous.map_or(1, |previous| previous.attempts.saturating_add(1));
        let pause = TimeDelta::seconds(1 << attempts.min(6)).min(LONGEST_PAUSE);
        Self {
            reason,
            attempts,
            retry_at: now + pause,
        }
    }

    /// The same for what will not succeed by being repeated, such as what is not permitted: no run waits for it.
    pub(crate) fn hopeless(reason: Reason, now: DateTime<Utc>) -> Self {
        Self {
            reason,
            attempts: u32::MAX,
            retry_at: now + LONGEST_PAUSE,
        }
    }

    /// Whether a container of the delegate could not be inspected.
    pub(crate) fn is_inspect_error(&self) -> bool {
        matches!(&self.reason, Reason::EngineError { step, .. } if step == INSPECT)
    }

    /// Whether it has failed so often that a run no longer waits for it. It is still tried again whenever the
    /// reconciler observes.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.attempts > MAX_AWAITED_RETRIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_a_minute() {
        let (now, mut last) = (DateTime::UNIX_EPOCH, None);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let backoff = Backoff::after(last.as_ref(), Reason::NoContainer, now);
            pauses.push((backoff.retry_at - now).num_seconds());
            last = Some(backoff);
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60, 60]);
    }
}
