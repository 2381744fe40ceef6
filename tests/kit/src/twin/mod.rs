//! An engine in memory that keeps Docker's rules: names are unique, a stop outlives its caller, restart policies
//! act, `--rm` containers vanish in their own time. The contract tests hold it to a real engine.
//!
//! Its time is tokio's clock, so hours pass at once if that clock is paused. It has no randomness and no task of
//! its own: everything that is due happens, in order, before the next observation.

mod behaviour;
mod calls;
mod commands;
mod container;
mod document;
mod events;
mod execs;
mod images;
mod operator;
mod outages;
mod port;
mod scene;
mod starting;
mod state;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;

pub use behaviour::{Behaviour, Exit, OnStop, Wellness};
pub use calls::{CLIENT_TIMEOUT, Call, Fault, Operation};
pub use events::{Cause, Event, Happened};
pub use images::Image;
pub use operator::OperatorAction;
pub use scene::{Glance, delegate_body};
pub use state::TwinSettings;

use state::State;

/// An engine in memory; clones are the same engine.
#[derive(Clone)]
pub struct Twin {
    state: Arc<Mutex<State>>,
    beginning: Instant,
    client: usize,
}

impl Default for Twin {
    fn default() -> Self {
        Self::new(TwinSettings::default())
    }
}

impl Twin {
    /// An empty host.
    pub fn new(settings: TwinSettings) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new(settings))),
            beginning: Instant::now(),
            client: 0,
        }
    }

    /// The same engine for another client: the number distinguishes its calls.
    #[must_use]
    pub fn client(&self, client: usize) -> Self {
        Self {
            client,
            ..self.clone()
        }
    }

    /// The current state.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap();
        state.settle(self.beginning.elapsed());
        state
    }

    /// The time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.beginning.elapsed()
    }

    /// The wall clock by which the twin writes its documents.
    pub fn wall_clock(&self) -> DateTime<Utc> {
        self.state().wall(self.elapsed())
    }
}
