//! The Deployments that are delegates: observed, decided on and patched, until nothing is left but to wait.

mod apply;
mod commands;
mod observe;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use self::apply::words;
use super::cluster::{Cluster, ClusterError};
use super::deployment_resolution::Resolution;
use super::lock::Seen;
use super::manager_questions::ManagerQuestions;
use super::pods::Failing;
use super::{patch, path, read};
use crate::events::ledger::Ledger;
use crate::host::hold::{Holds, Paused};
use crate::image::TargetSettings;
use crate::managed::{Decision, Facts, Managed, Step, next};
use crate::manager::{ImageSource, ManagerStatus, UpgraderImage};
use crate::reconcile::clock::Clock;
use crate::reconcile::controller::Controller;
use crate::reconcile::upgrade_run::Mode;
use crate::rollout::reason::{Reason, ReasonKind, WORTH_A_WORD};
use crate::rollout::wanted::not_asked;
use crate::rollout::{Backoff, Desired, Intent, Policy};
use crate::schedule::moment;
use crate::schedule::wave::Place;
use crate::schedule::zone::Zone;
use crate::status::report::{DelegateReport, Report};
use crate::text::time;

/// After this many steps a call returns, and says that there is more to do.
const MAX_STEPS: usize = 50;

/// Which Deployments, and what is allowed.
#[derive(Clone)]
pub struct Settings {
    /// Their namespace.
    pub namespace: String,
    /// Their names.
    pub names: Vec<String>,
    /// The container whose image is followed.
    pub container: String,
    /// The operator's limits for a rollout.
    pub policy: Policy,
    /// Where images come from.
    pub target: TargetSettings,
    /// The zone of windows.
    pub zone: Zone,
    /// Nothing is written.
    pub dry_run: bool,
    /// This process, as no other one is called.
    pub holder: String,
}

/// A Deployment, and the document that it was read from.
#[derive(Clone, Debug)]
struct Deployment {
    managed: Managed,
    document: Value,
    /// The pod that failed last, where that may be read.
    failing: Option<Failing>,
}

/// Looks after the Deployments of one namespace.
///
/// It may lose all it remembers at any moment: what was begun is on the Deployments.
pub struct Deployments<M> {
    cluster: Cluster,
    manager: ManagerQuestions<M>,
    settings: Settings,
    clock: Clock,
    observed: Vec<Deployment>,
    /// Those that are not there as they should be.
    absent: Vec<(String, Reason)>,
    /// When they were read, and this process has written nothing since.
    read_at: Option<Instant>,
    run: Run,
    starting: Option<(Mode, Intent)>,
    tracked: HashMap<String, Tracked>,
    /// Pods may not be listed, so why they fail is not known.
    is_blind: bool,
    steps_taken: BTreeMap<&'static str, u64>,
    ledger: Ledger,
}

/// The goal of the present run.
#[derive(Debug, Default)]
struct Run {
    mode: Mode,
    intent: Intent,
    /// By name.
    resolutions: HashMap<String, Resolution>,
}

/// The process's memory of one Deployment. Losing it repeats a log line.
#[derive(Debug, Default)]
struct Tracked {
    backoff: Option<Backoff>,
    last_logged: Option<String>,
    lock: Seen,
    was_warned: bool,
    was_read: bool,
    /// Since when the API server refuses to show it.
    refused_since: Option<Instant>,
}

impl<M: ImageSource> Deployments<M> {
    /// Looks after these; it remembers nothing yet.
    pub fn new(cluster: Cluster, source: Option<M>, settings: Settings, clock: Clock) -> Self {
        Self {
            cluster,
            manager: ManagerQuestions::new(source),
            settings,
            clock,
            observed: Vec::new(),
            absent: Vec::new(),
            read_at: None,
            run: Run::default(),
            starting: None,
            tracked: HashMap::new(),
            is_blind: false,
            steps_taken: BTreeMap::new(),
            ledger: Ledger::new(String::new(), Duration::ZERO),
        }
    }

    /// Has its outcomes recorded and reported by this ledger.
    #[must_use]
    pub fn with_ledger(self, ledger: Ledger) -> Self {
        Self { ledger, ..self }
    }

    fn path(&self, name: &str) -> String {
        path("apps/v1", &self.settings.namespace, "deployments", name)
    }

