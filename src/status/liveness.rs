//! Whether the daemon's loop is alive. Before each step and each wait, the loop publishes a deadline for its next
//! report, on the monotonic clock, so that changes of the system time do not matter.

use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::text::{duration, time};

/// The loop counts as dead if it is late by more than this, or its mounted socket has had no engine for longer than this.
const GRACE: Duration = Duration::from_secs(60);

/// How long one observation or one step may take: each makes a few calls to the engine, which end after a minute at most.
const STEP_LIMIT: Duration = Duration::from_secs(300);

/// The loop's latest report. Clones share it.
#[derive(Clone, Debug)]
pub struct Liveness(Arc<watch::Sender<Expected>>);

#[derive(Clone, Copy, Debug)]
struct Expected {
    /// The end of the loop's work or wait, for the sentence about a loop that is late.
    end: &'static str,
    /// `None` if the deadline is beyond the range of the clock.
    by: Option<Instant>,
    /// Since when there has been no engine at a mounted socket, which may stay dead.
    unreachable_since: Option<Instant>,
}

impl Default for Liveness {
    /// The state of a loop that starts working now.
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Expected::working())))
    }
}

impl Expected {
    fn working() -> Self {
        Self {
            end: "ended an observation or a step",
            by: Instant::now().checked_add(STEP_LIMIT),
            unreachable_since: None,
        }
    }
}

impl Liveness {
    /// Reports that the loop starts another observation or another step.
    pub fn works(&self) {
        self.0.send_modify(|expected| {
            *expected = Expected {
                unreachable_since: expected.unreachable_since,
                ..Expected::working()
            };
        });
    }

    /// Reports that the loop is idle until it wakes, after `wait` at the latest.
    pub fn wakes_in(&self, wait: Duration) {
        self.0.send_modify(|expected| {
            expected.end = "woken";
            expected.by = Instant::now().checked_add(wait);
        });
    }

    /// Sets since when there has been no engine at a mounted socket, which may stay dead; `None` if there is one.
    pub fn set_unreachable_since(&self, since: Option<Instant>) {
        self.0.send_modify(|expected| expected.unreachable_since = since);
    }

    /// Why the loop counts as dead, if it does: it is more than a minute late, or there has been no engine at its
    /// mounted socket for more than a minute.
    pub fn problem(&self) -> Option<String> {
        let Expected {
            end,
            by,
            unreachable_since,
        } = *self.0.borrow();
        if let Some(since) = unreachable_since.filter(|since| since.elapsed() > GRACE) {
            let lasting = duration::text(Duration::from_secs(since.elapsed().as_secs()));
            return Some(format!(
                "nothing has answered at the mounted Docker socket for {lasting}"
            ));
        }
        let late = Instant::now().saturating_duration_since(by?);
        if late <= GRACE {
            return None;
        }
        let at = time::text(Utc::now() - TimeDelta::from_std(late).unwrap_or_default());
        let late = duration::text(late);
        Some(format!("the loop should have {end} at {at} and is {late} late"))
    }
}
