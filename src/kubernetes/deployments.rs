//! The Deployments that are delegates: observed, decided on and patched, until nothing is left but to wait.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;
use tracing::{debug, info, warn};

use super::cluster::{Cluster, ClusterError};
use super::lock::{Lock, RENEWAL, Seen, Standing};
use super::manager_questions::ManagerQuestions;
use super::pods::{self, Failing};
use super::resolution::Resolution;
use super::{patch, path, read};
use crate::events::ledger::Ledger;
use crate::host::hold::{Holds, Paused};
use crate::image::TargetSettings;
use crate::managed::{Decision, Facts, Managed, Step, next};
use crate::manager::{ImageSource, ManagerStatus, UpgraderImage};
use crate::reconcile::clock::Clock;
use crate::reconcile::controller::Controller;
use crate::reconcile::upgrade_run::Mode;
use crate::reconcile::wanted::not_asked;
use crate::rollout::reason::{Reason, ReasonKind};
use crate::rollout::{Backoff, Desired, Intent, Policy};
use crate::schedule::moment;
use crate::schedule::wave::Place;
use crate::schedule::zone::Zone;
use crate::status::report::{DelegateReport, Planned, Report};

/// After this many steps a call returns, and says that there is more to do.
const MAX_STEPS: usize = 50;
/// How soon a condition that may be false is read again.
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// An answer that takes longer is worth a word.
const WORTH_A_WORD: TimeDelta = TimeDelta::seconds(2);

/// Which Deployments, and what is allowed.
#[derive(Clone)]
pub struct Settings {
    /// Their namespace.
    pub namespace: String,
    /// Their names.
    pub names: Vec<String>,
    /// The container whose image is followed.
    pub container: String,
    /// What the operator allows.
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
pub(super) struct Deployment {
    pub(super) managed: Managed,
    pub(super) document: Value,
    /// The pod that failed last, where that may be read.
    failing: Option<Failing>,
}

/// Looks after the Deployments of one namespace.
///
/// It may lose all it remembers at any moment: what was begun is on the Deployments.
pub struct Deployments<M> {
    pub(super) cluster: Cluster,
    manager: ManagerQuestions<M>,
    settings: Settings,
    clock: Clock,
    observed: Vec<Deployment>,
    /// Those that are not there as they should be.
    absent: Vec<(String, Reason)>,
    run: Run,
    starting: Option<(Mode, Intent)>,
    tracked: HashMap<String, Tracked>,
    /// Pods may not be listed, so why they fail is not known.
    is_blind: bool,
    steps_taken: BTreeMap<&'static str, u64>,
    ledger: Ledger,
}

/// What the present run wants.
#[derive(Debug, Default)]
struct Run {
    mode: Mode,
    intent: Intent,
    /// By name.
    resolutions: HashMap<String, Resolution>,
}

/// What is remembered of one Deployment. Losing it repeats a log line.
#[derive(Debug, Default)]
struct Tracked {
    backoff: Option<Backoff>,
    last_logged: Option<String>,
    lock: Seen,
    was_warned: bool,
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

    /// Reads all Deployments.
    ///
    /// # Errors
    /// The API server cannot be reached.
    async fn observe(&mut self) -> Result<DateTime<Utc>, ClusterError> {
        let mut observed = Vec::new();
        let mut absent = Vec::new();
        for name in self.settings.names.clone() {
            match self.read(&name).await? {
                Ok(deployment) => observed.push(deployment),
                Err(reason) => absent.push((name, reason)),
            }
        }
        (self.observed, self.absent) = (observed, absent);
        let all = self.observed.iter().map(|deployment| &deployment.managed);
        self.manager.note_delegates(all, &self.settings.target);
        Ok((self.clock)())
    }

