//! The loop over all delegates: observe, decide and act, until there is nothing left to do but wait.

mod act;
mod alert_link;
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
pub mod questions;
mod reachability;
pub mod reconfigure;
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

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use tracing::warn;

use crate::engine::{Engine, EngineCalls, EngineError};
use crate::health::HealthEndpoint;
use crate::host::engine_problem;
use crate::host::hold::KnownHolds;
use crate::image::TargetSettings;
use crate::managed::Orchestrate as _;
use crate::manager::ImageSource;
use crate::observe::{Observer, Scope, Turn};
use crate::reconcile::act::Outcome;
use crate::reconcile::clock::{Clock, Timekeeper};
use crate::reconcile::controller::{Controller, Core, observe_with_answers};
use crate::reconcile::driver::Driver;
pub use crate::reconcile::observation::Observed;
use crate::reconcile::questions::{Answer, Question, through_engine};
use crate::reconcile::subject::Subject;
use crate::reconcile::tracked::Tracked;
use crate::reconcile::upgrade_run::UpgradeRun;
use crate::rollout::reason::Reason;
use crate::rollout::{
    Blocker, ChosenOrder, Decided, Decision, Desired, Fact, Intent, Memory, Policy, Pulls, Reach, Rollout,
    next,
};
use crate::status::evidence::EvidenceStore;
use crate::status::planned::Planned;
use crate::status::report::{Report, none_found};
use crate::swarm::Swarm;

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
    pub(crate) engine: Arc<E>,
    pub(crate) core: Core<M>,
    pub(crate) observer: Observer<H>,
    settings: Settings,
    timekeeper: Timekeeper,
    /// The observations of each container, and the calls about it.
    memory: Memory,
    services: Box<Driver<Swarm<E>>>,
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
            target.clone(),
            settings.swarm,
        );
        Self {
            services: Box::new(Driver::new(swarm, policy.clone())),
            core: Core::new(through_engine(Arc::clone(&engine)), source, target.clone()),
            engine,
            observer: Observer::new(endpoint),
            settings,
            timekeeper: Timekeeper::new(clock),
            memory: Memory::default(),
            recent: None,
            stood_by: false,
            retries: false,
            pulls: Pulls::default(),
            holds,
            tracked: HashMap::new(),
            evidence: EvidenceStore::default(),
        }
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

    fn track(&mut self, rollout: &Rollout) -> &mut Tracked {
        self.tracked
            .entry(rollout.name.clone())
            .or_insert_with(|| Tracked::new(rollout))
    }

    /// Finds the delegates, and everything that a scheduled run would know about each, without changing anything. Waits for all
    /// answers, and calls `waiting` with the reason if that takes long.
    ///
    /// # Errors
    /// The engine could not be observed.
    pub async fn survey(&mut self, mut waiting: impl FnMut(&Reason)) -> Result<Observed, EngineError> {
        self.core.starting = Some(Intent::Upgrade);
        let mut observed = observe_with_answers(self, &mut waiting).await?;
        if self.observer.is_waiting() {
            self.observer.settled().await;
            observed = observe_with_answers(self, waiting).await?;
        }
        self.learned(observed).await
    }

    /// Learns what a plan depends on beside the containers.
    async fn learned(&mut self, observed: Observed) -> Result<Observed, EngineError> {
        let (rollouts, now) = (&observed.rollouts, observed.now);
        let mut learned = false;
        self.keep_holds(rollouts).await;
        self.note_failures(rollouts, now);
        for rollout in rollouts {
            // At most once each: the holds, and the obstacles that no document shows.
            for _ in 0..2 {
                let Decision::Learn(fact @ (Fact::Holds | Fact::HiddenObstacle)) =
                    self.answer(rollout, rollouts, true, now).0.decision
                else {
                    break;
                };
                self.learn(rollout, rollouts, fact, now).await;
                learned = true;
            }
        }
        if !learned {
            return Ok(observed);
        }
        let observed = self.observe_all().await?;
        // The holds that were read first may have expired meanwhile. If they cannot be read, the plan says so.
        let _ = self.read_holds().await;
        Ok(observed)
    }

    /// Plans what a scheduled run would do to each delegate, without doing it. For `waiting` and errors, see [`Self::survey`].
    pub async fn plan(&mut self, waiting: impl FnMut(&Reason)) -> Result<Vec<Planned>, EngineError> {
        let survey = self.survey(waiting).await?;
        let services = self.plan_services(survey.now).await;
        let others = self.observer.not_delegates().iter().map(|(rollout, reason)| {
            let rest = Decision::Rest(reason.clone());
            Planned::new(rollout, &rest, &[], &ChosenOrder::StartFirst)
        });
        Ok(self
            .rows(survey)
            .into_iter()
            .chain(services.into_iter().flatten())
            .chain(others)
            .collect())
    }

    /// The rows of the run's containers.
    fn rows(&self, observed: Observed) -> Vec<Planned> {
        let Observed {
            mut rollouts, now, ..
        } = observed;
        for rollout in &mut rollouts {
            let no_free_port = rollout.no_free_port.take();
            rollout.single_instance = rollout.single_instance.take().or(no_free_port);
        }
        let row = |rollout: &Rollout| {
            let (Decided { decision, .. }, blockers) = self.answer(rollout, &rollouts, true, now);
            let mut planned = Planned::new(rollout, &decision, &blockers, &self.update_order(rollout));
            let serving = rollout.serving.as_ref().filter(|_| !rollout.is_upgrader());
            planned
                .warnings
                .extend(serving.and_then(|serving| serving.image.support_notice(now)));
            planned
        };
        let about = rollouts
            .iter()
            .filter(|rollout| self.core.run.is_about(&rollout.name));
        about.map(row).collect()
    }

    /// Decides which image a scheduled run wants for a delegate, and lists everything that keeps an upgrade from starting, beside
    /// `DISABLE_AUTO_UPGRADE`.
    pub(crate) fn judge(
        &self,
        rollout: &Rollout,
        Observed { rollouts, now, .. }: &Observed,
    ) -> (Desired, Vec<Blocker>) {
        let (desired, mut facts) = self.known(rollout, rollouts, *now);
        facts.is_plan = true;
        let policy = Policy {
            health_only: false,
            ..self.policy(rollout).into_owned()
        };
        let (_, blockers) = next(rollout, &desired, &policy, &facts, *now);
        (desired, blockers)
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
        for rollout in self.core.run.in_order(rollouts) {
            let (decided, blockers) = self.answer(rollout, rollouts, false, now);
            let Core { alerts, manager, .. } = &mut self.core;
            alerts.keep(&mut manager.questions, &blockers);
            let listed = blockers.iter().map(|blocker| &blocker.reason);
            let mut reasons = decided.decision.reason().into_iter().chain(listed);
            if let Some(reason) = reasons.find(|reason| reason.kind().halts_replicas()) {
                self.core.run.halt_replicas(rollout, reason);
            }
            self.core
                .run
                .note_rest(rollout, matches!(decided.decision, Decision::Rest(_)));
        }
    }
}

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Controller for Reconciler<E, M, H> {
    type Error = EngineError;
    type Source = M;
    type Observed = Observed;

    const API: &'static str = "the Docker engine";

    fn is_unreachable(error: &EngineError) -> bool {
        // Another start would not be permitted either.
        matches!(error, EngineError::Unreachable(problem) if !problem.contains("ermission denied"))
    }

    fn problem(error: &EngineError) -> String {
        engine_problem(error)
    }

    fn core(&self) -> &Core<M> {
        &self.core
    }

    fn core_mut(&mut self) -> &mut Core<M> {
        &mut self.core
    }

    async fn observe(&mut self) -> Result<Observed, EngineError> {
        match self.recent_observation() {
            Some(recent) => Ok(recent),
            None => self.observe_all().await,
        }
    }

    fn time(observed: &Observed) -> DateTime<Utc> {
        observed.now
    }

    async fn note_observation(&mut self, observed: &Observed) -> Option<Report> {
        let (rollouts, now) = (&observed.rollouts, observed.now);
        if let Some(report) = self.stand_by(rollouts, now).await {
            return Some(report);
        }
        if observed.is_new {
            self.observe_services().await;
        }
        let healthy_time = self.settings.policy.healthy_time;
        self.core
            .ledger
            .observe(rollouts, self.services.managed(), healthy_time, now)
            .await;
        self.collect_pulls(now);
        None
    }

    fn stands_by(&self) -> bool {
        *self.observer.turn() != Turn::Acts
    }

    fn subjects<'a>(&'a self, observed: &'a Observed) -> impl Iterator<Item = Subject<'a>> {
        let services = self.services.managed().map(Subject::from);
        observed.rollouts.iter().map(Subject::from).chain(services)
    }

    async fn new_run(&mut self, intent: Intent, observed: &Observed) -> UpgradeRun {
        self.services.orchestrator.start();
        self.observe_services().await;
        self.services.start_run();
        let Observed { rollouts, now, .. } = observed;
        if rollouts.iter().all(Rollout::is_upgrader) && self.services.managed().next().is_none() {
            let others = self.observer.other_workloads();
            warn!("{}", none_found(&self.settings.scope.workload_names, &others));
        }
        self.log_expiry(rollouts, *now);
        self.forget_last_run();
        self.core.manager.forget_absent();
        let retries = self.retries && intent != Intent::Report;
        let run = self.core.run_about(intent, self.subjects(observed), *now);
        let mut run = run.over(rollouts).after(&self.core.run);
        run.retries.are_on = retries;
        run
    }

    fn platforms(&self) -> Option<&[String]> {
        self.services.orchestrator.platforms()
    }

    /// Containers with the published image count as delegates from the next observation on.
    fn note_answer(&mut self, _: &Question, answer: &Answer) {
        let known = &mut self.settings.scope.known_images;
        if let Answer::Published(Ok(image)) = answer
            && !known.contains(image)
        {
            known.push(image.clone());
        }
    }

    async fn step(&mut self, observed: Observed) -> Option<Report> {
        let (rollouts, now) = (&observed.rollouts, observed.now);
        self.keep_holds(rollouts).await;
        self.note_failures(rollouts, now);
        let mut report = match self.step_or_report(&observed).boxed().await {
            Outcome::Rest(report) => report,
            Outcome::Learned => {
                self.keep_for_decision(observed);
                return None;
            }
            Outcome::Changed => return None,
        };
        if self.services.step(&mut self.core, &mut report, now).await {
            return None;
        }
        self.forget_answers(rollouts);
        self.forget_absent(rollouts, now);
        let services = self.services.managed().map(|managed| managed.name.as_str());
        let services: HashSet<&str> = services.collect();
        self.core.ledger.forget_absent(|name| {
            services.contains(name) || rollouts.iter().any(|rollout| rollout.name == name)
        });
        self.report_gone(&mut report, rollouts);
        self.add_evidence(&mut report, rollouts).boxed().await;
        self.report_not_delegates(&mut report, now);
        self.keep_for_answer(observed);
        Some(report)
    }

    async fn answered(&mut self) {
        let retry_at = self.core.run.retries.at;
        let wait = retry_at.map(|at| (at - self.now()).to_std().unwrap_or_default());
        tokio::select! {
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            () = self.core.manager.questions.answered() => {}
            () = self.observer.changed() => {}
            () = self.pulls.changed() => {}
        }
    }

    fn ask_about_upgrader(&mut self) {
        let Core { manager, target, .. } = &mut self.core;
        manager.ask_about_upgrader(&self.engine, self.settings.scope.own_id.as_ref(), target);
    }

    fn engine_calls(&self) -> EngineCalls {
        self.engine.calls()
    }
}
