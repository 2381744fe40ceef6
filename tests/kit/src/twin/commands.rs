//! The commands that change containers and images, as the engine carries them out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use delegate_upgrader::container::ApiVersion;
use delegate_upgrader::document::TRIAL_COMMAND;
use delegate_upgrader::engine::EngineError;
use serde_json::{Value, json};

use super::container::{Container, Link, Status};
use super::document::merge;
use super::events::Happened;
use super::state::State;

pub(super) type Outcome<T> = Result<T, EngineError>;

pub(super) fn conflict<T>(message: impl Into<String>) -> Outcome<T> {
    Err(EngineError::Conflict(message.into()))
}

pub(super) fn refused<T>(status: u16, message: impl Into<String>) -> Outcome<T> {
    Err(EngineError::Refused {
        status,
        message: message.into(),
    })
}

impl State {
    /// The container of that id, short id or name.
    pub(super) fn find(&self, id: &str) -> Outcome<usize> {
        self.containers
            .iter()
            .position(|container| container.id == id || container.name == id)
            .or_else(|| {
                self.containers
                    .iter()
                    .position(|container| id.len() >= 12 && container.id.starts_with(id))
            })
            .ok_or_else(|| EngineError::NotFound(format!("No such container: {id}")))
    }

    pub(super) fn create(&mut self, name: &str, platform: Option<&str>, body: &Value) -> Outcome<String> {
        self.check_name(name)?;
        let reference = body["Image"].as_str().unwrap_or_default();
        let Some(image) = self.images.find(reference).cloned() else {
            return Err(EngineError::NotFound(format!("No such image: {reference}")));
        };
        if let Some(platform) = platform
            && platform
                .split('/')
                .nth(1)
                .is_some_and(|wanted| wanted != image.architecture)
        {
            return Err(EngineError::NotFound(format!(
                "image with reference {reference} was found but does not match the specified platform: wanted {platform}"
            )));
        }
        let id = self.new_id();
        let behaviour = match body["Entrypoint"][0].as_str() {
            Some(path) if path == TRIAL_COMMAND => image.behaviour.with_entry_point(path),
            _ => image.behaviour.clone(),
        };
        let mut body = merge(body, &image.config, &id);
        if let Some(garble) = &mut self.garble {
            garble(&mut body.config);
        }
        if body.endpoints.len() > 1 && self.settings.api < ApiVersion::new(1, 44) {
            return refused(
                400,
                "Container cannot be connected to network endpoints: more than one",
            );
        }
        let policy = body.host_config["RestartPolicy"]["Name"]
            .as_str()
            .unwrap_or_default();
        if body.host_config["AutoRemove"] == Value::Bool(true) && policy != "no" {
            return refused(400, "can't create 'AutoRemove' container with restart policy");
        }
        let links = self.links(&mut body.host_config)?;
        self.containers.push(Container {
            id: id.clone(),
            name: name.to_owned(),
            body,
            image_id: image.id,
            image_reference: reference.to_owned(),
            behaviour,
            created: self.now,
            status: Status::Created,
            started: None,
            finished: None,
            exit_code: 0,
            error: String::new(),
            restart_count: 0,
            manually_stopped: false,
            starts_again: false,
            backoff: Duration::ZERO,
            addresses: BTreeMap::new(),
            ports: BTreeSet::new(),
            probed: Vec::new(),
            links,
            copied: BTreeMap::new(),
            printed: Vec::new(),
        });
        self.log(self.containers.len() - 1, Happened::Created);
        Ok(id)
    }

    /// Removes the links from a create body: `name:alias`, or `/name:/own-name/alias` as a document shows them.
    pub(super) fn links(&self, host_config: &mut Value) -> Outcome<Vec<Link>> {
        let given = host_config.as_object_mut().and_then(|all| all.remove("Links"));
        let given = given.as_ref().and_then(Value::as_array).into_iter().flatten();
        given
            .filter_map(Value::as_str)
            .map(|link| {
                let (name, alias) = link.split_once(':').unwrap_or((link, link));
                let target = &self.containers[self.find(name.trim_start_matches('/'))?];
                Ok(Link {
                    target: target.id.clone(),
                    name: target.name.clone(),
                    alias: alias.rsplit('/').next().unwrap_or_default().to_owned(),
                })
            })
            .collect()
    }

    pub(super) fn check_name(&self, name: &str) -> Outcome<()> {
        let sound = name.len() >= 2
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
        if !sound {
            return refused(
                400,
                format!("Invalid container name ({name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"),
            );
        }
        match self.containers.iter().find(|container| container.name == name) {
            Some(owner) => conflict(format!(
                "Conflict. The container name \"/{name}\" is already in use by container \"{}\". You have to remove \
                 (or rename) that container to be able to reuse that name.",
                owner.id
            )),
            None => Ok(()),
        }
    }

    pub(super) fn rename(&mut self, id: &str, name: &str) -> Outcome<()> {
        let index = self.find(id)?;
        if self.containers[index].name == name {
            return refused(400, "Renaming a container with the same name as its current name");
        }
        if let Status::Restarting { .. } = self.containers[index].status {
            // As seen on 20.10: its network ends with its process.
            return refused(404, "no such object: sandbox not found");
        }
        self.check_name(name)?;
        let container = &mut self.containers[index];
        let from = std::mem::replace(&mut container.name, name.to_owned());
        if let Status::Removing { gone } = &mut container.status {
            // Engines lose track of such a container: it stays in this state until the engine restarts.
            *gone = None;
        }
        self.log(index, Happened::Renamed { from });
        let (id, name) = (self.containers[index].id.clone(), name.to_owned());
        for link in self
            .containers
            .iter_mut()
            .flat_map(|container| &mut container.links)
        {
            if link.target == id {
                link.name.clone_from(&name);
            }
        }
        Ok(())
    }

