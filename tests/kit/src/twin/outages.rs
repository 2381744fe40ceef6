//! The end of the twin, the fate of its containers meanwhile, and its return.

use std::time::Duration;

use super::behaviour::OnStop;
use super::container::Status;
use super::events::{Cause, Happened};
use super::state::State;

/// The time that an engine waits for its containers when it shuts down.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(15);
/// The time that an engine, started after a kill, waits for each container that it finds running.
const RESTORE_PATIENCE: Duration = Duration::from_secs(10);

/// The way in which an engine goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Down {
    /// It stops its containers, and waits a while for them.
    InOrder,
    /// It leaves its containers alone: `live-restore`.
    Live,
    /// It is killed; the next engine ends its containers.
    Killed,
    /// Engine and containers end at once.
    PowerLoss,
}

impl State {
    /// The engine goes away.
    pub(super) fn go_down(&mut self, downtime: Duration, down: Down) {
        self.restarts += 1;
        self.down = down;
        for container in &mut self.containers {
            container.starts_again = false;
        }
        match down {
            Down::InOrder => self.end_all(Some(SHUTDOWN_PATIENCE)),
            Down::PowerLoss => self.end_all(None),
            Down::Live | Down::Killed => {
                for container in &mut self.containers {
                    // The engine that counted the seconds of the stop is gone.
                    if let Status::Running(life) | Status::Paused(life) = &mut container.status {
                        life.kill_at = None;
                    }
                }
            }
        }
        self.down_until = Some(self.now + downtime);
    }

    /// All containers end: those that drain within the patience end with 0, the others are killed.
    pub(super) fn end_all(&mut self, patience: Option<Duration>) {
        self.cause = Cause::Engine;
        for index in 0..self.containers.len() {
            let container = &self.containers[index];
            if container.life().is_some() {
                let obeys = matches!((container.behaviour.on_stop, patience), (OnStop::Drain(time), Some(patience)) if time <= patience);
                let code = if obeys { 0 } else { 137 };
                self.log(index, Happened::Exited { code });
                let container = &mut self.containers[index];
                container.finished = Some(self.now);
                container.exit_code = code;
            }
            let container = &mut self.containers[index];
            if container.is_running() {
                container.status = Status::Exited;
                container.addresses.clear();
            }
        }
        self.cause = Cause::Itself;
    }

    pub(super) fn boot(&mut self) {
        self.down_until = None;
        // The engine itself causes these events: the previous engine could not tell it about its containers.
        self.cause = Cause::Engine;
        if self.down == Down::Killed {
            // It signals its containers by itself, and reports that like a request.
            for index in 0..self.containers.len() {
                if self.containers[index].life().is_some() {
                    self.log(index, Happened::SignalledAgain);
                }
            }
            self.end_all(Some(RESTORE_PATIENCE));
            self.cause = Cause::Engine;
        }
        let mut index = 0;
        while let Some(container) = self.containers.get_mut(index) {
            // With live-restore, containers keep running; an ended one is noticed in a moment.
            if container.is_running() {
                index += 1;
                continue;
            }
            // Containers that were only created also vanish.
            if container.auto_remove() || matches!(container.status, Status::Removing { .. }) {
                self.take_away(index);
                continue;
            }
            if container.starts_with_engine() && matches!(container.status, Status::Exited) {
                container.restart_count = 0;
                container.manually_stopped = false;
                if let Err(error) = self.start_process(index) {
                    self.containers[index].error = error.to_string();
                }
            }
            index += 1;
        }
        self.cause = Cause::Itself;
    }
}