    /// Reads one Deployment; or why it is not there as it should be.
    async fn read(&mut self, name: &str) -> Result<Result<Deployment, Reason>, ClusterError> {
        let path = self.path(name);
        let mut document = match self.cluster.get(&path).await {
            Ok(document) => document,
            Err(ClusterError::NotFound(_)) => return Ok(Err(self.missing(name).await)),
            Err(error @ ClusterError::Unreachable(_)) => return Err(error),
            Err(error) => return Ok(Err(failed("read the Deployment", &error))),
        };
        if read::has_exceeded_its_deadline(&document) {
            tokio::time::sleep(SECOND_LOOK).await;
            document = match self.cluster.get(&path).await {
                Ok(document) => document,
                Err(error @ ClusterError::Unreachable(_)) => return Err(error),
                Err(error) => return Ok(Err(failed("read the Deployment", &error))),
            };
        }
        let Settings { container, zone, .. } = &self.settings;
        let managed = match read::read(&document, container, name, zone) {
            Ok(managed) => managed,
            Err(reason) => return Ok(Err(reason)),
        };
        let failing = if managed.tasks.are_complete() && !managed.is_in_progress() {
            None
        } else {
            self.failing(&document).await
        };
        let failure = failing.as_ref().map(|failing| failing.failure.clone());
        Ok(Ok(Deployment {
            managed: read::with_failure(managed, failure),
            document,
            failing,
        }))
    }

    /// What there is in place of a Deployment.
    async fn missing(&self, name: &str) -> Reason {
        let path = path("apps/v1", &self.settings.namespace, "statefulsets", name);
        if self.cluster.get(&path).await.is_ok() {
            return Reason::NotUpgradable {
                kind: "a StatefulSet, whose pods a bad image would hold until somebody deletes them",
            };
        }
        Reason::NoDeployment {
            name: name.to_owned(),
            namespace: self.settings.namespace.clone(),
        }
    }

    /// The pod that failed last, where pods may be listed.
    async fn failing(&mut self, document: &Value) -> Option<Failing> {
        let selector = pods::selector(document).filter(|_| !self.is_blind)?;
        let pods = super::path("v1", &self.settings.namespace, "pods", "");
        let pods = format!("{}?labelSelector={selector}", pods.trim_end_matches('/'));
        match self.cluster.get(&pods).await {
            Ok(list) => pods::last_failure(list["items"].as_array()?, &self.settings.container),
            Err(error) => {
                self.is_blind = matches!(error, ClusterError::Forbidden(_));
                debug!(%error, "cannot list the pods; going on without their words");
                None
            }
        }
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
        for query in self.run.resolutions.values().filter_map(Resolution::query) {
            self.manager.ask(query);
        }
    }

