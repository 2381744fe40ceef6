//! Gives the driver access to the services of a Swarm through its manager.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::read::settings_of;
use super::{
    Defaults, Gate, Tools, before, has_health_check, objects, warnings, way_back, with_image, with_record,
    with_settings,
};
use crate::container::{ContainerId, Inspected};
use crate::document::NewSettings;
use crate::document::platform;
use crate::engine::{Engine, EngineError, ServiceUpdate};
use crate::health::NOT_EXECUTED;
use crate::host::hold::{Holds, KnownHolds, note_first_seen};
use crate::image::{ImageName, ImageReference, TargetSettings};
use crate::managed::{Decision, Found, Managed, Object, Orchestrate, Orchestrator, Progress, Refusal, Step};
use crate::observe::{Scope, released};
use crate::rollout::reason::Reason;
use crate::rollout::{Policy, Release};

/// How soon to read a document again that is older than the last change.
const STALE: TimeDelta = TimeDelta::milliseconds(300);

/// The time limit for trying a command in a task.
const EXEC: Duration = Duration::from_secs(10);

/// How soon to observe a Swarm again that has no leader.
const UNREACHABLE: TimeDelta = TimeDelta::seconds(5);

/// Without `SWARM=true`: how often to check whether the engine has become a manager.
const RARELY: Duration = Duration::from_secs(3600);

/// The services of a Swarm, seen from an engine that may be a manager.
pub struct Swarm<E> {
    engine: Arc<E>,
    scope: Scope,
    defaults: Defaults,
    gate: Gate,
    holds: KnownHolds,
    has_wave: bool,
    /// The setting `SWARM`: whether services may be changed.
    is_on: bool,
    /// Whether the engine was a manager at the last check.
    pub is_manager: bool,
    /// When the engine last answered that it is not a manager.
    was_no_manager: Option<Instant>,
    /// Why the last observation failed.
    problem: Option<String>,
    /// The platforms of the nodes, if they were read in this run.
    platforms: Option<Vec<String>>,
    /// For each service, the version that was last changed here. A document with this version or an older one is stale.
    changed: HashMap<String, u64>,
    /// Where images come from.
    target: TargetSettings,
}

impl<E: Engine> Swarm<E> {
    /// Creates the access without reading anything. If `is_on` is false, services are observed but never changed.
    pub fn new(
        engine: Arc<E>,
        scope: Scope,
        policy: &Policy,
        holds: KnownHolds,
        target: TargetSettings,
        is_on: bool,
    ) -> Self {
        Self {
            is_on,
            engine,
            defaults: Defaults {
                monitor: policy.healthy_time,
                stop_grace_period: scope.stop_timeout,
            },
            gate: Gate {
                command: scope.health.command.clone(),
                probe: scope.health.probe,
                deadline: policy.healthy_deadline,
            },
            scope,
            holds,
            has_wave: policy.timing.wave.is_some(),
            is_manager: false,
            was_no_manager: None,
            problem: None,
            platforms: None,
            changed: HashMap::new(),
            target,
        }
    }

    /// Starts a run. Checks again whether the engine is a manager: each time with `SWARM=true`, and otherwise only now and
    /// then, to report that there are services.
    pub fn start(&mut self) {
        let since = self.was_no_manager.map(|then| then.elapsed());
        self.is_manager = self.is_on || since.is_none_or(|since| since >= RARELY);
        self.platforms = None;
    }

    /// Records that the services cannot be observed now.
    pub fn note_problem(&mut self, error: &EngineError) {
        let problem = Some(error.to_string());
        if self.problem != problem {
            warn!(problem, "cannot observe the services of the Swarm; retrying");
        }
        self.problem = problem;
    }

    /// Whether the document is older than the last change that was made here.
    fn is_stale(&self, service: &Object) -> bool {
        let changed = self.changed.get(&service.managed.id);
        changed.is_some_and(|changed| version(service) <= *changed)
    }

    /// Reads the services and their tasks. Returns `None` if the engine is not a manager.
    async fn read(&self) -> Result<Option<Vec<Object>>, EngineError> {
        let Some(services) = self.engine.services().await? else {
            return Ok(None);
        };
        let ours = objects(services, &[], &self.scope);
        let ids: Vec<&str> = ours.iter().map(|object| object.managed.id.as_str()).collect();
        if ids.is_empty() {
            return Ok(Some(ours));
        }
        let tasks = self.engine.tasks(&ids).await?;
        let documents = ours.into_iter().map(|object| object.document);
        Ok(Some(objects(documents, &tasks, &self.scope)))
    }

