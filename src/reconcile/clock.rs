//! The wall clock and its jumps, as after a suspend or if it was wrong at boot.
//!
//! Decisions use the wall clock, like Docker's documents and container names. When it jumps, the times in this process's memory
//! are shifted along. Otherwise a jump would cut a drain short or end a proof early.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

/// The wall clock, which tests replace.
pub type Clock = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// Smaller differences do not count as a jump.
const TOLERANCE: TimeDelta = TimeDelta::seconds(1);

/// Compares the wall clock with the monotonic one, which cannot be set.
pub(crate) struct Timekeeper {
    clock: Clock,
    last: Option<(DateTime<Utc>, Instant)>,
}

impl Timekeeper {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, last: None }
    }

    /// The time, and by how much the wall clock jumped since the last call.
    pub(crate) fn now(&mut self) -> (DateTime<Utc>, Option<TimeDelta>) {
        let (now, instant) = ((self.clock)(), Instant::now());
        let last = self.last.replace((now, instant));
        let jump = last.and_then(|(wall, before)| {
            let elapsed = TimeDelta::from_std(instant.duration_since(before)).ok()?;
            let jump = now - wall - elapsed;
            (jump.abs() > TOLERANCE).then_some(jump)
        });
        (now, jump)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn detects_jump_of_wall_clock_only() {
        let set = Arc::new(AtomicI64::new(0));
        let (begin, by) = (Instant::now(), Arc::clone(&set));
        let mut keeper = Timekeeper::new(Arc::new(move || {
            let elapsed = TimeDelta::from_std(begin.elapsed()).unwrap_or_default();
            DateTime::UNIX_EPOCH + elapsed + TimeDelta::seconds(by.load(Ordering::Relaxed))
        }));
        assert_eq!(keeper.now().1, None);
        tokio::time::sleep(Duration::from_secs(7200)).await;
        assert_eq!(keeper.now().1, None);
        for (to, jump) in [(3600, 3600), (3601, 0), (0, -3601)] {
            set.store(to, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(10)).await;
            let expected = (jump != 0).then(|| TimeDelta::seconds(jump));
            assert_eq!(keeper.now().1, expected);
        }
    }
}
