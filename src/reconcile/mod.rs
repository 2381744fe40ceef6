//! The loop over all delegates: observe, decide and act, until there is nothing left to do but wait.

mod act;
pub mod clock;
mod concurrency;
pub mod controller;
pub mod driver;
mod facts;
mod free_memory;
mod log;
mod manager_link;
mod observation;
pub mod operator;
pub(crate) mod questions;
mod reachability;
mod recreations;
mod releases;
mod resolve;
mod retries;
mod services;
mod standing_by;
mod subject;
mod tracked;
pub mod upgrade_run;
mod upgrader_check;
pub mod workloads;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt as _;
use tracing::warn;

use crate::engine::{Engine, EngineCalls, EngineError};
use crate::events::ledger::Ledger;
use crate::health::HealthEndpoint;
use crate::host::engine_problem;
use crate::host::hold::KnownHolds;
use crate::image::TargetSettings;
use crate::manager::heartbeat::ManagerStatus;
use crate::manager::{ImageSource, ManagerRequests, UpgraderImage};
use crate::observe::{Observer, Scope, Turn};
use crate::reconcile::act::Outcome;
use crate::reconcile::clock::{Clock, Timekeeper};
use crate::reconcile::controller::Controller;
use crate::reconcile::driver::Driver;
use crate::reconcile::manager_link::ManagerLink;
use crate::reconcile::observation::Observed;
use crate::reconcile::tracked::Tracked;
use crate::reconcile::upgrade_run::{Mode, UpgradeRun};
use crate::rollout::reason::{Reason, WORTH_A_WORD};
use crate::rollout::{Blocker, Decided, Decision, Fact, Intent, Memory, Policy, Pulls, Reach, Rollout, next};
use crate::status::evidence::EvidenceStore;
use crate::status::planned::Planned;
use crate::status::report::{DelegateReport, Report, none_found};
use crate::swarm::Swarm;

/// After this many steps a call returns, and reports that there is more to do.
const MAX_STEPS: usize = 200;

/// How often a wait for an answer is reported.
const WAITING_INTERVAL: Duration = Duration::from_secs(5);

/// The settings of a run, and the containers that it covers.
#[derive(Clone)]
pub struct Settings {
    /// Which containers, and how their health is checked.
    pub scope: Scope,
    /// The operator's policy.
    pub policy: Policy,
    /// Where images come from.
    pub target: TargetSettings,
    /// Whether the services of a Swarm are also delegates.
    pub swarm: bool,
}

