//! Sets the scene on the twin, and observes it. None of this is a call: it is not logged, takes no time, and has no faults.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use delegate_upgrader::container::{ContainerId, ImageId, RunState};
use delegate_upgrader::engine::{EngineError, Storage};
use serde_json::{Value, json};

use super::Twin;
use super::behaviour::Behaviour;
use super::calls::{Call, Fault, Operation};
use super::container;
use super::events::Event;
use super::images::Image;
use super::operator::OperatorAction;
use super::outages::Down;

/// A container at a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    pub id: ContainerId,
    pub name: String,
    pub state: RunState,
    pub image: String,
    /// Its current restart policy.
    pub policy: String,
}

impl Twin {
    /// Sets the host's wall clock forward or back; earlier times in documents stay as they are.
    pub fn jump_clock(&self, by: TimeDelta) {
        self.state().jump_clock(by);
    }

    /// An image with a behaviour and no defaults of its own.
    pub fn image(&self, behaviour: Behaviour) -> Image {
        Image {
            id: format!("sha256:{}", self.state().new_id()),
            config: json!({ "Env": ["PATH=/bin"], "Cmd": ["/delegate"], "Labels": {} }),
            behaviour,
            architecture: "amd64".to_owned(),
            size: 500 * 1024 * 1024,
            pull_time: Duration::from_secs(2),
        }
    }

    /// Puts an image on the host.
    pub fn add_image(&self, reference: &str, image: Image) -> ImageId {
        let id = ImageId::new(image.id.clone());
        self.state().images.add(reference, image);
        id
    }

    /// Publishes an image in the registry; a tag may move.
    pub fn publish(&self, reference: &str, image: Image) -> ImageId {
        let id = ImageId::new(image.id.clone());
        self.state().images.publish(reference, image);
        id
    }

    /// Changes the behaviour of containers that are created from an image from now on.
    pub fn set_behaviour(&self, reference: &str, behaviour: &Behaviour) {
        self.state().images.set_behaviour(reference, behaviour);
    }

    /// Removes an image from the host, even if containers use it.
    pub fn remove_image(&self, id: &str) {
        self.state().images.remove(id);
    }

    /// Makes pulls of a reference fail with this message, or succeed again.
    pub fn break_pull(&self, reference: &str, message: Option<&str>) {
        self.state().images.break_pull(reference, message);
    }

    /// The images on the host.
    pub fn images(&self) -> Vec<ImageId> {
        self.state().images.ids().into_iter().map(ImageId::new).collect()
    }

    /// Sets what the engine reports about its storage.
    pub fn set_storage(&self, storage: Storage) {
        self.state().storage = storage;
    }

    /// Adds a network.
    pub fn add_network(&self, name: &str) {
        self.state().networks.insert(name.to_owned());
    }

    /// Removes a network; containers keep their endpoints there, and can no longer be started.
    pub fn remove_network(&self, name: &str) {
        self.state().networks.remove(name);
    }

    /// Changes the configuration of every container that is created from now on.
    pub fn garble_creates(&self, change: impl FnMut(&mut Value) + Send + 'static) {
        self.state().garble = Some(Box::new(change));
    }

    /// Makes calls of this kind fail on a container, until [`Self::mend`].
    pub fn break_container(&self, id: &ContainerId, operation: Operation) {
        self.state().broken.push((id.as_str().to_owned(), operation));
    }

    /// Ends the effect of [`Self::break_container`].
    pub fn mend(&self) {
        self.state().broken.clear();
    }

    /// Keeps the engine from starting any process, for this reason, or lets it again. Running containers continue.
    pub fn break_runtime(&self, reason: Option<&str>) {
        self.state().runtime_error = reason.map(str::to_owned);
    }

    /// Creates a container and starts it, as its owner would.
    pub fn run(&self, name: &str, body: &Value) -> ContainerId {
        let mut state = self.state();
        let id = state.create(name, None, body).unwrap();
        state.start(&id).unwrap();
        ContainerId::new(id)
    }

    /// Ends a container's process from outside, as the kernel would.
    pub fn crash(&self, id: &ContainerId, code: i64) {
        let mut state = self.state();
        let index = state.find(id.as_str()).unwrap();
        assert!(state.containers[index].life().is_some(), "{id} does not run");
        state.exit(index, code);
    }

    /// Freezes a container.
    pub fn pause(&self, id: &ContainerId) {
        self.state().pause(id.as_str()).unwrap();
    }

    /// Stops the engine and all its containers for that time; then it starts containers by their restart policies.
    pub fn restart_engine(&self, downtime: Duration) {
        self.state().go_down(downtime, Down::InOrder);
    }

    /// The same with `live-restore`: the containers keep running, and the engine forgets the deadlines of stops.
    pub fn restart_engine_live(&self, downtime: Duration) {
        self.state().go_down(downtime, Down::Live);
    }

    /// Kills the engine. Its containers keep running until it is back; then it ends them and applies their policies.
    pub fn kill_engine(&self, downtime: Duration) {
        self.state().go_down(downtime, Down::Killed);
    }

