//! What a person does at the host, with the client's own commands.

use std::time::Duration;

use delegate_upgrader::engine::EngineError;

use super::behaviour::OnStop;
use super::container::Status;
use super::state::{Cause, State};

/// How long `docker stop` and `docker restart` wait before they kill.
const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hand {
    /// `docker rm --force`.
    Remove(String),
    /// `docker rename`.
    Rename(String, String),
    /// `docker stop`.
    Stop(String),
    /// `docker restart`. What it does within its ten seconds is done at once.
    Restart(String),
    /// `docker container prune`: every container that is not running goes.
    PruneContainers,
    /// `docker image prune --all`: every image that no container uses goes.
    PruneImages,
}

impl State {
    pub fn by_hand(&mut self, hand: Hand) -> Result<(), EngineError> {
        if self.down_until.is_some() {
            return Err(EngineError::Unreachable("connection refused".to_owned()));
        }
        self.cause = Cause::Hand;
        let outcome = self.obey(hand);
        self.cause = Cause::Itself;
        outcome
    }

    fn obey(&mut self, hand: Hand) -> Result<(), EngineError> {
        match hand {
            Hand::Remove(name) => {
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
            Hand::Rename(from, to) => self.rename(&from, &to),
            Hand::Stop(name) => self.stop(&name, DEFAULT_GRACE),
            Hand::Restart(name) => {
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
            Hand::PruneContainers => {
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
            Hand::PruneImages => {
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
