//! The Swarm's services among the delegates: observed, decided on and updated beside the containers.

mod commands;
mod service_resolution;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use self::service_resolution::Resolution;
use super::Reconciler;
use super::holds::READ_HOLDS;
use super::questions::Answered;
use super::upgrade_run::Mode;
use crate::document::platform;
use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::image::{ImageReference, TargetSettings};
use crate::managed::{Decision, Facts, Managed, Step, next};
use crate::manager::ImageSource;
use crate::rollout::reason::Reason;
use crate::rollout::wanted::not_asked;
use crate::rollout::{Backoff, Desired, Intent};
use crate::status::report::{DelegateReport, Planned, Report};
use crate::swarm::{self, Defaults, Service};

/// How soon a document that is older than the last change is read again.
const STALE: TimeDelta = TimeDelta::milliseconds(300);

/// How soon a Swarm without a leader is observed again.
const UNREACHABLE: TimeDelta = TimeDelta::seconds(5);

/// An engine that is not a Swarm manager is asked again after this time: `docker swarm init` is rare.
const NO_MANAGER_FOR: Duration = Duration::from_secs(600);

/// What is known about the services.
#[derive(Debug, Default)]
pub(super) struct Services {
    /// Whether the engine was a manager when it was asked last.
    is_manager: bool,
    /// When the engine last answered that it is not a manager.
    denied: Option<Instant>,
    observed: Vec<Service>,
    /// Why they could not be observed just now.
    problem: Option<String>,
    /// The platforms of the nodes.
    platforms: Vec<String>,
    run: ServicesRun,
    /// Why the Manager's last attempt to answer failed.
    last_error: Option<String>,
    tracked: HashMap<String, Tracked>,
}

/// What the present run wants of them.
#[derive(Debug, Default)]
struct ServicesRun {
    mode: Mode,
    intent: Intent,
    /// By id.
    resolutions: HashMap<String, Resolution>,
    /// The services that failed in this run, by workload.
    halted: HashMap<String, (String, String)>,
}

/// What is remembered of one service. Losing it repeats a log line.
#[derive(Debug, Default)]
struct Tracked {
    backoff: Option<Backoff>,
    /// The version that was last changed here: an older one is not read any more.
    changed: Option<u64>,
    last_logged: Option<String>,
    was_warned: bool,
}

impl Services {
    /// Those that were observed last.
    pub(super) fn managed(&self) -> impl Iterator<Item = &Managed> {
        self.observed.iter().map(|service| &service.managed)
    }

    /// Takes in an answer.
    pub(super) fn note(&mut self, answered: &Answered, settings: &TargetSettings) {
        let answer = (&answered.question, &answered.answer);
        for Service { managed, .. } in &self.observed {
            if let Some(resolution) = self.run.resolutions.get_mut(&managed.id) {
                resolution.note(managed, answer, settings, &self.platforms);
            }
        }
    }

    pub(super) fn note_last_error(&mut self, error: Option<String>) {
        self.last_error = error;
    }

    /// The resolutions of the services that are still there.
    fn resolutions(&self) -> impl Iterator<Item = &Resolution> {
        self.managed()
            .filter_map(|managed| self.run.resolutions.get(&managed.id))
    }

    /// How long an answer has been awaited; `None` where none is.
    pub(super) fn longest_wait(&self) -> Option<Duration> {
        self.resolutions().filter_map(Resolution::waited).max()
    }

    /// Whose answer is awaited.
    pub(super) fn awaited(&self) -> Option<Reason> {
        let last_error = self.last_error.as_deref();
        self.resolutions()
            .find_map(|resolution| resolution.awaited(last_error))
    }

    fn desired(&self, managed: &Managed) -> Desired {
        match self.target(managed) {
            Ok(reference) => Desired::Image {
                reference,
                id: None,
                intent: self.run.intent,
            },
            Err(reason) => Desired::Keep(reason),
        }
    }

