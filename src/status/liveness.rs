//! Whether the daemon's loop is alive. The loop says by when it will be heard of again, on a clock that nobody can set,
//! and whoever asks sees whether it is late.

use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::text::{duration, time};

/// A loop that is this late is not alive any more.
const GRACE: Duration = Duration::from_secs(60);

/// How long one observation or one step may take. Each is a few calls to the engine, which end after a minute at most.
const STEP_LIMIT: Duration = Duration::from_secs(300);

/// What the loop said last. Clones share it.
#[derive(Clone, Debug)]
pub struct Liveness(Arc<watch::Sender<Expected>>);

#[derive(Clone, Copy, Debug)]
struct Expected {
    is_working: bool,
    /// `None` where that is further away than the clock can tell.
    by: Option<Instant>,
    /// Since when nothing has answered at a socket that may be dead for good.
    unreachable_since: Option<Instant>,
}

impl Default for Liveness {
    /// A loop that begins to work now.
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Expected::working())))
    }
}

impl Expected {
    fn working() -> Self {
        Self {
            is_working: true,
            by: Instant::now().checked_add(STEP_LIMIT),
            unreachable_since: None,
        }
    }
}

impl Liveness {
    /// The loop begins another observation or another step.
    pub fn works(&self) {
        self.0.send_modify(|expected| {
            *expected = Expected {
                unreachable_since: expected.unreachable_since,
                ..Expected::working()
            };
        });
    }

    /// The loop has nothing to do until it wakes, after this time at the latest.
    pub fn wakes_in(&self, wait: Duration) {
        self.0.send_modify(|expected| {
            expected.is_working = false;
            expected.by = Instant::now().checked_add(wait);
        });
    }

    /// Since when nothing has answered at a socket that may be dead for good, if so.
    pub fn set_unreachable_since(&self, since: Option<Instant>) {
        self.0.send_modify(|expected| expected.unreachable_since = since);
    }

    /// Why the loop is not alive, if so: it is more than a minute late, or has had no engine for as long.
    pub fn problem(&self) -> Option<String> {
        let Expected {
            is_working,
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
        let what = if is_working {
            "ended an observation or a step"
        } else {
            "woken"
        };
        let at = time::text(Utc::now() - TimeDelta::from_std(late).unwrap_or_default());
        let late = duration::text(late);
        Some(format!("the loop should have {what} at {at} and is {late} late"))
    }
}