    /// Patches a Deployment. What was read before says nothing about it any more.
    async fn patch(&mut self, name: &str, patch: &Value) -> Result<Value, ClusterError> {
        self.read_at = None;
        self.cluster.patch(&self.path(name), patch).await
    }

    /// Begins the run that is to start, takes in the answers that have come, and asks what is to be asked.
    async fn ask_and_answer(&mut self, now: DateTime<Utc>) {
        let target = &self.settings.target;
        if let Some((mode, intent)) = self.starting.take() {
            for tracked in self.tracked.values_mut() {
                tracked.backoff = None;
            }
            let all = self.observed.iter().map(|deployment| &deployment.managed);
            let resolutions =
                all.filter_map(|managed| Some((managed.name.clone(), Resolution::of(managed, target)?)));
            let has_source = self.manager.has_source();
            self.run = Run {
                mode,
                intent,
                resolutions: resolutions.filter(|_| has_source).collect(),
            };
            self.ask();
            // An image that is fixed needs no waiting.
            tokio::task::yield_now().await;
        }
        while let Some((query, answer)) = self.manager.next_answer(now) {
            for Deployment { managed, .. } in &self.observed {
                if let Some(resolution) = self.run.resolutions.get_mut(&managed.name) {
                    resolution.note(managed, &query, &answer, &self.settings.target);
                }
            }
        }
        self.ask();
    }

    fn ask(&mut self) {
        for query in self.run.resolutions.values().filter_map(Resolution::question) {
            self.manager.ask(query);
        }
    }

    /// Whose answer is awaited.
    fn awaited(&self) -> Option<Reason> {
        let last_error = self.manager.last_error().map(|error| error.to_string());
        let mut resolutions = self.run.resolutions.values();
        resolutions.find_map(|resolution| resolution.awaited(last_error.as_deref()))
    }

    fn desired(&self, managed: &Managed) -> Desired {
        let last_error = self.manager.last_error().map(|error| error.to_string());
        let resolution = self.run.resolutions.get(&managed.name).ok_or_else(not_asked);
        match resolution.and_then(|resolution| resolution.target(managed, last_error.as_deref())) {
            Ok(reference) if self.run.mode == Mode::ReportOnly => Desired::Keep(Reason::AwaitingSchedule {
                published: Some(reference.to_string()),
            }),
            Ok(reference) => Desired::Image {
                reference,
                id: None,
                intent: self.run.intent,
            },
            Err(reason) => Desired::Keep(reason),
        }
    }

    fn facts(&self, deployment: &Deployment, desired: &Desired, is_plan: bool, now: DateTime<Utc>) -> Facts {
        let annotation = |name: &str| read::annotation(&deployment.document, name);
        let image = match desired {
            Desired::Image { reference, .. } => reference.to_string(),
            Desired::Keep(_) => String::new(),
        };
        let first_seen = annotation(patch::FIRST_SEEN_AT)
            .filter(|_| annotation(patch::FIRST_SEEN_IMAGE) == Some(image.as_str()))
            .and_then(time::parse);
        let paused = annotation(patch::PAUSED).filter(|text| !text.eq_ignore_ascii_case("false"));
        let holds = Holds {
            // A time that cannot be read has no end.
            pause: paused.map(|text| Paused {
                since: now,
                until: moment::parse(text, &self.settings.zone),
                delegate: None,
            }),
            first_seen,
            place: Place::of(&deployment.managed.id, &image),
            image,
        };
        let tracked = self.tracked.get(&deployment.managed.name);
        Facts {
            backoff: tracked.and_then(|tracked| tracked.backoff.clone()),
            holds: Some(Ok(holds)),
            is_plan,
        }
    }