/// Drives the rollouts of all delegates on a host.
///
/// It may lose its memory at any moment, and any of its futures may be dropped: the containers show what was started, and the
/// next observation finds it there.
pub struct Reconciler<E, M, H> {
    engine: Arc<E>,
    manager: ManagerLink<E, M>,
    observer: Observer<H>,
    settings: Settings,
    timekeeper: Timekeeper,
    /// The observations of each container, and the calls about it.
    memory: Memory,
    run: UpgradeRun,
    services: Box<Driver<Swarm<E>>>,
    /// The run that starts with the next observation.
    starting: Option<Mode>,
    /// When the next scheduled run starts, if known.
    next_run: Option<DateTime<Utc>>,
    /// The last observation while it is valid.
    recent: Option<Observed>,
    /// Whether another instance of this upgrader acted at the last observation.
    stood_by: bool,
    /// Whether a run retries temporary failures.
    retries: bool,
    pulls: Pulls,
    holds: KnownHolds,
    /// The memory of each delegate, by container name.
    tracked: HashMap<String, Tracked>,
    evidence: EvidenceStore,
    ledger: Ledger,
}

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// A reconciler that remembers nothing yet.
    pub fn new(engine: E, source: Option<M>, endpoint: H, settings: Settings, clock: Clock) -> Self {
        let engine = Arc::new(engine);
        let Settings { policy, target, .. } = &settings;
        let (holds, shared) = (KnownHolds::default(), Arc::clone(&engine));
        let swarm = Swarm::new(
            shared,
            settings.scope.clone(),
            policy,
            holds.clone(),
            settings.swarm,
        );
        Self {
            services: Box::new(Driver::new(swarm, policy.clone(), target.clone())),
            manager: ManagerLink::new(Arc::clone(&engine), source),
            engine,
            observer: Observer::new(endpoint),
            settings,
            timekeeper: Timekeeper::new(clock),
            memory: Memory::default(),
            run: UpgradeRun::default(),
            starting: None,
            next_run: None,
            recent: None,
            stood_by: false,
            retries: false,
            pulls: Pulls::default(),
            holds,
            tracked: HashMap::new(),
            evidence: EvidenceStore::default(),
            ledger: Ledger::new(String::new(), Duration::ZERO),
        }
    }

    /// Records and reports its outcomes in this ledger.
    #[must_use]
    pub fn with_ledger(self, ledger: Ledger) -> Self {
        Self { ledger, ..self }
    }

    /// Subscribes to the engine's changes of delegates, so that [`Self::answered`] completes at once.
    #[must_use]
    pub fn watching(mut self) -> Self {
        self.observer.watch(&self.engine);
        self
    }

    /// Makes runs retry temporary failures, while nothing is in progress and no next run starts.
    #[must_use]
    pub fn with_retries(self) -> Self {
        Self {
            retries: true,
            ..self
        }
    }

    /// The calls to the engine so far.
    pub fn engine_calls(&self) -> EngineCalls {
        self.engine.calls()
    }

    /// The requests to the Manager so far.
    pub fn manager_requests(&self) -> ManagerRequests {
        self.manager.requests()
    }

    /// The values of `DELEGATE_NAME` on this host that are not managed.
    pub fn other_workloads(&self) -> Vec<String> {
        self.observer.other_workloads()
    }

    fn upgrade_run(
        &mut self,
        mode: Mode,
        intent: Intent,
        rollouts: &[Rollout],
        now: DateTime<Utc>,
    ) -> UpgradeRun {
        if rollouts.iter().all(Rollout::is_upgrader) && self.services.managed().next().is_none() {
            warn!(
                "{}",
                none_found(
                    &self.settings.scope.workload_names,
                    &self.observer.other_workloads()
                )
            );
        }
        self.log_expiry(rollouts, now);
        self.forget_last_run();
        self.manager.forget_absent();
        if !self.manager.has_source() {
            return UpgradeRun::default().over(rollouts);
        }
        let run = UpgradeRun::new(mode, intent).over(rollouts).after(&self.run);
        let run = run.about(rollouts, &self.settings.target, now);
        if self.retries { run.with_retries() } else { run }
    }

    /// Starts a due run, takes the answers that have arrived, and asks what has to be asked.
    async fn ask_and_answer(&mut self, rollouts: &[Rollout], now: DateTime<Utc>) {
        if let Some(mode) = self.starting.take() {
            self.start_services(mode, Intent::Upgrade).await;
            self.run = self.upgrade_run(mode, Intent::Upgrade, rollouts, now);
            self.manager.ask_for(&mut self.run);
            // A fixed image needs no waiting.
            tokio::task::yield_now().await;
        }
        self.run.retry(rollouts, &self.settings.target, now);
        while let Some(answered) = self.manager.next_answer(now) {
            self.note_published(&answered.answer);
            self.run.note(&answered, &self.settings.target, now);
            self.services.note(&answered, now);
        }
        self.manager.ask_for(&mut self.run);
        self.manager.ask_for(&mut self.services.run);
    }

    fn track(&mut self, rollout: &Rollout) -> &mut Tracked {
        self.tracked
            .entry(rollout.name.clone())
            .or_insert_with(|| Tracked::new(rollout))
    }

    /// Observes once all questions of the run are answered. Calls `waiting` with the reason if that takes long.
    async fn observe_with_answers(
        &mut self,
        mut waiting: impl FnMut(&Reason),
    ) -> Result<(Vec<Rollout>, DateTime<Utc>), EngineError> {
        let mut reported = None;
        let mut has_settled = false;
        loop {
            let (rollouts, now) = self.observe().await?;
            self.ask_and_answer(&rollouts, now).await;
            let Some(reason) = self.run.awaited().or_else(|| self.services.run.awaited()) else {
                if has_settled || !self.observer.is_waiting() {
                    return Ok((rollouts, now));
                }
                has_settled = true;
                self.observer.settled().await;
                continue;
            };
            if reason.is_news(&mut reported) {
                waiting(&reason);
            }
            tokio::select! {
                () = self.manager.answered() => {}
                () = tokio::time::sleep(WORTH_A_WORD) => {}
            }
        }
    }

    /// Plans what a scheduled run would do to each delegate, without doing it. Waits for all answers, and calls `waiting` with
    /// the reason if that takes long.
    ///
    /// # Errors
    /// The engine could not be observed.
    pub async fn plan(&mut self, waiting: impl FnMut(&Reason)) -> Result<Vec<Planned>, EngineError> {
        self.start_run(Mode::Upgrade);
        let (mut rollouts, mut now) = self.observe_with_answers(waiting).await?;
        let mut learned = false;
        self.keep_holds(&rollouts).await;
        self.note_failures(&rollouts, now);
        for rollout in &rollouts {
            // At most once each: the holds, and the obstacles that no document shows.
            for _ in 0..2 {
                let Decision::Learn(fact @ (Fact::Holds | Fact::HiddenObstacle)) =
                    self.answer(rollout, &rollouts, true, now).0.decision
                else {
                    break;
                };
                self.learn(rollout, &rollouts, fact, now).await;
                learned = true;
            }
        }
        if learned {
            (rollouts, now) = self.observe().await?;
            // The holds that were read first may have expired meanwhile. If they cannot be read, the plan says so.
            let _ = self.read_holds().await;
        }
        for rollout in &mut rollouts {
            let no_free_port = rollout.no_free_port.take();
            rollout.single_instance = rollout.single_instance.take().or(no_free_port);
        }
        let others = self.planned_not_delegates();
        let services = self.plan_services(now).await;
        let containers = rollouts.iter().map(|rollout| {
            let (Decided { decision, .. }, blockers) = self.answer(rollout, &rollouts, true, now);
            let mut planned = Planned::new(rollout, &decision, &blockers, &self.update_order(rollout));
            let serving = rollout.serving.as_ref().filter(|_| !rollout.is_upgrader());
            planned
                .warnings
                .extend(serving.and_then(|serving| serving.image.support_notice(now)));
            planned
        });
        Ok(containers.chain(services).chain(others).collect())
    }

    /// Decides on one delegate, given all others, and lists what keeps an upgrade from starting. A plan assumes that all checks
    /// pass: it asks neither for the Manager nor for the host's memory.
    fn answer(
        &self,
        rollout: &Rollout,
        all: &[Rollout],
        is_plan: bool,
        now: DateTime<Utc>,
    ) -> (Decided, Vec<Blocker>) {
        let (desired, mut facts) = self.known(rollout, all, now);
        if is_plan {
            facts.is_plan = true;
            facts.free_memory.get_or_insert(Ok(()));
            facts.manager.get_or_insert(Reach::Reachable);
        }
        let policy = self.policy(rollout);
        next(rollout, &desired, &policy, &facts, now)
    }

    /// Finds the failures of all replicas before any decision on one of them.
    fn note_failures(&mut self, rollouts: &[Rollout], now: DateTime<Utc>) {
        for rollout in self.run.in_order(rollouts) {
            let (decided, blockers) = self.answer(rollout, rollouts, false, now);
            let listed = blockers.iter().map(|blocker| &blocker.reason);
            let mut reasons = decided.decision.reason().into_iter().chain(listed);
            if let Some(reason) = reasons.find(|reason| reason.kind().halts_replicas()) {
                self.run.halt_replicas(rollout, reason);
            }
            self.run
                .note_rest(rollout, matches!(decided.decision, Decision::Rest(_)));
        }
    }
}

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Controller for Reconciler<E, M, H> {
    type Error = EngineError;

    const API: &'static str = "the Docker engine";

    fn is_unreachable(error: &EngineError) -> bool {
        // Another start would not be permitted either.
        matches!(error, EngineError::Unreachable(problem) if !problem.contains("ermission denied"))
    }

    fn problem(error: &EngineError) -> String {
        engine_problem(error)
    }

    fn start_run(&mut self, mode: Mode) {
        self.starting = Some(mode);
    }

    fn set_next_run(&mut self, next: Option<DateTime<Utc>>) {
        self.next_run = next;
        self.services.next_run = next;
    }

    /// The largest future is boxed, to keep the stack small.
    async fn reconcile(&mut self) -> Result<Report, EngineError> {
        for _ in 0..MAX_STEPS {
            let observed = match self.recent_observation() {
                Some(recent) => recent,
                None => self
                    .observe()
                    .await
                    .map(|(rollouts, now)| Observed::new(rollouts, now))?,
            };
            let (is_new, now) = (observed.is_new(), observed.now);
            let rollouts = &observed.rollouts;
            if let Some(report) = self.stand_by(rollouts, now).await {
                return Ok(report);
            }
            if is_new {
                self.observe_services().await;
            }
            let healthy_time = self.settings.policy.healthy_time;
            self.ledger
                .observe(rollouts, self.services.managed(), healthy_time, now)
                .await;
            self.collect_pulls(now);
            self.ask_and_answer(rollouts, now).await;
            self.keep_holds(rollouts).await;
            self.note_failures(rollouts, now);
            let mut report = match self.step_or_report(&observed).boxed().await {
                Outcome::Rest(report) => report,
                Outcome::Learned => {
                    self.keep_for_decision(observed);
                    continue;
                }
                Outcome::Changed => continue,
            };
            if self.step_services(&mut report, now).await {
                continue;
            }
            let waited = self.run.longest_wait().max(self.services.run.longest_wait());
            if let Some(until) = next_word(waited, now) {
                report.check_by(until);
            }
            self.forget_answers(rollouts);
            self.forget_absent(rollouts, now);
            let services: HashSet<&str> = self
                .services
                .managed()
                .map(|managed| managed.name.as_str())
                .collect();
            self.ledger.forget_absent(|name| {
                services.contains(name) || rollouts.iter().any(|rollout| rollout.name == name)
            });
            self.report_gone(&mut report, rollouts);
            self.add_evidence(&mut report, rollouts).boxed().await;
            report.delegates.sort_by(|a, b| a.container.cmp(&b.container));
            self.report_not_delegates(&mut report, now);
            self.keep_for_answer(observed);
            return Ok(report);
        }
        let (rollouts, now) = self.observe().await?;
        let mut report = Report::new(now);
        report.check_by(now + TimeDelta::seconds(1));
        for rollout in self.run.in_order(&rollouts) {
            let reason = Reason::EngineError {
                step: "run".to_owned(),
                problem: "more to do".to_owned(),
            };
            report.enter(rollout, DelegateReport::new(rollout, &reason, None));
        }
        Ok(report)
    }

    async fn answered(&mut self) {
        let retry_at = self.run.retry_at();
        let wait = retry_at.map(|at| (at - self.now()).to_std().unwrap_or_default());
        tokio::select! {
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            () = self.manager.answered() => {}
            () = self.observer.changed() => {}
            () = self.pulls.changed() => {}
        }
    }

    fn check_in(&mut self) {
        if self.stands_by() {
            return;
        }
        let Settings { scope, target, .. } = &self.settings;
        self.manager.ask_about_upgrader(scope.own_id.as_ref(), target);
        self.manager.check_in();
    }

    fn next_check_in(&self) -> Duration {
        if self.stands_by() {
            return Duration::MAX;
        }
        self.manager.next_check_in()
    }

    fn stands_by(&self) -> bool {
        *self.observer.turn() != Turn::Acts
    }

    fn manager_status(&self) -> Option<ManagerStatus> {
        self.manager.status()
    }

    fn upgrader_image(&self) -> Option<&UpgraderImage> {
        self.manager.upgrader_image()
    }

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}

/// When to report a wait of this length again; `None` if nothing is awaited.
fn next_word(waited: Option<Duration>, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let wait = WORTH_A_WORD.checked_sub(waited?).unwrap_or(WAITING_INTERVAL);
    Some(now + TimeDelta::from_std(wait).unwrap_or_default())
}