    fn desired(&self, managed: &Managed) -> Desired {
        let last_error = self.manager.last_error();
        let resolution = self.run.resolutions.get(&managed.name).ok_or_else(not_asked);
        match resolution.and_then(|resolution| resolution.target(managed, last_error.as_ref())) {
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
        let annotation = |name: &str| {
            let annotations = deployment.document.pointer("/metadata/annotations")?;
            annotations.get(name)?.as_str()
        };
        let image = match desired {
            Desired::Image { reference, .. } => reference.to_string(),
            Desired::Keep(_) => String::new(),
        };
        let first_seen = annotation(patch::FIRST_SEEN_AT)
            .filter(|_| annotation(patch::FIRST_SEEN_IMAGE) == Some(image.as_str()))
            .and_then(|text| DateTime::parse_from_rfc3339(text).ok());
        let paused = annotation(patch::PAUSED).filter(|text| !text.eq_ignore_ascii_case("false"));
        let holds = Holds {
            // A time that cannot be read has no end.
            pause: paused.map(|text| Paused {
                since: now,
                until: moment::parse(text, &self.settings.zone),
            }),
            first_seen: first_seen.map(|moment| moment.to_utc()),
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
                && let Some((reason, until)) = self.held_elsewhere(&deployment, now).await
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
            report.check_by(now + WORTH_A_WORD);
        }
        for (name, reason) in self.absent.clone() {
            self.log(&name, &name, &reason);
            report.delegates.push(DelegateReport::absent(&name, &reason));
        }
        Some(report)
    }

    /// Why another process follows the upgrade of this Deployment, and until when at least. Where this one does, it renews its
    /// lock in time.
    async fn held_elsewhere(
        &mut self,
        deployment: &Deployment,
        now: DateTime<Utc>,
    ) -> Option<(Reason, DateTime<Utc>)> {
        let tracked = self.tracked.entry(deployment.managed.name.clone()).or_default();
        let standing = tracked
            .lock
            .note(Lock::read(&deployment.document), &self.settings.holder);
        let renewed = match standing {
            Standing::Taken { by, for_another } => {
                let left = TimeDelta::from_std(for_another.min(RENEWAL)).unwrap_or_default();
                return Some((Reason::StandingBy { name: by }, now + left));
            }
            Standing::Held { for_another, .. } if !for_another.is_zero() => return None,
            Standing::Held { renewed, .. } | Standing::Free { renewed } => renewed,
        };
        if !self.settings.dry_run && !self.settings.policy.health_only {
            let lock = self.lock(renewed);
            let patch = patch::renewal(&deployment.document, &lock);
            let path = self.path(&deployment.managed.name);
            // Whoever is too late finds the other's lock with the next look.
            if let Err(error) = self.cluster.patch(&path, &patch).await {
                debug!(%error, "cannot renew the lock");
            }
        }
        None
    }

    fn lock(&self, renewed: u64) -> Lock {
        Lock {
            holder: self.settings.holder.clone(),
            renewed,
        }
    }

    async fn apply(&mut self, deployment: &Deployment, step: &Step, now: DateTime<Utc>) {
        let Deployment {
            managed, document, ..
        } = deployment;
        let Managed { name, workload, .. } = managed;
        let container = self.settings.container.clone();
        match step {
            Step::Begin { .. } => self.warn_before(deployment),
            Step::RollBack { .. } => self.log_last_lines(deployment).await,
            _ => {}
        }
        let writer = read::last_writer(document, &container);
        match (step, writer) {
            (Step::NoteRollback { .. }, Some(writer)) => {
                warn!(deployment = name, workload, writer, "{}", words(step));
            }
            (Step::RollBack { .. } | Step::Quarantine { .. }, _) => {
                warn!(deployment = name, workload, "{}", words(step));
            }
            _ => info!(deployment = name, workload, "{}", words(step)),
        }
        *self.steps_taken.entry(step.kind()).or_default() += 1;
        let renewed = Lock::read(document).map_or(0, |lock| lock.renewed.wrapping_add(1));
        let patch = patch::patch((managed, document), &container, step, &self.lock(renewed), now);
        let done = self.cluster.patch(&self.path(name), &patch).await;
        let tracked = self.tracked.entry(name.clone()).or_default();
        match done {
            Ok(_) => {
                tracked.backoff = None;
                // What an operator asked for was tried, once.
                if let Step::Quarantine { .. } = step {
                    self.run.intent = Intent::Upgrade;
                }
            }
            Err(error) => {
                // Somebody else was faster: what is wanted now follows from what is there now.
                if !matches!(error, ClusterError::Conflict(_)) {
                    warn!(deployment = name, workload, step = words(step), problem = %error, "API call failed; will retry");
                }
                let reason = failed(&words(step), &error);
                tracked.backoff = Some(match error {
                    ClusterError::Forbidden(_) => Backoff::hopeless(reason, now),
                    _ => Backoff::after(tracked.backoff.as_ref(), reason, now),
                });
            }
        }
    }

    /// What may go wrong is said once, before it can.
    fn warn_before(
        &mut self,
        Deployment {
            managed, document, ..
        }: &Deployment,
    ) {
        let tracked = self.tracked.entry(managed.name.clone()).or_default();
        if std::mem::replace(&mut tracked.was_warned, true) {
            return;
        }
        for warning in read::warnings(document) {
            warn!(
                deployment = managed.name,
                workload = managed.workload,
                "{warning}"
            );
        }
        if let Some(owner) = read::owner(document) {
            warn!(
                deployment = managed.name,
                workload = managed.workload,
                "{owner} has made it, and may write its own image back; that would count as a rollback"
            );
        }
    }

    /// The last lines of the pod that failed, where they may be read.
    async fn log_last_lines(&self, deployment: &Deployment) {
        let Some(failing) = &deployment.failing else {
            return;
        };
        let namespace = &self.settings.namespace;
        for query in failing.log_queries(&self.settings.container) {
            let path = format!("{}/log?{query}", path("v1", namespace, "pods", &failing.pod));
            let Ok(text) = self.cluster.text(&path).await else {
                continue;
            };
            for line in failing.redacted(&text) {
                warn!(
                    deployment = deployment.managed.name,
                    pod = failing.pod,
                    "its log: {line}"
                );
            }
            if !text.trim().is_empty() {
                return;
            }
        }
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
        let line = match reason {
            Reason::AwaitingAnswer { .. } => return,
            Reason::Proving { .. } => "proving".to_owned(),
            reason => reason.to_string(),
        };
        let tracked = self.tracked.entry(name.to_owned()).or_default();
        if tracked.last_logged.as_ref() == Some(&line) {
            return;
        }
        let kind = reason.kind().as_str();
        if reason.is_failure() {
            warn!(deployment = name, workload, reason = kind, "{reason}");
        } else {
            info!(deployment = name, workload, reason = kind, "{reason}");
        }
        tracked.last_logged = Some(line);
    }

    /// What a run would do to each Deployment, without doing it.
    ///
    /// # Errors
    /// The API server cannot be reached.
    pub async fn plan(&mut self) -> Result<Vec<Planned>, ClusterError> {
        self.starting = Some((Mode::Upgrade, Intent::Upgrade));
        let now = loop {
            let now = self.observe().await?;
            self.ask_and_answer(now).await;
            if !self.manager.is_waiting() {
                break now;
            }
            self.manager.answered().await;
        };
        let plan = self.observed.iter().map(|deployment| {
            let desired = self.desired(&deployment.managed);
            let facts = self.facts(deployment, &desired, true, now);
            let policy = &self.settings.policy;
            let decided = next(&deployment.managed, &desired, policy, &facts, now);
            Planned::of_managed(&deployment.managed, &decided.decision)
        });
        let absent = self
            .absent
            .iter()
            .map(|(name, reason)| Planned::absent(name, reason));
        Ok(plan.chain(absent).collect())
    }

    /// Starts a run for these Deployments that an operator asked for, whatever failed there before.
    pub fn start_retry(&mut self) {
        self.starting = Some((Mode::Upgrade, Intent::Retry));
    }

    /// Starts a run that takes the only Deployment back to its previous image.
    ///
    /// # Errors
    /// Why that cannot be, in a sentence.
    pub async fn start_rollback(&mut self) -> Result<(), String> {
        self.observe().await.map_err(|error| error.to_string())?;
        if let Some((_, reason)) = self.absent.first() {
            return Err(reason.to_string());
        }
        let mut resolutions = HashMap::new();
        for Deployment { managed, .. } in &self.observed {
            let name = &managed.name;
            if managed.is_in_progress() {
                return Err(format!(
                    "{name}: an upgrade is in progress; try again once it is over"
                ));
            }
            if let Some(from) = &managed.record.rolled_back_from {
                return Err(format!("{name}: it was rolled back already, from {from}"));
            }
            let before = managed.previous_image().and_then(|image| image.parse().ok());
            let before =
                before.ok_or_else(|| format!("{name}: no image before this one is recorded on it"))?;
            info!(deployment = name, from = %managed.image, to = %before, "rolling back");
            resolutions.insert(name.clone(), Resolution::fixed(managed, before));
        }
        self.run = Run {
            mode: Mode::Upgrade,
            intent: Intent::Rollback,
            resolutions,
        };
        Ok(())
    }

    /// Pauses the Deployments, or ends their pause.
    ///
    /// # Errors
    /// Why that cannot be.
    pub async fn pause(&mut self, paused: Option<&str>) -> Result<(), ClusterError> {
        self.observe().await?;
        for Deployment {
            managed, document, ..
        } in &self.observed
        {
            let patch = patch::pause(document, paused.map(str::to_owned));
            self.cluster.patch(&self.path(&managed.name), &patch).await?;
        }
        Ok(())
    }

    /// Those that are not there as they should be, each with the reason.
    pub fn absent(&self) -> &[(String, Reason)] {
        &self.absent
    }
}

impl<M: ImageSource> Controller for Deployments<M> {
    type Error = ClusterError;

    const API: &'static str = "the API server of the cluster";

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

/// A step as it is logged: here one patch notes what is tried and gives it to the Deployment.
fn words(step: &Step) -> String {
    match step {
        Step::Begin { to, .. } => format!("updating it to {to}"),
        step => step.to_string(),
    }
}

fn failed(step: &str, error: &ClusterError) -> Reason {
    Reason::EngineError {
        step: step.to_owned(),
        problem: error.to_string(),
    }
}
