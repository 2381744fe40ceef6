//! An operator's actions on the host with the docker command.

use std::time::Duration;

use delegate_upgrader::engine::EngineError;
use serde_json::{Value, json};

use super::behaviour::OnStop;
use super::commands::{conflict, refused};
use super::container::Status;
use super::events::{Cause, Happened};
use super::state::State;

/// The time that `docker stop` and `docker restart` wait before they kill.
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
    /// `docker start`.
    Start(String),
    /// `docker restart`; the ten seconds of its stop pass at once.
    Restart(String),
    /// `docker kill`.
    Kill(String),
    /// `docker pause`.
    Pause(String),
    /// `docker unpause`.
    Unpause(String),
    /// `docker update --memory`, in bytes.
    SetMemory(String, u64),
    /// `docker update --restart`, with a policy's name.
    SetRestartPolicy(String, String),
    /// `docker network connect`: a container to a network.
    Connect(String, String),
    /// `docker network disconnect`: a container from a network.
    Disconnect(String, String),
    /// `docker create`, with a body.
    Create(String, Box<Value>),
    /// `docker rmi --force`, of a reference or an id.
    RemoveImage(String),
    /// `docker tag`: gives the first image the second reference.
    Tag(String, String),
    /// `docker container prune`: removes every container that is not running.
    PruneContainers,
    /// `docker image prune --all`: removes every image that no container uses.
    PruneImages,
}

impl OperatorAction {
    /// The operator's action, in a word or two.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Remove(_) => "removes",
            Self::Rename(..) => "renames",
            Self::Stop(_) => "stops",
            Self::Start(_) => "starts",
            Self::Restart(_) => "restarts",
            Self::Kill(_) => "kills",
            Self::Pause(_) => "pauses",
            Self::Unpause(_) => "unpauses",
            Self::SetMemory(..) => "sets memory",
            Self::SetRestartPolicy(..) => "sets policy",
            Self::Connect(..) => "connects",
            Self::Disconnect(..) => "disconnects",
            Self::Create(..) => "creates",
            Self::RemoveImage(_) => "removes image",
            Self::Tag(..) => "tags",
            Self::PruneContainers => "prunes containers",
            Self::PruneImages => "prunes images",
        }
    }
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
                    self.log(index, Happened::SignalledAgain);
                    self.exit(index, 137);
                }
                if let Ok(index) = self.find(&id) {
                    self.take_away(index);
                }
                Ok(())
            }
            OperatorAction::Rename(from, to) => self.rename(&from, &to),
            OperatorAction::Stop(name) => self.stop(&name, DEFAULT_GRACE),
            OperatorAction::Start(name) => self.start(&name),
            OperatorAction::Kill(name) => self.kill(&name),
            OperatorAction::Pause(name) => self.pause(&name),
            OperatorAction::Unpause(name) => self.unpause(&name),
            OperatorAction::SetMemory(name, bytes) => {
                let index = self.find(&name)?;
                self.containers[index].body.host_config["Memory"] = bytes.into();
                Ok(())
            }
            OperatorAction::SetRestartPolicy(name, policy) => {
                self.set_restart_policy(&name, &json!({ "Name": policy, "MaximumRetryCount": 0 }))
            }
            OperatorAction::Connect(name, network) => self.connect(&network, &name, &json!({})),
            OperatorAction::Disconnect(name, network) => self.disconnect(&network, &name),
            OperatorAction::Create(name, body) => self.create(&name, None, &body).map(|_| ()),
            OperatorAction::RemoveImage(image) => self.remove_image_by_force(&image),
            OperatorAction::Tag(image, reference) => match self.images.find(&image).cloned() {
                Some(image) => {
                    self.images.add(&reference, image);
                    Ok(())
                }
                None => Err(EngineError::NotFound(format!("No such image: {image}"))),
            },
            OperatorAction::Restart(name) => {
                let index = self.find(&name)?;
                let container = &mut self.containers[index];
                if container.life().is_some() {
                    let obeys =
                        matches!(container.behaviour.on_stop, OnStop::Drain(time) if time <= DEFAULT_GRACE);
                    container.manually_stopped = true;
                    self.log(index, Happened::SignalledAgain);
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

    fn kill(&mut self, name: &str) -> Result<(), EngineError> {
        let index = self.find(name)?;
        let container = &mut self.containers[index];
        if !container.is_running() {
            return conflict(format!("Container {} is not running", container.id));
        }
        container.manually_stopped = true;
        if container.life().is_some() {
            self.log(index, Happened::SignalledAgain);
            self.exit(index, 137);
        } else {
            container.status = Status::Exited;
        }
        Ok(())
    }

    pub(super) fn pause(&mut self, name: &str) -> Result<(), EngineError> {
        let index = self.find(name)?;
        let (now, manager_reachable) = (self.now, self.manager_reachable);
        let container = &mut self.containers[index];
        container.probe_until(now, manager_reachable);
        let Status::Running(life) = &container.status else {
            return conflict(format!(
                "Container {} is not running, or paused already",
                container.id
            ));
        };
        container.status = Status::Paused(life.clone());
        Ok(())
    }

    fn unpause(&mut self, name: &str) -> Result<(), EngineError> {
        let index = self.find(name)?;
        let container = &mut self.containers[index];
        let Status::Paused(life) = &container.status else {
            return conflict(format!("Container {} is not paused", container.id));
        };
        container.status = Status::Running(life.clone());
        Ok(())
    }

    fn disconnect(&mut self, network: &str, name: &str) -> Result<(), EngineError> {
        let index = self.find(name)?;
        let container = &mut self.containers[index];
        if container.network_mode() == "host" {
            return refused(
                403,
                "container cannot be disconnected from host network or connected to host network",
            );
        }
        if container.body.endpoints.remove(network).is_none() {
            return Err(EngineError::NotFound(format!(
                "container {} is not connected to the network {network}",
                container.id
            )));
        }
        container.addresses.remove(network);
        Ok(())
    }

    /// A reference is removed in any case; the image itself only if no process uses it and it has no other name.
    fn remove_image_by_force(&mut self, reference_or_id: &str) -> Result<(), EngineError> {
        let Some(id) = self.images.find(reference_or_id).map(|image| image.id.clone()) else {
            return Err(EngineError::NotFound(format!("No such image: {reference_or_id}")));
        };
        let is_id = self.images.untag(reference_or_id).is_none();
        let mut users = self
            .containers
            .iter()
            .filter(|container| container.image_id == id);
        let user = users.find(|container| container.is_running());
        if let Some(user) = user.filter(|_| is_id) {
            return conflict(format!(
                "conflict: unable to delete {reference_or_id} (cannot be forced) - image is being used by running \
                 container {}",
                user.id
            ));
        }
        if is_id || user.is_none() && self.images.tags_of(&id).is_empty() {
            self.images.remove(&id);
        }
        Ok(())
    }
}