    /// Returns the health check to add to a service for this image, if neither has one.
    async fn health_check(&self, service: &Object, image: &str, now: DateTime<Utc>) -> Option<Value> {
        let Object { managed, document } = service;
        let command = self.gate.command(&document["Spec"])?;
        if managed.tasks.wanted == 0 {
            // No task needs a proof, and there is none in which to look for the image's tools.
            return None;
        }
        // The manager's engine has an image only if it runs or ran a task of that image.
        for image in [image, managed.image.as_str()] {
            if let Ok(document) = self.engine.inspect_image(image).await {
                if has_health_check(&document) {
                    return None;
                }
                break;
            }
        }
        let Some(tools) = self.tools(managed, command).await else {
            let name = &managed.name;
            warn!(
                container = name,
                "a new task has only to run: its image has neither a shell nor HEALTH_COMMAND's program"
            );
            return None;
        };
        // Swarm updates one task after the other, and each may take this long.
        let each = self.gate.deadline.saturating_add(managed.pace);
        let tasks = u32::try_from(managed.tasks.wanted)
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        let until = TimeDelta::from_std(each.saturating_mul(tasks)).ok()?;
        Some(self.gate.check(tools, now.checked_add_signed(until)?))
    }

    /// Finds the tools of the service's image by trying them in a task on this node. Without a task, assumes a shell.
    async fn tools(&self, service: &Managed, command: &[String]) -> Option<Tools> {
        let shell = ["sh", "-c", ":"].map(str::to_owned);
        for task in self.engine.tasks(&[&service.id]).await.unwrap_or_default() {
            let id = task
                .pointer("/Status/ContainerStatus/ContainerID")
                .and_then(Value::as_str);
            let Some(id) = id.filter(|_| task["Status"]["State"] == "running") else {
                continue;
            };
            let id = ContainerId::new(id);
            match self.executes(&id, &shell).await {
                Some(true) => return Some(Tools::Shell),
                Some(false) => return self.executes(&id, command).await?.then_some(Tools::Command),
                None => {}
            }
        }
        Some(Tools::Shell)
    }

    /// Whether a container has this command. `None` if it cannot be tried.
    async fn executes(&self, id: &ContainerId, command: &[String]) -> Option<bool> {
        let engine = self.engine.as_ref();
        let exec = timeout(EXEC, engine.create_exec(id, command)).await.ok()?.ok()?;
        // Some engines return an error for a missing command, and all of them record the exit code.
        let _ = timeout(EXEC, engine.start_exec(&exec)).await;
        let code = timeout(EXEC, engine.exec_exit_code(&exec)).await.ok()?.ok()?;
        Some(code.is_none_or(|code| !NOT_EXECUTED.contains(&code)))
    }

