//! The trigger: announces the runs of the schedule, one at a time.

use std::time::Duration;

use chrono::{DateTime, FixedOffset, TimeDelta, Utc};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::time::sleep;

use super::Schedule;
use crate::text::time;

/// How often the trigger checks the clock while nothing is due, and by how much the clock may be set back unnoticed.
///
/// A run is due by the wall clock, which may be set in the meantime, or advance while the host sleeps.
const CLOCK_CHECK: Duration = Duration::from_secs(60);

/// A run that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The time in the schedule, in whole seconds and without the jitter.
    pub due: DateTime<FixedOffset>,
}

/// Announces the runs of a schedule.
#[derive(Debug)]
pub struct Trigger {
    schedule: Schedule,
    jitter: Duration,
    /// The next run and its random delay; `None` if the schedule has no further run.
    next: Option<(Tick, Duration)>,
    /// When the next run was computed.
    armed: DateTime<Utc>,
}

impl Trigger {
    /// Announces the runs from now on, each delayed by a random time of up to `jitter`.
    pub fn new(schedule: Schedule, jitter: Duration) -> Self {
        let mut trigger = Self {
            schedule,
            jitter,
            next: None,
            armed: Utc::now(),
        };
        trigger.arm(None);
        trigger
    }

    /// Waits for the next run. A run that became due since the last call is returned at once; several such runs count
    /// as one. `None` if the schedule has no further run. Cancel safe.
    pub async fn next(&mut self) -> Option<Tick> {
        loop {
            let (tick, _) = self.next?;
            let now = Utc::now();
            if is_set_back(self.armed, now) {
                tracing::warn!(
                    due = time::text(tick.due),
                    "system clock was set back; rescheduling the next run"
                );
                self.arm(None);
                continue;
            }
            match (self.next_run()? - now).to_std() {
                Ok(left) if !left.is_zero() => sleep(left.min(CLOCK_CHECK)).await,
                _ => {
                    self.arm(Some(tick.due.to_utc()));
                    return Some(tick);
                }
            }
        }
    }

    /// When the next run starts, including its jitter; `None` if the schedule has no further run.
    pub fn next_run(&self) -> Option<DateTime<Utc>> {
        self.next.map(|(tick, delay)| tick.due.to_utc() + delay)
    }

    /// Computes the run after the `last` one.
    fn arm(&mut self, last: Option<DateTime<Utc>>) {
        self.armed = Utc::now();
        let due = self.schedule.following(last, self.armed);
        self.next = due.map(|due| (Tick { due }, random_up_to(self.jitter)));
    }
}

/// Whether the clock was set back far enough to matter. After a correction by seconds, a run could be announced twice.
fn is_set_back(armed: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    TimeDelta::from_std(CLOCK_CHECK).is_ok_and(|check| now + check < armed)
}

fn random_up_to(limit: Duration) -> Duration {
    let mut bytes = [0; 4];
    // Without random numbers, a run starts when it is due.
    let _ = SystemRandom::new().fill(&mut bytes);
    limit.mul_f64(f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_set_back_by_over_a_minute_triggers_a_check() {
        let at = |time: &str| {
            let text = format!("2026-01-01T{time}Z");
            DateTime::parse_from_rfc3339(&text).unwrap().to_utc()
        };
        let armed = at("12:00:00");
        assert!(!is_set_back(armed, at("12:10:00")));
        assert!(!is_set_back(armed, at("11:59:30")));
        assert!(is_set_back(armed, at("11:58:30")));
    }

    #[test]
    fn jitter_varies_within_its_bounds() {
        let limit = Duration::from_secs(10);
        let delays: Vec<Duration> = (0..100).map(|_| random_up_to(limit)).collect();
        assert!(delays.iter().all(|delay| *delay <= limit));
        assert!(
            delays.iter().any(|delay| *delay > limit / 2) && delays.iter().any(|delay| *delay < limit / 2)
        );
        assert_eq!(random_up_to(Duration::ZERO), Duration::ZERO);
    }
}