    /// Cuts the power of the host: no container drains.
    pub fn crash_host(&self, downtime: Duration) {
        self.state().go_down(downtime, Down::PowerLoss);
    }

    /// Copies a file with the current time into a container.
    pub fn copy_in(&self, name_or_id: &str, path: &str) {
        let mut state = self.state();
        let index = state.find(name_or_id).expect("a container to copy to");
        let now = state.now;
        state.containers[index].copied.insert(path.to_owned(), now);
    }

    /// Carries out an operator's action on the host; faults do not apply.
    pub fn by_hand(&self, hand: OperatorAction) -> Result<(), EngineError> {
        self.state().by_hand(hand)
    }

    /// Changes a container's `HostConfig` as `docker update` does.
    pub fn update(&self, name_or_id: &str, change: impl FnOnce(&mut Value)) {
        let mut state = self.state();
        let index = state.find(name_or_id).expect("a container to update");
        change(&mut state.containers[index].body.host_config);
    }

    /// Sets whether delegates reach their Manager: without it none is healthy.
    pub fn set_manager_reachable(&self, reachable: bool) {
        let mut state = self.state();
        let (now, before) = (state.now, state.manager_reachable);
        for container in &mut state.containers {
            container.probe_until(now, before);
        }
        state.manager_reachable = reachable;
    }

    /// Whether delegates reach their Manager.
    pub fn manager_reachable(&self) -> bool {
        self.state().manager_reachable
    }

    /// The answer of a container's `/api/health`: healthy or not, `None` if nothing listens.
    pub fn health(&self, id: &ContainerId) -> Option<bool> {
        let state = self.state();
        let index = state.find(id.as_str()).ok()?;
        state.containers[index].answers(state.now, state.manager_reachable)
    }

    /// The result of a health probe of an address; a loopback or gateway address reaches the host's network.
    pub fn probe(&self, address: IpAddr, port: u16) -> Option<bool> {
        let state = self.state();
        let host = address.is_loopback() || matches!(address, IpAddr::V4(v4) if v4.octets()[3] == 1);
        let listener = state.containers.iter().find(|container| {
            container.listens_on() == Some(port)
                && container.life().is_some_and(|life| !life.collides)
                && if host {
                    container.network_mode() == "host"
                } else {
                    container
                        .addresses
                        .values()
                        .any(|own| IpAddr::V4(*own) == address)
                }
        })?;
        let is_rejected = state.rejected.as_ref().is_some_and(|(variable, since)| {
            let env = listener.body.config["Env"].as_array();
            state.now >= *since && env.is_some_and(|env| env.contains(&json!(variable)))
        });
        listener.answers(state.now, state.manager_reachable && !is_rejected)
    }

    /// From this time on, the Manager rejects delegates with this variable, such as a revoked token.
    pub fn reject(&self, variable: &str, since: Duration) {
        self.state().rejected = Some((variable.to_owned(), since));
    }

    /// Sets the hook that chooses a fault for each call from now on.
    pub fn set_faults(&self, hook: impl FnMut(&Call) -> Fault + Send + 'static) {
        self.state().faults = Some(Box::new(hook));
    }

    /// Removes the fault hook.
    pub fn clear_faults(&self) {
        self.state().faults = None;
    }

    /// Every call so far.
    pub fn calls(&self) -> Arc<Vec<Call>> {
        Arc::clone(&self.state().calls)
    }

    /// Every call so far that can change something.
    pub fn writes(&self) -> Vec<Call> {
        self.state()
            .calls
            .iter()
            .filter(|call| call.is_write())
            .cloned()
            .collect()
    }

    /// All events of containers, by command or by themselves.
    pub fn events(&self) -> Arc<Vec<Event>> {
        Arc::clone(&self.state().events)
    }

    /// All containers, oldest first.
    pub fn glance(&self) -> Vec<Glance> {
        let state = self.state();
        let glance = |container: &container::Container| Glance {
            id: ContainerId::new(container.id.clone()),
            name: container.name.clone(),
            state: RunState::from(container.status.word()),
            image: container.image_reference.clone(),
            policy: container.policy().to_owned(),
        };
        state.containers.iter().map(glance).collect()
    }

    /// The document of a container, by id or name.
    pub fn document(&self, id_or_name: &str) -> Option<Value> {
        let mut state = self.state();
        let index = state.find(id_or_name).ok()?;
        Some(state.document(index))
    }

    /// The time at which the next event is due.
    pub fn next_event(&self) -> Option<Duration> {
        self.state().next_event()
    }
}

/// The create body of a delegate as the documentation shows it.
pub fn delegate_body(name: &str, reference: &str) -> Value {
    json!({
        "Image": reference,
        "Env": [format!("DELEGATE_NAME={name}"), "NEXT_GEN=true", "DELEGATE_TYPE=DOCKER", "ACCOUNT_ID=account"],
        "Labels": {},
        "HostConfig": {
            "NanoCpus": 1_000_000_000_u64,
            "Memory": 2_147_483_648_u64,
            "RestartPolicy": { "Name": "unless-stopped", "MaximumRetryCount": 0 },
        },
    })
}
