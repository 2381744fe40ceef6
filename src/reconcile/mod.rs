//! One pass over all delegates: look, decide, take a step, look again, until nothing is left but to wait.

mod act;
pub mod clock;
pub(crate) mod common_cause;
mod facts;
mod log;
mod observation;
pub mod operator;
pub mod upgrade_run;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tracing::warn;

use crate::container::ContainerId;
use crate::document::{Obstacle, SingleInstance};
use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::image::{ImageReference, TargetSettings, manager_reference};
use crate::manager::ImageSource;
use crate::manager::heartbeat::{Heartbeat, ManagerStatus, Queries};
use crate::observe::{Identities, Scope};
use crate::reconcile::clock::{Clock, Timekeeper};
use crate::reconcile::common_cause::{Reach, Reachability};
use crate::reconcile::upgrade_run::{Mode, UpgradeRun};
use crate::rollout::reason::Reason;
use crate::rollout::{Desired, Intent, Memory, Policy, Pulls, Rollout, Step, next};
use crate::status::evidence::EvidenceStore;
use crate::status::report::{DelegateReport, Planned, Report, none_found};

/// After this many steps a pass comes up for air; what is left goes on a moment later.
const STEPS_A_PASS: usize = 200;

/// After this many errors in a row, five minutes, a delegate's next step is no longer waited for.
const MAX_AWAITED_RETRIES: u32 = 9;

/// What is troubled where a container cannot be inspected.
const INSPECT: &str = "inspect";

/// A step that the engine did not take.
#[derive(Debug)]
struct Backoff {
    reason: Reason,
    times: u32,
    until: DateTime<Utc>,
}

impl Backoff {
    fn is_inspect_error(&self) -> bool {
        matches!(&self.reason, Reason::Engine { step, .. } if step == INSPECT)
    }
}

/// What a pass is allowed to do, and to whom.
#[derive(Clone)]
pub struct Settings {
    /// Which containers, and how their health is judged.
    pub scope: Scope,
    /// What the operator allows.
    pub policy: Policy,
    /// Where images come from.
    pub target: TargetSettings,
}

