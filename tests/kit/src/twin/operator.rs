//! What an operator does on the host with the docker command.

use std::time::Duration;

use delegate_upgrader::engine::EngineError;

use super::behaviour::OnStop;
use super::container::Status;
use super::events::Cause;
use super::state::State;

/// How long `docker stop` and `docker restart` wait before they kill.
const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorAction {
    /// `docker rm --force`.
    Remove(String),
    /// `docker rename`.
    Rename(String, String),
    /// `docker stop`.
    Stop(String),
    /// `docker restart`; the ten seconds of its stop pass at once.
    Restart(String),
    /// `docker container prune`: removes every container that is not running.
    PruneContainers,
    /// `docker image prune --all`: removes every image that no container uses.
    PruneImages,
}

impl State {
    pub(super) fn by_hand(&mut self, hand: OperatorAction) -> Result<(), EngineError> {
        if self.down_until.is_some() {
            return Err(EngineError::Unreachable("connection refused".to_owned()));
        }
        self.cause = Cause::OperatorAction;
        let outcome = self.obey(hand);
        self.cause = Cause::Itself;
        outcome
    }

    fn obey(&mut self, hand: OperatorAction) -> Result<(), EngineError> {
        match hand {
            OperatorAction::Remove(name) => {
                let index = self.find(&name)?;
                let id = self.containers[index].id.clone();
                if self.containers[index].is_running() {
                    self.containers[index].manually_stopped = true;
                    self.exit(index, 137);
                }
                if let Ok(index) = self.find(&id) {
                    self.take_away(index);
                }
                Ok(())
            }
            OperatorAction::Rename(from, to) => self.rename(&from, &to),
            OperatorAction::Stop(name) => self.stop(&name, DEFAULT_GRACE),
            OperatorAction::Restart(name) => {
                let index = self.find(&name)?;
                let container = &mut self.containers[index];
                if container.life().is_some() {
                    let obeys =
                        matches!(container.behaviour.on_stop, OnStop::Drain(time) if time <= DEFAULT_GRACE);
                    container.manually_stopped = true;
                    self.exit(index, if obeys { 0 } else { 137 });
                } else if matches!(container.status, Status::Restarting { .. }) {
                    container.status = Status::Exited;
                }
                self.start(&name)
            }
            OperatorAction::PruneContainers => {
                let stopped = |status: &Status| matches!(status, Status::Created | Status::Exited);
                while let Some(index) = self
                    .containers
                    .iter()
                    .position(|container| stopped(&container.status))
                {
                    self.take_away(index);
                }
                Ok(())
            }
            OperatorAction::PruneImages => {
                for id in self.images.ids() {
                    if !self.containers.iter().any(|container| container.image_id == id) {
                        self.images.remove(&id);
                    }
                }
                Ok(())
            }
        }
    }
}
