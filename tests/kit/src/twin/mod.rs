//! An engine in memory that keeps Docker's rules: names are unique, a stop outlives its caller, restart policies
//! act, `--rm` containers vanish in their own time. The contract tests hold it to a real engine.
//!
//! Its time is tokio's clock, so that a paused clock makes hours pass at once. It has no randomness and no task of
//! its own: whatever is due happens, in order, before the next look at it.

mod behaviour;
mod calls;
mod container;
mod document;
mod images;
mod operator;
mod state;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use delegate_upgrader::container::{ContainerId, ImageId};
use delegate_upgrader::container::{ContainerSummary, Inspected, RunState};
use delegate_upgrader::engine::{Engine, EngineError, EngineInfo, PullProgress, Storage};
use delegate_upgrader::image::ImageReference;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

pub use behaviour::{Behaviour, Exit, OnStop, Wellness};
pub use calls::{CLIENT_TIMEOUT, Call, Fault, Operation};
pub use images::Image;
pub use operator::OperatorAction;
pub use state::{Cause, Event, Happened, TwinSettings};

use container::Status;
use state::{Down, State};

/// A file that was copied in so shortly after a start is taken for one from before: its time has whole seconds only.
const COPIED_LATE: Duration = Duration::from_secs(1);
/// How long a stop is waited for, as the real client does.
const STOP_WAIT: Duration = Duration::from_secs(1);

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

/// A container at a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    pub id: ContainerId,
    pub name: String,
    pub state: RunState,
    pub image: String,
    /// Its present restart policy.
    pub policy: String,
}