    fn target(&self, managed: &Managed) -> Result<ImageReference, Reason> {
        let resolution = self.run.resolutions.get(&managed.id).ok_or_else(not_asked)?;
        let reference = resolution.target(managed, self.last_error.as_deref())?;
        if self.run.mode == Mode::ReportOnly {
            return Err(Reason::AwaitingSchedule {
                published: Some(reference.to_string()),
            });
        }
        // One at a time, and a failure halts the rest.
        if let Some((name, because)) = self.run.halted.get(&managed.workload)
            && *name != managed.name
        {
            return Err(Reason::Halted {
                name: name.clone(),
                because: because.clone(),
            });
        }
        let mut others = self.managed().filter(|other| other.workload == managed.workload);
        match others.find(|other| other.id != managed.id && other.is_in_progress()) {
            Some(other) => Err(Reason::WaitingForReplica {
                name: other.name.clone(),
            }),
            None => Ok(reference),
        }
    }
}

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// Begins a run over the services, too: it asks again whether the engine is a manager, unless that was asked lately.
    pub(super) async fn start_services(&mut self, mode: Mode, intent: Intent) {
        self.services.run = ServicesRun {
            mode,
            intent,
            ..ServicesRun::default()
        };
        let is_known = |denied: Instant| denied.elapsed() < NO_MANAGER_FOR;
        self.services.is_manager = self.settings.swarm && !self.services.denied.is_some_and(is_known);
        self.observe_services().await;
        if self.services.observed.is_empty() || !self.manager.has_source() {
            return;
        }
        for tracked in self.services.tracked.values_mut() {
            tracked.backoff = None;
        }
        // Without them, an image is not refused for its platforms.
        let nodes = self.engine.nodes().await.unwrap_or_default();
        let platforms = nodes.iter().filter_map(|node| {
            let text = |name: &str| node.pointer(&format!("/Description/Platform/{name}"))?.as_str();
            platform(text("OS")?, text("Architecture")?)
        });
        self.services.platforms = platforms.collect::<BTreeSet<_>>().into_iter().collect();
        let settings = &self.settings.target;
        let resolutions = self
            .services
            .observed
            .iter()
            .filter_map(|Service { managed, .. }| {
                Some((managed.id.clone(), Resolution::of(managed, settings)?))
            });
        self.services.run.resolutions = resolutions.collect();
        self.ask_about_services();
    }

    /// Asks what is to be asked next.
    pub(super) fn ask_about_services(&mut self) {
        for resolution in self.services.run.resolutions.values() {
            if let Some(question) = resolution.question() {
                self.manager.ask(question);
            }
        }
    }

    /// Observes the services: two calls where there are some, one where there are none. What goes on with containers does
    /// not depend on it.
    pub(super) async fn observe_services(&mut self) {
        if !self.services.is_manager {
            return;
        }
        match self.read_services().await {
            Ok(observed) => {
                self.services.is_manager = observed.is_some();
                // One that had services may only be on its way back, and one that has just been started, too.
                let was_none =
                    self.services.observed.is_empty() && self.services.run.mode != Mode::ReportOnly;
                self.services.denied = (observed.is_none() && was_none).then(Instant::now);
                self.services.observed = observed.unwrap_or_default();
                self.services.problem = None;
                let observed = &self.services.observed;
                let is_there = |id: &String| observed.iter().any(|service| service.managed.id == *id);
                self.services.tracked.retain(|id, _| is_there(id));
            }
            Err(error) => {
                let problem = error.to_string();
                if self.services.problem.as_ref() != Some(&problem) {
                    warn!(problem, "cannot observe the services of the Swarm; retrying");
                }
                self.services.problem = Some(problem);
            }
        }
    }

    async fn read_services(&self) -> Result<Option<Vec<Service>>, EngineError> {
        let Some(documents) = self.engine.services().await? else {
            return Ok(None);
        };
        let scope = &self.settings.scope;
        let read = |document: &Value, tasks: &[Value]| {
            swarm::read(document, tasks, &scope.workload_names, &scope.zone)
        };
        let ours = documents
            .into_iter()
            .filter(|document| read(document, &[]).is_some());
        let ours: Vec<Value> = ours.collect();
        let ids: Vec<&str> = ours
            .iter()
            .filter_map(|document| document["ID"].as_str())
            .collect();
        let tasks = match ids.as_slice() {
            [] => Vec::new(),
            ids => self.engine.tasks(ids).await?,
        };
        let services = ours.into_iter().filter_map(|document| {
            Some(Service {
                managed: read(&document, &tasks)?,
                document,
            })
        });
        Ok(Some(services.collect()))
    }

    /// Takes the first step that a service needs: `true`. Where none does, the report says why.
    pub(super) async fn step_services(&mut self, report: &mut Report, now: DateTime<Utc>) -> bool {
        let observed = self.services.observed.clone();
        if let Some(problem) = self.services.problem.clone() {
            let reason = Reason::EngineError {
                step: "observe the services of the Swarm".to_owned(),
                problem,
            };
            for service in &observed {
                self.report_service(report, &service.managed, &reason, Some(now + UNREACHABLE));
            }
            return false;
        }
        for service in &observed {
            if !self.run.is_about(&service.managed.name) {
                continue;
            }
            let managed = &service.managed;
            let tracked = self.services.tracked.entry(managed.id.clone()).or_default();
            if tracked
                .changed
                .is_some_and(|changed| service.version() <= changed)
            {
                // The manager that answered does not know of the change yet.
                let reason = Reason::EngineError {
                    step: "update it".to_owned(),
                    problem: "the manager has not applied it yet".to_owned(),
                };
                self.report_service(report, managed, &reason, Some(now + STALE));
                continue;
            }
            let facts = self.service_facts(managed, false);
            let desired = self.services.desired(managed);
            let decided = next(managed, &desired, &self.settings.policy, &facts, now);
            debug!(service = managed.name, row = ?decided.row, "decided");
            match decided.decision {
                Decision::Act(step) => {
                    self.apply_to_service(service, &step, now).await;
                    return true;
                }
                Decision::LearnHolds => {
                    if let Err(error) = self.read_holds().await {
                        let reason = Reason::EngineError {
                            step: READ_HOLDS.to_owned(),
                            problem: error.to_string(),
                        };
                        let tracked = self.services.tracked.entry(managed.id.clone()).or_default();
                        tracked.backoff = Some(Backoff::after(tracked.backoff.as_ref(), reason, now));
                    }
                    return true;
                }
                Decision::Wait { reason, until } => {
                    self.report_service(report, managed, &reason, Some(until));
                    if !reason.is_failure() {
                        self.ledger.note_reason(managed.into(), &reason, now).await;
                    }
                }
                Decision::Rest(reason) => {
                    self.report_service(report, managed, &reason, None);
                    self.ledger.note_reason(managed.into(), &reason, now).await;
                }
            }
        }
        false
    }

    fn service_facts(&self, managed: &Managed, is_plan: bool) -> Facts {
        let resolution = self.services.run.resolutions.get(&managed.id);
        let target = resolution.and_then(|resolution| resolution.target(managed, None).ok());
        let tracked = self.services.tracked.get(&managed.id);
        Facts {
            backoff: tracked.and_then(|tracked| tracked.backoff.clone()),
            holds: self.holds.of(
                &managed.name,
                &target.map(|target| target.to_string()).unwrap_or_default(),
            ),
            is_plan,
        }
    }

    async fn apply_to_service(&mut self, service: &Service, step: &Step, now: DateTime<Utc>) {
        let Managed {
            id, name, workload, ..
        } = &service.managed;
        let defaults = Defaults {
            monitor: self.settings.policy.healthy_time,
            stop_grace_period: self.settings.scope.stop_timeout,
        };
        if let Step::Begin { .. } = step
            && !std::mem::replace(
                &mut self.services.tracked.entry(id.clone()).or_default().was_warned,
                true,
            )
        {
            for warning in swarm::warnings(&service.document["Spec"], defaults) {
                warn!(container = name, workload, "{warning}");
            }
        }
        match step {
            Step::RollBack { .. } | Step::Quarantine { .. } => warn!(container = name, workload, "{step}"),
            _ => info!(container = name, workload, "{step}"),
        }
        *self.steps_taken.entry(step.kind()).or_default() += 1;
        let done = swarm::execute(self.engine.as_ref(), service, step, defaults, now).await;
        let tracked = self.services.tracked.entry(id.clone()).or_default();
        match done {
            Ok(()) => {
                tracked.backoff = None;
                tracked.changed = (!matches!(step, Step::NoteFirstSeen { .. })).then(|| service.version());
                if let Step::Quarantine { cause, .. } = step {
                    let failed = (name.clone(), cause.clone());
                    self.services.run.halted.insert(workload.clone(), failed);
                    // What an operator asked for was tried, once.
                    self.services.run.intent = Intent::Upgrade;
                }
            }
            // Somebody else was faster: what is wanted now follows from what is there now.
            Err(error) => {
                let problem = error.to_string();
                if !matches!(error, EngineError::Conflict(_)) {
                    warn!(container = name, workload, %step, problem, "engine call failed; will retry");
                }
                let reason = Reason::EngineError {
                    step: step.to_string(),
                    problem,
                };
                tracked.backoff = Some(Backoff::after(tracked.backoff.as_ref(), reason, now));
            }
        }
    }

    fn report_service(
        &mut self,
        report: &mut Report,
        managed: &Managed,
        reason: &Reason,
        until: Option<DateTime<Utc>>,
    ) {
        if let Some(until) = until {
            report.check_by(until);
        }
        let tracked = self.services.tracked.entry(managed.id.clone()).or_default();
        if reason.is_news(&mut tracked.last_logged) {
            let (container, workload) = (&managed.name, &managed.workload);
            let kind = reason.kind().as_str();
            if reason.is_failure() {
                warn!(container, workload, reason = kind, "{reason}");
            } else {
                info!(container, workload, reason = kind, "{reason}");
            }
        }
        report
            .delegates
            .push(DelegateReport::of_managed(managed, reason, until));
    }

    /// What a scheduled run would do to each service.
    pub(super) async fn plan_services(&mut self, now: DateTime<Utc>) -> Vec<Planned> {
        if !self.services.observed.is_empty() {
            // Without what the engine remembers of pauses and delays, the plan shows the rest.
            let _ = self.read_holds().await;
        }
        let policy = &self.settings.policy;
        let plan = self.services.managed().map(|managed| {
            let facts = self.service_facts(managed, true);
            let decided = next(managed, &self.services.desired(managed), policy, &facts, now);
            Planned::of_managed(managed, &decided.decision)
        });
        plan.collect()
    }
}
