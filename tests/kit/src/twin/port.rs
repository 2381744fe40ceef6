//! The twin behind the engine port: each call is logged, may fail by the fault hook, and takes its latency.

use std::sync::Arc;
use std::time::Duration;

use delegate_upgrader::container::{
    ContainerId, ContainerSummary, ImageId, Inspected, RunState, is_listed, label,
};
use delegate_upgrader::engine::{Engine, EngineError, EngineInfo, Happening, PullProgress, Storage, Volume};
use delegate_upgrader::image::ImageReference;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use super::Twin;
use super::calls::{CLIENT_TIMEOUT, Call, Fault, Operation};
use super::container::{self, Status};
use super::events::{Cause, Event};
use super::images;
use super::state::State;

/// A file copied in this soon after a start counts as copied before it, because file times are whole seconds.
const COPIED_LATE: Duration = Duration::from_secs(1);
/// The time that a stop call waits for the end of the container, as in the real client.
const STOP_WAIT: Duration = Duration::from_secs(1);

/// A call that was logged and has its fault.
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
            Arc::make_mut(&mut state.calls).push(call);
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

    /// A call whose answer is just its success.
    async fn command(
        &self,
        operation: Operation,
        id: &ContainerId,
        detail: String,
        mut effect: impl FnMut(&mut State) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let admitted = self.admit(operation, id.as_str(), detail).await;
        let is_ignored = admitted.fault == Fault::Ignore;
        let effect = |state: &mut State| if is_ignored { Ok(()) } else { effect(state) };
        self.finish(admitted, effect).await
    }

    /// One call: it is logged, fails if the hook says so, and takes effect between two halves of the latency.
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
            state.check_broken(admitted.index)?;
            state.cause = Cause::Call(admitted.index);
            let outcome = effect(&mut state);
            state.cause = Cause::Itself;
            outcome
        };
        let broken = || EngineError::Unreachable("the connection broke".to_owned());
        let refused = |status, message: &str| EngineError::Refused {
            status,
            message: message.to_owned(),
        };
        let result = match admitted.fault {
            Fault::None | Fault::Ignore | Fault::Slow(_) => act(),
            Fault::Twice => {
                let _unseen = act();
                act()
            }
            Fault::ErrBefore => Err(broken()),
            Fault::Refuse(status) => Err(refused(status, "something is wrong with it")),
            Fault::RefuseWith(status, message) => Err(refused(status, message)),
            Fault::TooMuch => Err(EngineError::Malformed("it has more than is read".to_owned())),
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
        Arc::make_mut(&mut self.state().calls)[admitted.index].outcome = Some(outcome);
        result
    }

    /// Waits until a life that was asked to end is over, but no longer than the real client.
    async fn wait_for_end(&self, id: &ContainerId) -> Result<(), EngineError> {
        let deadline = Instant::now() + STOP_WAIT;
        loop {
            let next = {
                let state = self.state();
                if state.down_until.is_some() {
                    return Err(EngineError::Unreachable("the connection broke".to_owned()));
                }
                let is_ending =
                    |status: &Status| matches!(status, Status::Running(life) if life.signalled.is_some());
                let still_runs = state
                    .find(id.as_str())
                    .is_ok_and(|index| is_ending(&state.containers[index].status));
                if !still_runs || Instant::now() >= deadline {
                    return Ok(());
                }
                state.next_event()
            };
            // A second at most: other clients may cause events that are not due yet.
            let soon = Instant::now() + Duration::from_secs(1);
            let due = next.map_or(soon, |at| self.beginning + at);
            sleep_until(due.min(soon).min(deadline)).await;
        }
    }
}

impl Engine for Twin {
    async fn info(&self) -> Result<EngineInfo, EngineError> {
        self.call(Operation::Info, "", String::new(), |state| {
            Ok(EngineInfo {
                api: state.settings.api,
                version: state.settings.version.clone(),
                is_podman: state.settings.is_podman,
                os: "linux".to_owned(),
                architecture: "amd64".to_owned(),
            })
        })
        .await
    }

    async fn identity(&self) -> Result<String, EngineError> {
        self.call(
            Operation::Identity,
            "",
            String::new(),
            |_| Ok("a host".to_owned()),
        )
        .await
    }

    async fn volumes(&self, label: &str) -> Result<Vec<Volume>, EngineError> {
        let has_it = |volume: &&Volume| volume.labels.contains_key(label);
        self.call(Operation::Volumes, "", label.to_owned(), |state| {
            Ok(state.volumes.values().filter(has_it).cloned().collect())
        })
        .await
    }

    async fn create_volume(&self, volume: &Volume) -> Result<(), EngineError> {
        self.call(Operation::CreateVolume, &volume.name, String::new(), |state| {
            let name = volume.name.clone();
            state.volumes.entry(name).or_insert_with(|| volume.clone());
            state.told.send_replace(());
            Ok(())
        })
        .await
    }