    /// Returns the platforms of the nodes. If there are none, no image is refused because of its platforms.
    async fn read_platforms(&self) -> Vec<String> {
        let nodes = self.engine.nodes().await.unwrap_or_default();
        let platforms = nodes.iter().filter_map(|node| {
            let text = |name: &str| node.pointer(&format!("/Description/Platform/{name}"))?.as_str();
            platform(text("OS")?, text("Architecture")?)
        });
        platforms.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Returns the version that an update must name.
fn version(service: &Object) -> u64 {
    let index = service.document.pointer("/Version/Index");
    index.and_then(Value::as_u64).unwrap_or_default()
}

/// The former settings are in the spec that Swarm keeps until the next change.
fn settings_lost() -> Refusal {
    let problem = "Swarm no longer has the former settings, because the service was updated since; set them with `docker service update`";
    Refusal::Refused(problem.to_owned())
}

fn refusal(error: EngineError) -> Refusal {
    match error {
        EngineError::Conflict(_) => Refusal::Conflict(error.to_string()),
        error if error.is_not_permitted() => Refusal::NotPermitted(error.to_string()),
        error => Refusal::Failed(error.to_string()),
    }
}

impl<E: Engine> Orchestrate for Swarm<E> {
    type Error = EngineError;

    const ORCHESTRATOR: Orchestrator = Orchestrator::Swarm;
    const API: &'static str = "the Docker engine";
    const ONE_AT_A_TIME: bool = true;

    /// Makes two calls if there are services, and one call if there are none.
    async fn observe(&mut self) -> Result<Option<Found>, EngineError> {
        if !self.is_manager {
            return Ok(None);
        }
        let found = self.read().await?;
        self.problem = None;
        self.is_manager = found.is_some();
        self.was_no_manager = found.is_none().then(Instant::now);
        let mut objects = found.unwrap_or_default();
        for object in &mut objects {
            if !self.is_on {
                object.managed.left_alone.get_or_insert(Reason::SwarmOff);
            }
            // The services beside it must not take it for one without an update.
            if self.is_stale(object) {
                object.managed.progress = Progress::Updating;
            }
        }
        if !objects.is_empty() && self.platforms.is_none() {
            self.platforms = Some(self.read_platforms().await);
        }
        Ok(Some(Found {
            objects,
            ..Found::default()
        }))
    }

    async fn released(&self, image: &ImageName) -> Release {
        released(self.engine.as_ref(), image, image.as_str(), &self.target).await
    }

    fn platforms(&self) -> Option<&[String]> {
        Some(self.platforms.as_deref().unwrap_or_default())
    }

    fn holds(&self, service: &Object, image: &str, _: DateTime<Utc>) -> Option<Result<Holds, String>> {
        self.holds.of(&service.managed.name, image)
    }

    fn holds_are_old(&self) -> bool {
        !self.holds.are_fresh()
    }

    async fn learn_holds(&mut self) -> Result<(), Refusal> {
        let read = self.holds.read(self.engine.as_ref(), self.has_wave).await;
        read.map_err(refusal)
    }

    fn lock(
        &self,
        service: &Object,
        _: &Decision,
        now: DateTime<Utc>,
    ) -> Option<(Reason, Option<DateTime<Utc>>)> {
        let (step, problem, pause) = match &self.problem {
            Some(problem) => ("observe the services of the Swarm", problem.as_str(), UNREACHABLE),
            // The manager that answered has not applied the change yet.
            None if self.is_stale(service) => ("update it", "the manager has not applied it yet", STALE),
            None => return None,
        };
        let (step, problem) = (step.to_owned(), problem.to_owned());
        Some((Reason::EngineError { step, problem }, Some(now + pause)))
    }

    fn settings(&self, service: &Object) -> Inspected {
        settings_of(&service.document["Spec"]["TaskTemplate"])
    }

    fn refuses(&self, service: &Object, new: &NewSettings) -> Option<String> {
        let new = new.missing_in(&self.settings(service));
        let is_template = |value: &Option<String>| value.as_ref().is_some_and(|value| value.contains("{{"));
        let (name, _) = new.env.iter().find(|(_, value)| is_template(value))?;
        Some(format!(
            "Swarm would replace what the new {name} has in braces, {{{{…}}}}"
        ))
    }

    async fn former_settings(&self, service: &Object) -> Result<Inspected, Refusal> {
        let before = before(&service.document, service.managed.image.as_str());
        before.map(settings_of).ok_or_else(settings_lost)
    }

    fn proof(&self, service: &Object) -> Option<String> {
        Some(self.gate.proof(&service.document["Spec"]))
    }

    fn warnings(&self, service: &Object) -> Vec<String> {
        warnings(&service.document["Spec"], self.defaults)
    }

    async fn apply(&mut self, service: &Object, step: &Step, now: DateTime<Utc>) -> Result<(), Refusal> {
        let Object { managed, document } = service;
        if let Step::NoteFirstSeen { image } = step {
            let noted = note_first_seen(self.engine.as_ref(), image, now).await;
            return noted.map_err(refusal);
        }
        let (record, image) = step.writes(managed, now);
        // Do not use Swarm's own rollback: it also restores the earlier labels, and so would lose the cause.
        let spec = match (&image, step) {
            (Some(image), Step::RollBack { .. }) => {
                way_back(document, image, self.defaults).ok_or_else(settings_lost)?
            }
            (Some(image), _) => {
                let check = self.health_check(service, image, now).await;
                let spec = with_image(document["Spec"].clone(), image, check, self.defaults);
                match step.new_settings(managed) {
                    Some((new, mark)) => with_settings(spec, new, &mark),
                    None => spec,
                }
            }
            (None, _) => document["Spec"].clone(),
        };
        let spec = with_record(spec, &record, self.defaults);
        let image: Option<ImageReference> = image.and_then(|image| image.parse().ok());
        let update = ServiceUpdate {
            id: &managed.id,
            version: version(service),
            spec: &spec,
            image: image.as_ref(),
        };
        self.engine.update_service(update).await.map_err(refusal)?;
        self.changed.insert(managed.id.clone(), version(service));
        Ok(())
    }
}