    pub(super) fn start(&mut self, id: &str) -> Outcome<()> {
        let index = self.find(id)?;
        match &self.containers[index].status {
            Status::Running(_) | Status::Restarting { .. } => return Ok(()),
            Status::Paused(_) => {
                return conflict("cannot start a paused container, try unpause instead");
            }
            Status::Removing { .. } => {
                return conflict("container is marked for removal and cannot be started");
            }
            Status::Created | Status::Exited => {}
        }
        let outcome = self.start_process(index);
        let container = &mut self.containers[index];
        match outcome {
            Ok(()) => {
                container.restart_count = 0;
                container.manually_stopped = false;
                container.backoff = Duration::ZERO;
            }
            Err(error) => {
                container.exit_code = 128;
                container.error = error.to_string();
                if container.auto_remove() {
                    self.take_away(index);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    pub(super) fn stop(&mut self, id: &str, grace: Duration) -> Outcome<()> {
        let index = self.find(id)?;
        let now = self.now;
        let container = &mut self.containers[index];
        if let Status::Paused(life) = &container.status {
            // The container gets its signal, and continues.
            container.status = Status::Running(life.clone());
        }
        match &mut container.status {
            Status::Running(life) => {
                container.manually_stopped = true;
                let kill_at = now + grace;
                life.kill_at = Some(life.kill_at.map_or(kill_at, |earlier| earlier.min(kill_at)));
                let again = life.signalled.is_some();
                life.signalled.get_or_insert(now);
                self.log(
                    index,
                    if again {
                        Happened::SignalledAgain
                    } else {
                        Happened::Signalled
                    },
                );
            }
            Status::Restarting { .. } => {
                container.manually_stopped = true;
                container.status = Status::Exited;
            }
            Status::Created | Status::Paused(_) | Status::Removing { .. } | Status::Exited => {}
        }
        self.settle(now);
        Ok(())
    }

    /// A stop, and then a start, whatever the restart policy.
    pub(super) fn restart(&mut self, id: &str, grace: Duration) -> Outcome<()> {
        let index = self.find(id)?;
        if self.containers[index].life().is_some() {
            self.containers[index].starts_again = true;
            return self.stop(id, grace);
        }
        if let Status::Restarting { .. } = self.containers[index].status {
            self.containers[index].status = Status::Exited;
        }
        self.start(id)
    }

    pub(super) fn set_restart_policy(&mut self, id: &str, policy: &Value) -> Outcome<()> {
        let index = self.find(id)?;
        let name = match policy["Name"].as_str() {
            None | Some("") => "no",
            Some(name) if ["no", "always", "unless-stopped", "on-failure"].contains(&name) => name,
            Some(other) => return refused(400, format!("invalid restart policy '{other}'")),
        };
        let container = &mut self.containers[index];
        if matches!(container.status, Status::Removing { .. }) {
            return conflict("Container is marked for removal and cannot be \"update\".");
        }
        if container.auto_remove() && name != "no" {
            return conflict(
                "Restart policy cannot be updated because AutoRemove is enabled for the container",
            );
        }
        let retries = policy["MaximumRetryCount"].as_u64().unwrap_or_default();
        container.body.host_config["RestartPolicy"] = json!({ "Name": name, "MaximumRetryCount": retries });
        Ok(())
    }

    pub(super) fn connect(&mut self, network: &str, id: &str, endpoint: &Value) -> Outcome<()> {
        if !self.networks.contains(network) {
            return Err(EngineError::NotFound(format!("network {network} not found")));
        }
        let index = self.find(id)?;
        if self.containers[index].body.endpoints.contains_key(network) {
            return Ok(());
        }
        let mode = self.containers[index].network_mode();
        if mode == "host" || mode.starts_with("container:") {
            return refused(
                403,
                "container sharing network namespace with another container or host cannot be connected to any other \
                 network",
            );
        }
        let running = self.containers[index].life().is_some();
        self.containers[index]
            .body
            .endpoints
            .insert(network.to_owned(), endpoint.clone());
        if running {
            let address = self.addresses_for(index)?.remove(network);
            self.containers[index]
                .addresses
                .extend(address.map(|address| (network.to_owned(), address)));
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, id: &str) -> Outcome<()> {
        let Ok(index) = self.find(id) else {
            return Ok(());
        };
        let container = &self.containers[index];
        if matches!(container.status, Status::Removing { .. }) {
            return Ok(());
        }
        if container.is_running() {
            return conflict(format!(
                "You cannot remove a running container {}. Stop the container before attempting removal or force \
                 remove",
                container.id
            ));
        }
        self.take_away(index);
        Ok(())
    }

    pub(super) fn remove_image(&mut self, id: &str) -> Outcome<()> {
        let Some(image) = self.images.find(id).map(|image| image.id.clone()) else {
            return Ok(());
        };
        if let Some(user) = self
            .containers
            .iter()
            .find(|container| container.image_id == image)
        {
            let kind = if user.is_running() { "running" } else { "stopped" };
            return conflict(format!(
                "conflict: unable to delete {id} (must be forced) - image is being used by {kind} container {}",
                user.id
            ));
        }
        if self.images.tags_of(&image).len() > 1 {
            return conflict(format!(
                "conflict: unable to delete {id} (must be forced) - image is referenced in multiple repositories"
            ));
        }
        self.images.remove(&image);
        Ok(())
    }
}