    async fn remove_volume(&self, name: &str) -> Result<(), EngineError> {
        self.call(Operation::RemoveVolume, name, String::new(), |state| {
            state.volumes.remove(name);
            state.told.send_replace(());
            Ok(())
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
                    .filter(|(key, _)| is_listed(key))
                    .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                    .collect(),
                image: Some((
                    container.body.config["Image"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned(),
                    container.image_id.as_str().to_owned(),
                )),
                created: state.wall(container.created).timestamp(),
                host_ports: container
                    .life()
                    .into_iter()
                    .flat_map(|_| &container.ports)
                    .map(|port| (*port, "tcp".to_owned()))
                    .collect(),
            };
            // The newest container first, as in the engine's list.
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
        let (time, size, restarts) = {
            let state = self.state();
            let offered = state.images.offered(&name);
            let (time, size) = offered.map_or((Duration::ZERO, 0), |image| (image.pull_time, image.size));
            (time, size, state.restarts)
        };
        if matches!(
            admitted.fault,
            Fault::None | Fault::ErrAfter | Fault::HangAfter | Fault::Twice | Fault::Slow(_)
        ) {
            for step in 1..=4 {
                sleep(time / 4).await;
                progress(PullProgress {
                    current: size / 4 * step,
                    total: size,
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
        self.command(Operation::Stop, id, detail, |state| {
            state.stop(id.as_str(), grace)
        })
        .await?;
        self.wait_for_end(id).await
    }

    async fn restart(&self, id: &ContainerId, grace: Duration) -> Result<(), EngineError> {
        let detail = format!("{}s", grace.as_secs());
        self.call(Operation::Restart, id.as_str(), detail, |state| {
            state.restart(id.as_str(), grace)
        })
        .await?;
        self.wait_for_end(id).await
    }

    async fn rename(&self, id: &ContainerId, name: &str) -> Result<(), EngineError> {
        self.command(Operation::Rename, id, name.to_owned(), |state| {
            state.rename(id.as_str(), name)
        })
        .await
    }

    async fn set_restart_policy(&self, id: &ContainerId, policy: &Value) -> Result<(), EngineError> {
        let detail = policy["Name"].as_str().unwrap_or_default().to_owned();
        self.command(Operation::SetRestartPolicy, id, detail, |state| {
            state.set_restart_policy(id.as_str(), policy)
        })
        .await
    }

    async fn remove(&self, id: &ContainerId) -> Result<(), EngineError> {
        self.command(Operation::Remove, id, String::new(), |state| {
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

    async fn create_exec(&self, id: &ContainerId, command: &[String]) -> Result<String, EngineError> {
        self.call(Operation::CreateExec, id.as_str(), command.join(" "), |state| {
            state.create_exec(id.as_str(), command)
        })
        .await
    }

    async fn start_exec(&self, exec: &str) -> Result<String, EngineError> {
        let (output, end) = self
            .call(Operation::StartExec, exec, String::new(), |state| {
                state.start_exec(exec)
            })
            .await?;
        sleep_until(self.beginning + end).await;
        Ok(output)
    }

    async fn exec_exit_code(&self, exec: &str) -> Result<Option<i64>, EngineError> {
        self.call(Operation::ExecExitCode, exec, String::new(), |state| {
            state.exec_exit_code(exec)
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

    async fn watch(&self, mut tell: impl FnMut(Happening<'_>) + Send) -> Result<(), EngineError> {
        let begun = |state: &mut State| {
            let volumes: Vec<String> = state.volumes.keys().cloned().collect();
            Ok((
                state.told.subscribe(),
                state.events.len(),
                state.restarts,
                volumes,
            ))
        };
        let (mut told, mut seen, restarts, mut known) =
            self.call(Operation::Watch, "", String::new(), begun).await?;
        loop {
            let (events, volumes, created, next) = {
                let state = self.state();
                if state.restarts != restarts || state.down_until.is_some() {
                    return Ok(());
                }
                let next = state.next_event().map(|next| next.saturating_sub(state.now));
                let is_ours = |event: &Event| {
                    let container = state.find(&event.id).ok().map(|at| &state.containers[at]);
                    container.is_some_and(|it| !it.body.config["Labels"][label::NAME].is_null())
                };
                let created: Vec<bool> = state.events[seen..].iter().map(is_ours).collect();
                let volumes: Vec<String> = state.volumes.keys().cloned().collect();
                (Arc::clone(&state.events), volumes, created, next)
            };
            for (event, is_ours) in events[seen..].iter().zip(created) {
                let id = &event.id;
                tell(Happening::Container { id, is_ours });
            }
            let is_other = |name: &&String| known.contains(*name) != volumes.contains(*name);
            for name in known.iter().chain(&volumes).filter(is_other) {
                tell(Happening::Volume(name));
            }
            (seen, known) = (events.len(), volumes);
            tokio::select! {
                _ = told.changed() => {}
                () = sleep(next.unwrap_or(Duration::from_secs(3600))) => {}
            }
        }
    }

    async fn distribution(&self, reference: &ImageReference) -> Result<Value, EngineError> {
        let name = reference.to_string();
        self.call(Operation::Distribution, &name, String::new(), |state| {
            let digest = state.images.offered(&name).map(images::digest)?;
            Ok(json!({"Descriptor": {"digest": digest}}))
        })
        .await
    }
}