/// Drives the rollouts of all delegates on a host.
///
/// Everything it remembers may be lost at any moment, and so may the future of any of its methods: what was begun is
/// on the containers, and the next pass finds it there.
pub struct Reconciler<E, M, H> {
    engine: Arc<E>,
    source: Option<Arc<M>>,
    reachability: Reachability,
    heartbeat: Heartbeat,
    queries: Queries,
    /// The only delegate that is decided on, where an operator named one.
    only: Option<String>,
    /// The delegates there were when the pass began: by name, whose replica each is.
    begun: BTreeMap<String, String>,
    endpoint: H,
    settings: Settings,
    timekeeper: Timekeeper,
    identities: Identities,
    memory: Memory,
    upgrade_run: Option<UpgradeRun>,
    pulls: Pulls,
    backoffs: HashMap<String, Backoff>,
    told: HashMap<String, String>,
    expiring: HashMap<String, String>,
    decided: HashMap<String, (&'static str, &'static str)>,
    in_flight: HashMap<String, &'static str>,
    cramped: HashMap<String, Option<SingleInstance>>,
    copied: HashMap<ContainerId, Option<Obstacle>>,
    steps_taken: BTreeMap<&'static str, u64>,
    evidence: EvidenceStore,
}

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// A reconciler that knows nothing yet.
    pub fn new(engine: E, source: Option<M>, endpoint: H, settings: Settings, clock: Clock) -> Self {
        Self {
            engine: Arc::new(engine),
            source: source.map(Arc::new),
            reachability: Reachability::default(),
            heartbeat: Heartbeat::default(),
            queries: Queries::new(),
            only: None,
            begun: BTreeMap::new(),
            endpoint,
            settings,
            timekeeper: Timekeeper::new(clock),
            identities: Identities::default(),
            memory: Memory::default(),
            upgrade_run: None,
            pulls: Pulls::default(),
            backoffs: HashMap::new(),
            told: HashMap::new(),
            expiring: HashMap::new(),
            decided: HashMap::new(),
            in_flight: HashMap::new(),
            cramped: HashMap::new(),
            copied: HashMap::new(),
            steps_taken: BTreeMap::new(),
            evidence: EvidenceStore::default(),
        }
    }

    /// How often each kind of step was tried since the start.
    pub fn steps_taken(&self) -> &BTreeMap<&'static str, u64> {
        &self.steps_taken
    }

    /// Begins a scheduled pass: asks what is published. What it leads to is for [`Self::reconcile`] to do.
    pub async fn begin(&mut self, mode: Mode) -> Result<(), EngineError> {
        let (rollouts, _) = self.observe().await?;
        self.begin_with(mode, Intent::Upgrade, &rollouts).await;
        Ok(())
    }

    async fn begin_with(&mut self, mode: Mode, intent: Intent, rollouts: &[Rollout]) {
        let now = self.now();
        if rollouts.is_empty() {
            warn!("{}", none_found(&self.settings.scope.workload_names));
        }
        self.log_expiry(rollouts, now);
        self.forget_last_pass(rollouts);
        self.upgrade_run = match &self.source {
            Some(source) => Some(
                UpgradeRun::start(
                    mode,
                    intent,
                    self.engine.as_ref(),
                    source.as_ref(),
                    &self.settings.target,
                    rollouts,
                    now,
                )
                .await,
            ),
            None => None,
        };
        self.heartbeat.keep(&self.queries);
        if let Some(upgrade_run) = &self.upgrade_run {
            self.heartbeat.note(upgrade_run.answers(), now);
        }
    }

    /// Lets the Manager hear of us where the last pass is long ago. Asks beside the passes, and changes nothing.
    pub fn check_in(&mut self) {
        let now = self.now();
        if let Some(source) = &self.source
            && source.needs_check_in()
        {
            self.heartbeat.check_in(source, &self.queries, now);
        }
    }

    /// How long until [`Self::check_in`] has something to do.
    pub fn next_check_in(&self) -> Duration {
        if self.has_manager() {
            self.heartbeat.wait(&self.queries)
        } else {
            Duration::MAX
        }
    }

    /// What the Manager said the last time, to a pass or between two; `None` where there is no Manager.
    pub fn manager_status(&self) -> Option<ManagerStatus> {
        self.has_manager().then(|| self.heartbeat.manager_status())
    }

    fn has_manager(&self) -> bool {
        self.source.as_deref().is_some_and(ImageSource::needs_check_in)
    }

    fn forget_last_pass(&mut self, rollouts: &[Rollout]) {
        let replica = |rollout: &Rollout| (rollout.name.clone(), rollout.delegate.clone());
        self.begun = rollouts.iter().map(replica).collect();
        self.memory.forget_created();
        // Each scheduled pass says of each delegate what became of it.
        self.told.clear();
        self.cramped.clear();
        self.backoffs.clear();
    }

    /// Does all that can be done now, and tells when to come back.
    pub async fn reconcile(&mut self) -> Result<Report, EngineError> {
        for _ in 0..STEPS_A_PASS {
            let (rollouts, now) = self.observe().await?;
            let mut report = Report::new(now);
            let mut stepped = false;
            self.collect_pulls(now);
            self.note_failures(&rollouts, now);
            let mut stuck = HashMap::new();
            for rollout in in_order(&rollouts, self.only.as_deref()) {
                let step = held_up_for_good(self.decide(rollout, &rollouts, now), &stuck);
                let Some(step) = self.confirm(rollout, step, now) else {
                    stepped = true;
                    break;
                };
                self.log_decision(rollout, &step);
                if self.learns_of_copied_files(rollout, &step).await
                    || self.learns_of_memory(rollout, &step).await
                {
                    stepped = true;
                    break;
                }
                match step {
                    Step::Rest(reason) => {
                        self.report(&mut report, rollout, &reason, None);
                        if reason.is_failure() {
                            stuck.insert(rollout.name.clone(), reason.to_string());
                        }
                    }
                    Step::Wait { reason, until } => self.report(&mut report, rollout, &reason, Some(until)),
                    step => {
                        self.apply(rollout, &step, now).await;
                        stepped = true;
                        break;
                    }
                }
            }
            if !stepped {
                self.forget_absent(&rollouts);
                self.report_gone(&mut report, &rollouts);
                self.add_evidence(&mut report, &rollouts).await;
                report.delegates.sort_by(|a, b| a.name.cmp(&b.name));
                return Ok(report);
            }
        }
        let (rollouts, now) = self.observe().await?;
        let mut report = Report::new(now);
        report.wake_by(now + TimeDelta::seconds(1));
        for rollout in in_order(&rollouts, self.only.as_deref()) {
            let reason = Reason::Engine {
                step: "pass".to_owned(),
                problem: "more to do".to_owned(),
            };
            report.delegates.push(DelegateReport::new(rollout, &reason, None));
        }
        Ok(report)
    }

    /// What a scheduled pass would do to each delegate, without doing it.
    pub async fn plan(&mut self) -> Result<Vec<Planned>, EngineError> {
        self.begin(Mode::Upgrade).await?;
        let (mut rollouts, mut now) = self.observe().await?;
        let mut learned = false;
        for rollout in &rollouts {
            let step = self.decide(rollout, &rollouts, now);
            learned |= self.learns_of_copied_files(rollout, &step).await;
        }
        if learned {
            (rollouts, now) = self.observe().await?;
        }
        Ok(rollouts
            .iter()
            .map(|rollout| {
                let step = match self.decide(rollout, &rollouts, now) {
                    // What a pull would tell is not known here; the reference tells enough.
                    Step::Pull { reference } => match rollout.quarantined(&reference, now) {
                        Some(reason) => Step::Rest(reason),
                        None => Step::Pull { reference },
                    },
                    step => step,
                };
                Planned::new(rollout, &step, &rollout.update_order(&self.settings.policy))
            })
            .collect())
    }

    fn decide(&self, rollout: &Rollout, all: &[Rollout], now: DateTime<Utc>) -> Step {
        if let Some(backoff) = self
            .backoffs
            .get(&rollout.name)
            .filter(|backoff| backoff.until > now || rollout.inspect_error.is_some())
        {
            let reason = backoff.reason.clone();
            // What does not get better is no longer waited for, only tried again when there is something else to do.
            return if backoff.times > MAX_AWAITED_RETRIES {
                Step::Rest(reason)
            } else {
                Step::Wait {
                    reason,
                    until: backoff.until,
                }
            };
        }
        if let Some(problem) = &rollout.inspect_error {
            let reason = Reason::Engine {
                step: INSPECT.to_owned(),
                problem: problem.clone(),
            };
            let until = now + TimeDelta::seconds(1);
            return Step::Wait { reason, until };
        }
        let desired = match &self.upgrade_run {
            Some(upgrade_run) => upgrade_run.desired(rollout, all),
            None => Desired::Keep(Reason::AwaitingSchedule { published: None }),
        };
        match next(rollout, &desired, &self.settings.policy, now) {
            Step::Pull { reference } if self.pulls.is_in_progress(&reference) => Step::Wait {
                reason: Reason::Pulling {
                    image: reference.to_string(),
                },
                until: now + TimeDelta::milliseconds(500),
            },
            step => step,
        }
    }

    /// A candidate is rejected only when the Manager can be reached: without it no delegate is healthy. `None` where
    /// that changes what is known of the candidate.
    fn confirm(&mut self, rollout: &Rollout, step: Step, now: DateTime<Utc>) -> Option<Step> {
        let (Step::Reject { image, cause, .. } | Step::CreateQuarantineMarker { image, cause, .. }) = &step
        else {
            return Some(step);
        };
        let subject = common_cause::subject(rollout);
        if subject.is_some_and(|subject| subject.started_at.is_none()) {
            return Some(step);
        }
        let (Some(source), Ok(question)) = (&self.source, image.parse::<ImageReference>()) else {
            return Some(step);
        };
        let question = manager_reference(&question, &self.settings.target);
        match self
            .reachability
            .of(source, (question, rollout.delegate.clone()), now)
        {
            Reach::Answers => Some(step),
            Reach::Asking => Some(Step::Wait {
                reason: Reason::Confirming {
                    image: image.clone(),
                    cause: cause.clone(),
                },
                until: now + TimeDelta::milliseconds(500),
            }),
            Reach::Away(problem) => {
                let outside = format!("the Manager is out of reach: {problem}");
                if let Some(subject) = subject {
                    self.memory.history(&subject.id).note_common_cause(now, outside);
                } else {
                    // It has vanished already.
                    let reason = Reason::Inconclusive {
                        image: image.clone(),
                        cause: format!("{cause}; but {outside}"),
                    };
                    self.upgrade_run.as_mut()?.give_up(rollout, reason);
                }
                None
            }
        }
    }

    /// What is wrong with one replica is known before anything is decided on another one.
    fn note_failures(&mut self, rollouts: &[Rollout], now: DateTime<Utc>) {
        for rollout in in_order(rollouts, self.only.as_deref()) {
            if let Step::Rest(reason) | Step::Wait { reason, .. } = self.decide(rollout, rollouts, now)
                && let Some(upgrade_run) = &mut self.upgrade_run
            {
                upgrade_run.note_failure(rollout, &reason);
            }
        }
    }
}

/// One that waits for a replica which is not waited for any more is halted. Those that hold up others come first.
fn held_up_for_good(step: Step, stuck: &HashMap<String, String>) -> Step {
    match step {
        Step::Rest(Reason::AnotherReplica { name }) => Step::Rest(match stuck.get(&name) {
            Some(because) => Reason::Halted {
                name,
                because: because.clone(),
            },
            None => Reason::AnotherReplica { name },
        }),
        step => step,
    }
}

/// What is under way comes first, so that a canary is decided on before the next replica; then by name.
fn in_order<'a>(rollouts: &'a [Rollout], only: Option<&str>) -> Vec<&'a Rollout> {
    let mut ordered: Vec<&Rollout> = rollouts
        .iter()
        .filter(|rollout| only.is_none_or(|only| rollout.name == only))
        .collect();
    ordered.sort_by_key(|rollout| (!rollout.blocks_replicas(), rollout.name.clone()));
    ordered
}