/// Setting the scene, and looking at it: none of this is logged, takes time or fails by a hook.
impl Twin {
    /// An empty host.
    pub fn new(settings: TwinSettings) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new(settings))),
            beginning: Instant::now(),
            client: 0,
        }
    }

    /// The same engine for another client: its calls are told apart by that number.
    #[must_use]
    pub fn client(&self, client: usize) -> Self {
        Self {
            client,
            ..self.clone()
        }
    }

    /// The state as it is now.
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

    /// Sets the host's wall clock: what was written before stays as it was written.
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

    /// Gives containers that are made from an image from now on another behaviour.
    pub fn set_behaviour(&self, reference: &str, behaviour: &Behaviour) {
        self.state().images.set_behaviour(reference, behaviour);
    }

    /// Takes an image off the host, whoever uses it.
    pub fn remove_image(&self, id: &str) {
        self.state().images.remove(id);
    }

    /// Makes pulls of a reference fail with these words, or succeed again.
    pub fn break_pull(&self, reference: &str, message: Option<&str>) {
        self.state().images.break_pull(reference, message);
    }

    /// The images on the host.
    pub fn images(&self) -> Vec<ImageId> {
        self.state().images.ids().into_iter().map(ImageId::new).collect()
    }

    /// What the engine says of its storage from now on.
    pub fn set_storage(&self, storage: Storage) {
        self.state().storage = storage;
    }

    /// Adds a network.
    pub fn add_network(&self, name: &str) {
        self.state().networks.insert(name.to_owned());
    }

    /// Takes a network away; containers keep their endpoints there, and cannot be started any more.
    pub fn remove_network(&self, name: &str) {
        self.state().networks.remove(name);
    }

    /// Makes every container that is created from now on another one than was asked for.
    pub fn garble_creates(&self, change: impl FnMut(&mut Value) + Send + 'static) {
        self.state().garble = Some(Box::new(change));
    }

    /// Creates a container and starts it, as its owner would.
    pub fn run(&self, name: &str, body: &Value) -> ContainerId {
        let mut state = self.state();
        let id = state.create(name, None, body).unwrap();
        state.start(&id).unwrap();
        ContainerId::new(id)
    }

    /// Runs a delegate of that name as the documentation has it; `DELEGATE_NAME` is the container's name.
    pub fn run_delegate(&self, name: &str, reference: &str) -> ContainerId {
        self.run(name, &delegate_body(name, reference))
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
        let mut state = self.state();
        let index = state.find(id.as_str()).unwrap();
        if let Status::Running(life) = state.containers[index].status.clone() {
            state.containers[index].status = Status::Paused(life);
        }
    }

    /// The engine goes away with all its processes and is back after that time, starting what its restart policies
    /// tell it to.
    pub fn restart_engine(&self, downtime: Duration) {
        self.state().go_down(downtime, Down::InOrder);
    }

    /// The same for one with `live-restore`: its containers go on, and it forgets the ends of stops under way.
    pub fn restart_engine_live(&self, downtime: Duration) {
        self.state().go_down(downtime, Down::Live);
    }

    /// The engine is killed. Its containers go on until it is back; then it ends them and acts on their policies.
    pub fn kill_engine(&self, downtime: Duration) {
        self.state().go_down(downtime, Down::Killed);
    }

    /// The same for a host that loses its power: nobody drains.
    pub fn crash_host(&self, downtime: Duration) {
        self.state().go_down(downtime, Down::PowerLoss);
    }

    /// Puts a file of this moment into a container.
    pub fn copy_in(&self, name_or_id: &str, path: &str) {
        let mut state = self.state();
        let index = state.find(name_or_id).expect("a container to copy to");
        let now = state.now;
        state.containers[index].copied.insert(path.to_owned(), now);
    }

    /// What a person does at the host, past all faults.
    pub fn by_hand(&self, hand: OperatorAction) -> Result<(), EngineError> {
        self.state().by_hand(hand)
    }

    /// Whether delegates reach their Manager: without it none is healthy.
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

    /// What `/api/health` of a container answers: healthy or not, `None` where nothing listens.
    pub fn health(&self, id: &ContainerId) -> Option<bool> {
        let state = self.state();
        let index = state.find(id.as_str()).ok()?;
        state.containers[index].answers(state.now, state.manager_reachable)
    }

    /// What a health probe of an address finds; a loopback or gateway address reaches the host's network.
    pub fn probe(&self, address: IpAddr, port: u16) -> Option<bool> {
        let state = self.state();
        let host = address.is_loopback() || matches!(address, IpAddr::V4(v4) if v4.octets()[3] == 1);
        let listener = state.containers.iter().find(|container| {
            container.behaviour.port == port
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
        listener.answers(state.now, state.manager_reachable)
    }

    /// Decides on a fault for each call from now on.
    pub fn set_faults(&self, hook: impl FnMut(&Call) -> Fault + Send + 'static) {
        self.state().faults = Some(Box::new(hook));
    }

    /// No more faults.
    pub fn clear_faults(&self) {
        self.state().faults = None;
    }

    /// Every call so far.
    pub fn calls(&self) -> Vec<Call> {
        self.state().calls.clone()
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

    /// Everything that happened to containers, by command or by itself.
    pub fn events(&self) -> Vec<Event> {
        self.state().events.clone()
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

    /// When something will happen next by itself.
    pub fn next_event(&self) -> Option<Duration> {
        self.state().next_event()
    }
}

/// The create body of a delegate as the documentation runs it.
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

/// How a call goes on after it was logged and a fault was chosen.
struct Admitted {
    index: usize,
    fault: Fault,
    latency: Duration,
}

impl Twin {
    async fn admit(&self, operation: Operation, subject: &str, detail: String) -> Admitted {
        let admitted = {
            let mut state = self.state();
            let container = state.find(subject).ok().map(|index| &state.containers[index]);
            let id = container.map(|container| ContainerId::new(container.id.clone()));
            let subject = container.map_or_else(|| subject.to_owned(), |container| container.name.clone());
            let (index, at) = (state.calls.len(), state.now);
            let call = Call {
                index,
                at,
                client: self.client,
                id,
                operation,
                subject,
                detail,
                outcome: None,
            };
            let fault = state.faults.as_mut().map(|hook| hook(&call)).unwrap_or_default();
            state.calls.push(call);
            let slow = match fault {
                Fault::Slow(time) => time,
                _ => Duration::ZERO,
            };
            Admitted {
                index,
                fault,
                latency: state.settings.latency + slow,
            }
        };
        sleep(admitted.latency / 2).await;
        admitted
    }

    /// One call: logged, faulty if the hook says so, its effect between two halves of the latency.
    async fn call<T>(
        &self,
        operation: Operation,
        subject: &str,
        detail: String,
        effect: impl FnMut(&mut State) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let admitted = self.admit(operation, subject, detail).await;
        self.finish(admitted, effect).await
    }

    async fn finish<T>(
        &self,
        admitted: Admitted,
        mut effect: impl FnMut(&mut State) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let mut act = || {
            let mut state = self.state();
            if state.down_until.is_some() {
                return Err(EngineError::Unreachable("connection refused".to_owned()));
            }
            state.cause = Cause::Call(admitted.index);
            let outcome = effect(&mut state);
            state.cause = Cause::Itself;
            outcome
        };
        let broken = || EngineError::Unreachable("the connection broke".to_owned());
        let result = match admitted.fault {
            Fault::None | Fault::Slow(_) => act(),
            Fault::Twice => {
                let _unseen = act();
                act()
            }
            Fault::ErrBefore => Err(broken()),
            Fault::Refuse(status) => Err(EngineError::Refused {
                status,
                message: "something is wrong with it".to_owned(),
            }),
            Fault::ErrAfter => {
                let _unseen = act();
                Err(broken())
            }
            Fault::Hang => {
                sleep(CLIENT_TIMEOUT).await;
                Err(EngineError::TimedOut(CLIENT_TIMEOUT))
            }
            Fault::HangAfter => {
                let _unseen = act();
                sleep(CLIENT_TIMEOUT).await;
                Err(EngineError::TimedOut(CLIENT_TIMEOUT))
            }
        };
        sleep(admitted.latency / 2).await;
        let outcome = result.as_ref().map(|_| ()).map_err(EngineError::clone);
        self.state().calls[admitted.index].outcome = Some(outcome);
        result
    }
}

impl Engine for Twin {
    async fn info(&self) -> Result<EngineInfo, EngineError> {
        self.call(Operation::Info, "", String::new(), |state| {
            Ok(EngineInfo {
                api: state.settings.api,
                version: state.settings.version.clone(),
                os: "linux".to_owned(),
                architecture: "amd64".to_owned(),
            })
        })
        .await
    }

    async fn storage(&self) -> Result<Storage, EngineError> {
        self.call(Operation::Storage, "", String::new(), |state| {
            Ok(state.storage.clone())
        })
        .await
    }

    async fn containers(&self) -> Result<Vec<ContainerSummary>, EngineError> {
        self.call(Operation::Containers, "", String::new(), |state| {
            let summary = |container: &container::Container| ContainerSummary {
                id: ContainerId::new(container.id.clone()),
                name: container.name.clone(),
                state: RunState::from(container.status.word()),
                labels: container.body.config["Labels"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                    .collect(),
            };
            // The newest first, as the engine has it.
            Ok(state.containers.iter().rev().map(summary).collect())
        })
        .await
    }

    async fn inspect(&self, id: &ContainerId) -> Result<Inspected, EngineError> {
        self.call(Operation::Inspect, id.as_str(), String::new(), |state| {
            let index = state.find(id.as_str())?;
            Inspected::new(state.document(index)).ok_or_else(|| EngineError::Malformed("no Id".to_owned()))
        })
        .await
    }

    async fn inspect_image(&self, reference_or_id: &str) -> Result<Value, EngineError> {
        self.call(Operation::InspectImage, reference_or_id, String::new(), |state| {
            let image = state.images.find(reference_or_id);
            image
                .map(|image| state.images.document(image))
                .ok_or_else(|| EngineError::NotFound(format!("No such image: {reference_or_id}")))
        })
        .await
    }

    async fn pull(
        &self,
        reference: &ImageReference,
        platform: Option<&str>,
        mut progress: impl FnMut(PullProgress) + Send,
    ) -> Result<(), EngineError> {
        let name = reference.to_string();
        let detail = platform.unwrap_or_default().to_owned();
        let admitted = self.admit(Operation::Pull, &name, detail).await;
        let (time, restarts) = {
            let state = self.state();
            (
                state
                    .images
                    .offered(&name)
                    .map_or(Duration::ZERO, |image| image.pull_time),
                state.restarts,
            )
        };
        if matches!(
            admitted.fault,
            Fault::None | Fault::ErrAfter | Fault::HangAfter | Fault::Twice | Fault::Slow(_)
        ) {
            for step in 1..=4 {
                sleep(time / 4).await;
                progress(PullProgress {
                    current: step * 25,
                    total: 100,
                });
            }
        }
        self.finish(admitted, |state| {
            if state.restarts != restarts {
                return Err(EngineError::Unreachable("the connection broke".to_owned()));
            }
            state.images.pull(&name)
        })
        .await
    }

    async fn create(
        &self,
        name: &str,
        platform: Option<&str>,
        body: &Value,
    ) -> Result<ContainerId, EngineError> {
        let image = body["Image"].as_str().unwrap_or_default().to_owned();
        self.call(Operation::Create, name, image, |state| {
            state.create(name, platform, body).map(ContainerId::new)
        })
        .await
    }

    async fn connect(&self, network: &str, id: &ContainerId, endpoint: &Value) -> Result<(), EngineError> {
        self.call(Operation::Connect, id.as_str(), network.to_owned(), |state| {
            state.connect(network, id.as_str(), endpoint)
        })
        .await
    }

    async fn start(&self, id: &ContainerId) -> Result<(), EngineError> {
        self.call(Operation::Start, id.as_str(), String::new(), |state| {
            state.start(id.as_str())
        })
        .await
    }

    async fn stop(&self, id: &ContainerId, grace: Duration) -> Result<(), EngineError> {
        let detail = format!("{}s", grace.as_secs());
        self.call(Operation::Stop, id.as_str(), detail, |state| {
            state.stop(id.as_str(), grace)
        })
        .await?;
        let deadline = Instant::now() + STOP_WAIT;
        loop {
            let next = {
                let state = self.state();
                if state.down_until.is_some() {
                    return Err(EngineError::Unreachable("the connection broke".to_owned()));
                }
                let still_runs = state
                    .find(id.as_str())
                    .is_ok_and(|index| matches!(state.containers[index].status, Status::Running(_)));
                if !still_runs || Instant::now() >= deadline {
                    return Ok(());
                }
                state.next_event()
            };
            // A second at most: what others do meanwhile is no event yet.
            let soon = Instant::now() + Duration::from_secs(1);
            let due = next.map_or(soon, |at| self.beginning + at);
            sleep_until(due.min(soon).min(deadline)).await;
        }
    }

    async fn rename(&self, id: &ContainerId, name: &str) -> Result<(), EngineError> {
        self.call(Operation::Rename, id.as_str(), name.to_owned(), |state| {
            state.rename(id.as_str(), name)
        })
        .await
    }

    async fn set_restart_policy(&self, id: &ContainerId, policy: &Value) -> Result<(), EngineError> {
        let detail = policy["Name"].as_str().unwrap_or_default().to_owned();
        self.call(Operation::SetRestartPolicy, id.as_str(), detail, |state| {
            state.set_restart_policy(id.as_str(), policy)
        })
        .await
    }

    async fn remove(&self, id: &ContainerId) -> Result<(), EngineError> {
        self.call(Operation::Remove, id.as_str(), String::new(), |state| {
            state.remove(id.as_str())
        })
        .await
    }

    async fn remove_image(&self, id: &ImageId) -> Result<(), EngineError> {
        self.call(Operation::RemoveImage, id.as_str(), String::new(), |state| {
            state.remove_image(id.as_str())
        })
        .await
    }

    async fn logs(&self, id: &ContainerId, lines: usize) -> Result<String, EngineError> {
        self.call(Operation::Logs, id.as_str(), lines.to_string(), |state| {
            let container = &state.containers[state.find(id.as_str())?];
            if !container.keeps_log() {
                return Ok(String::new());
            }
            let printed = &container.printed;
            let last = &printed[printed.len().saturating_sub(lines)..];
            Ok(last.iter().flat_map(|line| [line, "\n"]).collect())
        })
        .await
    }

    async fn copied_files(&self, id: &ContainerId) -> Result<Vec<String>, EngineError> {
        self.call(Operation::CopiedFiles, id.as_str(), String::new(), |state| {
            let container = &state.containers[state.find(id.as_str())?];
            let until = container.started.map_or(Duration::MAX, |at| at + COPIED_LATE);
            let before = container.copied.iter().filter(|(_, at)| **at <= until);
            let mut copied: Vec<String> = before.map(|(path, _)| path.clone()).collect();
            copied.sort_by_key(|path| (path.matches('/').count(), path.clone()));
            Ok(copied)
        })
        .await
    }

    async fn memory_usage(&self, id: &ContainerId) -> Result<u64, EngineError> {
        self.call(Operation::MemoryUsage, id.as_str(), String::new(), |state| {
            state.find(id.as_str()).map(|_| 64 * 1024 * 1024)
        })
        .await
    }

    async fn registry_digest(&self, reference: &ImageReference) -> Result<String, EngineError> {
        let name = reference.to_string();
        self.call(Operation::RegistryDigest, &name, String::new(), |state| {
            state.images.offered(&name).map(images::digest)
        })
        .await
    }
}