    /// Takes the first step that a Deployment needs. Where none does, the report says why.
    async fn step_or_report(&mut self, now: DateTime<Utc>) -> Option<Report> {
        let mut report = Report::new(now);
        for deployment in self.observed.clone() {
            let managed = &deployment.managed;
            let desired = self.desired(managed);
            let facts = self.facts(&deployment, &desired, false, now);
            let decided = next(managed, &desired, &self.settings.policy, &facts, now);
            debug!(deployment = managed.name, row = ?decided.row, "decided");
            if is_followed(&decided.decision)
                && let Some((reason, until)) = self.held_elsewhere(&deployment, &decided.decision, now).await
            {
                self.report(&mut report, managed, &reason, Some(until));
                continue;
            }
            match decided.decision {
                Decision::Act(step) if self.settings.dry_run => {
                    let reason = Reason::DryRun { step: words(&step) };
                    self.report(&mut report, managed, &reason, None);
                }
                Decision::Act(step) => {
                    self.apply(&deployment, &step, now).await;
                    return None;
                }
                // What the annotations say is known.
                Decision::LearnHolds => {}
                Decision::Wait { reason, until } => {
                    self.report(&mut report, managed, &reason, Some(until));
                    if !reason.is_failure() {
                        self.ledger.note_reason(managed.into(), &reason, now).await;
                    }
                }
                Decision::Rest(reason) => {
                    self.report(&mut report, managed, &reason, None);
                    self.ledger.note_reason(managed.into(), &reason, now).await;
                }
            }
        }
        if self.manager.is_waiting() {
            report.check_by(now + TimeDelta::from_std(WORTH_A_WORD).unwrap_or_default());
        }
        for (name, reason) in self.absent.clone() {
            self.log(&name, &name, &reason);
            report.delegates.push(DelegateReport::absent(&name, &reason));
        }
        Some(report)
    }

    fn report(
        &mut self,
        report: &mut Report,
        managed: &Managed,
        reason: &Reason,
        until: Option<DateTime<Utc>>,
    ) {
        if let Some(until) = until {
            report.check_by(until);
        }
        self.log(&managed.name, &managed.workload, reason);
        report
            .delegates
            .push(DelegateReport::of_managed(managed, reason, until));
    }

    /// Logs a reason when it is another one than before.
    fn log(&mut self, name: &str, workload: &str, reason: &Reason) {
        let tracked = self.tracked.entry(name.to_owned()).or_default();
        if !reason.is_news(&mut tracked.last_logged) {
            return;
        }
        let kind = reason.kind().as_str();
        if reason.is_failure() {
            warn!(deployment = name, workload, reason = kind, "{reason}");
        } else {
            info!(deployment = name, workload, reason = kind, "{reason}");
        }
    }
}

impl<M: ImageSource> Controller for Deployments<M> {
    type Error = ClusterError;

    const API: &'static str = "the API server of the cluster";

    fn is_unreachable(_: &ClusterError) -> bool {
        false
    }

    fn advice(_: &ClusterError) -> Option<&'static str> {
        None
    }

    fn start_run(&mut self, mode: Mode) {
        self.starting = Some((mode, Intent::Upgrade));
    }

    async fn reconcile(&mut self) -> Result<Report, ClusterError> {
        for _ in 0..MAX_STEPS {
            let now = self.observe().await?;
            self.ask_and_answer(now).await;
            let healthy_time = self.settings.policy.healthy_time;
            let all = self.observed.iter().map(|deployment| &deployment.managed);
            self.ledger.observe(&[], all, healthy_time, now).await;
            if let Some(mut report) = self.step_or_report(now).await {
                report.delegates.sort_by(|a, b| a.container.cmp(&b.container));
                return Ok(report);
            }
        }
        let now = self.observe().await?;
        let mut report = Report::new(now);
        report.check_by(now + TimeDelta::seconds(1));
        Ok(report)
    }

    async fn answered(&mut self) {
        self.manager.answered().await;
    }

    fn check_in(&mut self) {
        self.manager.check_in();
    }

    fn next_check_in(&self) -> Duration {
        self.manager.next_check_in()
    }

    fn stands_by(&self) -> bool {
        false
    }

    fn manager_status(&self) -> Option<ManagerStatus> {
        self.manager.status()
    }

    fn upgrader_image(&self) -> Option<&UpgraderImage> {
        None
    }

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn steps_taken(&self) -> &BTreeMap<&'static str, u64> {
        &self.steps_taken
    }
}

/// Whether this is about an upgrade that is in progress, which one process follows at a time.
fn is_followed(decision: &Decision) -> bool {
    match decision {
        Decision::Act(Step::Begin { .. } | Step::NoteFirstSeen { .. })
        | Decision::LearnHolds
        | Decision::Rest(_) => false,
        Decision::Act(_) => true,
        Decision::Wait { reason, .. } => matches!(
            reason.kind(),
            ReasonKind::RollingOut | ReasonKind::RollingBack | ReasonKind::Proving
        ),
    }
}

fn failed(step: &str, error: &ClusterError) -> Reason {
    Reason::EngineError {
        step: step.to_owned(),
        problem: error.to_string(),
    }
}
