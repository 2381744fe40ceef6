//! The behaviour of the process in a container, which its image determines.

use std::time::Duration;

/// How a container of an image behaves; the default is a delegate that is healthy at once and stops at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// The time from its start until it first answers as healthy.
    pub ready_after: Duration,
    /// How it answers from then on.
    pub health: Wellness,
    /// When and how it ends by itself, if it does.
    pub exits: Option<Exit>,
    /// Its reaction to its stop signal.
    pub on_stop: OnStop,
    /// The port it listens on: two containers on the host's network collide, and the later one ends with code 1.
    pub port: u16,
    /// The engine cannot start it at all, for this reason.
    pub start_error: Option<String>,
    /// Whether the image has `/bin/true`.
    pub has_true: bool,
    /// The lines it prints as each of its lives begins, on both streams in turn, the first on standard output.
    pub prints: Vec<String>,
}

/// How a process answers a health probe once it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wellness {
    /// Healthy.
    Steady,
    /// Never healthy.
    Never,
    /// Healthy and unhealthy in turns.
    Flaps {
        /// How long it stays healthy.
        up: Duration,
        /// How long it stays unhealthy.
        down: Duration,
    },
    /// Healthy for that long, then never again.
    For(Duration),
}

/// The end of a process by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The time of its end after its start.
    pub after: Duration,
    /// Its exit code.
    pub code: i64,
}

/// The reaction of a process to its stop signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStop {
    /// Finishes its tasks for that long, then exits with 0.
    Drain(Duration),
    /// Ignores the signal.
    Ignore,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            ready_after: Duration::ZERO,
            health: Wellness::Steady,
            exits: None,
            on_stop: OnStop::Drain(Duration::ZERO),
            port: 3460,
            start_error: None,
            has_true: false,
            prints: Vec::new(),
        }
    }
}

impl Behaviour {
    /// Finishes its tasks for that long after its stop signal.
    pub fn drains(time: Duration) -> Self {
        Self {
            on_stop: OnStop::Drain(time),
            ..Self::default()
        }
    }

    /// Ignores its stop signal.
    pub fn ignores_stop() -> Self {
        Self {
            on_stop: OnStop::Ignore,
            ..Self::default()
        }
    }

    /// Ends by itself.
    pub fn exits(after: Duration, code: i64) -> Self {
        Self {
            exits: Some(Exit { after, code }),
            ..Self::default()
        }
    }

    /// Is never healthy.
    pub fn never_healthy() -> Self {
        Self::default().with_health(Wellness::Never)
    }

    /// Becomes healthy only that long after its start.
    pub fn slow(ready_after: Duration) -> Self {
        Self::default().ready_in(ready_after)
    }

    /// Alternates between healthy and unhealthy.
    pub fn flaps(up: Duration, down: Duration) -> Self {
        Self::default().with_health(Wellness::Flaps { up, down })
    }

    /// The behaviour of a container of the image with this entry point instead.
    pub(super) fn with_entry_point(&self, path: &str) -> Self {
        let missing = format!("exec: {path:?}: stat {path}: no such file or directory");
        Self {
            start_error: (!self.has_true).then_some(missing),
            ..Self::exits(Duration::ZERO, 0)
        }
    }

    /// Is healthy only that long after its start.
    #[must_use]
    pub fn ready_in(self, ready_after: Duration) -> Self {
        Self { ready_after, ..self }
    }

    #[must_use]
    pub fn with_health(self, health: Wellness) -> Self {
        Self { health, ..self }
    }

    /// Cannot be started: the engine answers with this message.
    #[must_use]
    pub fn refused(self, error: &str) -> Self {
        Self {
            start_error: Some(error.to_owned()),
            ..self
        }
    }

    /// Prints these lines when it starts.
    #[must_use]
    pub fn printing<const N: usize>(self, lines: [&str; N]) -> Self {
        Self {
            prints: lines.map(str::to_owned).into(),
            ..self
        }
    }

    /// The result of a probe at that time after the start.
    pub fn is_healthy_at(&self, age: Duration) -> bool {
        let Some(ready) = age.checked_sub(self.ready_after) else {
            return false;
        };
        match self.health {
            Wellness::Steady => true,
            Wellness::Never => false,
            Wellness::Flaps { up, down } => ready.as_nanos() % (up + down).as_nanos().max(1) < up.as_nanos(),
            Wellness::For(time) => ready < time,
        }
    }
}
