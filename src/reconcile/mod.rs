//! One pass over all delegates: look, decide, take a step, look again, until nothing is left but to wait.

mod act;
pub mod clock;
pub(crate) mod common_cause;
pub mod demand;
mod facts;
mod log;
mod observation;
mod operator;
pub mod upgrade_run;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tracing::warn;

use crate::container::ContainerId;
use crate::document::{Conflict, Obstacle};
use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::image::{ImageReference, TargetSettings, as_manager_knows};
use crate::manager::Published;
use crate::manager::heartbeat::{Heard, Heartbeat, Questions};
use crate::observe::{Identities, Scope};
use crate::reconcile::clock::{Clock, Timekeeper};
use crate::reconcile::common_cause::{Reach, Reachability};
use crate::reconcile::upgrade_run::{Campaign, Mode};
use crate::rollout::reason::Reason;
use crate::rollout::{Demand, Memory, Policy, Pulls, Rollout, Step, Wish, next};
use crate::status::evidence::Records;
use crate::status::report::{DelegateReport, Planned, Report, none_found};

/// After this many steps a pass comes up for air; what is left goes on a moment later.
const STEPS_A_PASS: usize = 200;

/// After this many errors in a row, five minutes, a delegate's next step is no longer waited for.
const TROUBLE_PATIENCE: u32 = 9;

/// What is troubled where a container cannot be inspected.
const LOOK: &str = "inspect";

/// A step that the engine did not take.
#[derive(Debug)]
struct Trouble {
    reason: Reason,
    times: u32,
    until: DateTime<Utc>,
}

impl Trouble {
    fn is_unread(&self) -> bool {
        matches!(&self.reason, Reason::Engine { step, .. } if step == LOOK)
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
    questions: Questions,
    /// The only delegate that is decided on, where an operator named one.
    only: Option<String>,
    /// The delegates there were when the pass began: by name, whose replica each is.
    begun: BTreeMap<String, String>,
    endpoint: H,
    settings: Settings,
    timekeeper: Timekeeper,
    identities: Identities,
    memory: Memory,
    campaign: Option<Campaign>,
    pulls: Pulls,
    troubled: HashMap<String, Trouble>,
    told: HashMap<String, String>,
    expiring: HashMap<String, String>,
    decided: HashMap<String, (&'static str, &'static str)>,
    in_flight: HashMap<String, &'static str>,
    cramped: HashMap<String, Option<Conflict>>,
    copied: HashMap<ContainerId, Option<Obstacle>>,
    steps_taken: BTreeMap<&'static str, u64>,
    evidence: Records,
}

impl<E: Engine, M: Published, H: HealthEndpoint> Reconciler<E, M, H> {
    /// A reconciler that knows nothing yet.
    pub fn new(engine: E, source: Option<M>, endpoint: H, settings: Settings, clock: Clock) -> Self {
        Self {
            engine: Arc::new(engine),
            source: source.map(Arc::new),
            reachability: Reachability::default(),
            heartbeat: Heartbeat::default(),
            questions: Questions::new(),
            only: None,
            begun: BTreeMap::new(),
            endpoint,
            settings,
            timekeeper: Timekeeper::new(clock),
            identities: Identities::default(),
            memory: Memory::default(),
            campaign: None,
            pulls: Pulls::default(),
            troubled: HashMap::new(),
            told: HashMap::new(),
            expiring: HashMap::new(),
            decided: HashMap::new(),
            in_flight: HashMap::new(),
            cramped: HashMap::new(),
            copied: HashMap::new(),
            steps_taken: BTreeMap::new(),
            evidence: Records::default(),
        }
    }

    /// How often each kind of step was tried since the start.
    pub fn steps_taken(&self) -> &BTreeMap<&'static str, u64> {
        &self.steps_taken
    }

    /// Begins a scheduled pass: asks what is published. What it leads to is for [`Self::reconcile`] to do.
    pub async fn begin(&mut self, mode: Mode) -> Result<(), EngineError> {
        let (rollouts, _) = self.look().await?;
        self.begin_with(mode, Demand::Published, &rollouts).await;
        Ok(())
    }

    async fn begin_with(&mut self, mode: Mode, demand: Demand, rollouts: &[Rollout]) {
        let now = self.now();
        if rollouts.is_empty() {
            warn!("{}", none_found(&self.settings.scope.workload_names));
        }
        self.tell_expiry(rollouts, now);
        self.forget_last_pass(rollouts);
        self.campaign = match &self.source {
            Some(source) => Some(
                Campaign::begin(
                    mode,
                    demand,
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
        self.heartbeat.keep(&self.questions);
        if let Some(campaign) = &self.campaign {
            self.heartbeat.note(campaign.answers().clone(), now);
        }
    }

    /// Lets the Manager hear of us where the last pass is long ago. Asks beside the passes, and changes nothing.
    pub fn beat(&mut self) {
        let now = self.now();
        if let Some(source) = &self.source
            && source.is_manager()
        {
            self.heartbeat.beat(source, &self.questions, now);
        }
    }

    /// How long until [`Self::beat`] has something to do.
    pub fn next_beat(&self) -> Duration {
        if self.has_manager() {
            self.heartbeat.wait(&self.questions)
        } else {
            Duration::MAX
        }
    }

    /// What the Manager said the last time, to a pass or between two; `None` where there is no Manager.
    pub fn heard(&self) -> Option<Heard> {
        self.has_manager().then(|| self.heartbeat.heard())
    }

    fn has_manager(&self) -> bool {
        self.source.as_deref().is_some_and(Published::is_manager)
    }

    fn forget_last_pass(&mut self, rollouts: &[Rollout]) {
        let replica = |rollout: &Rollout| (rollout.name.clone(), rollout.delegate.clone());
        self.begun = rollouts.iter().map(replica).collect();
        self.memory.forget_created();
        // Each scheduled pass says of each delegate what became of it.
        self.told.clear();
        self.cramped.clear();
        self.troubled.clear();
    }

    /// Does all that can be done now, and tells when to come back.
    pub async fn reconcile(&mut self) -> Result<Report, EngineError> {
        for _ in 0..STEPS_A_PASS {
            let (rollouts, now) = self.look().await?;
            let mut report = Report::new(now);
            let mut stepped = false;
            self.take_pulled(now);
            self.note_failures(&rollouts, now);
            let mut stuck = HashMap::new();
            for rollout in in_order(&rollouts, self.only.as_deref()) {
                let step = held_up_for_good(self.decide(rollout, &rollouts, now), &stuck);
                let Some(step) = self.confirm(rollout, step, now) else {
                    stepped = true;
                    break;
                };
                self.tell_decision(rollout, &step);
                if self.learns_of_copied_files(rollout, &step).await
                    || self.learns_of_memory(rollout, &step).await
                {
                    stepped = true;
                    break;
                }
                match step {
                    Step::Rest(reason) => {
                        self.note(&mut report, rollout, &reason, None);
                        if reason.is_failure() {
                            stuck.insert(rollout.name.clone(), reason.to_string());
                        }
                    }
                    Step::Wait { reason, until } => self.note(&mut report, rollout, &reason, Some(until)),
                    step => {
                        self.take(rollout, &step, now).await;
                        stepped = true;
                        break;
                    }
                }
            }
            if !stepped {
                self.forget_absent(&rollouts);
                self.tell_gone(&mut report, &rollouts);
                self.add_evidence(&mut report, &rollouts).await;
                report.delegates.sort_by(|a, b| a.name.cmp(&b.name));
                return Ok(report);
            }
        }
        let (rollouts, now) = self.look().await?;
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
        self.begin(Mode::Act).await?;
        let (mut rollouts, mut now) = self.look().await?;
        let mut learned = false;
        for rollout in &rollouts {
            let step = self.decide(rollout, &rollouts, now);
            learned |= self.learns_of_copied_files(rollout, &step).await;
        }
        if learned {
            (rollouts, now) = self.look().await?;
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
                Planned::new(rollout, &step, &rollout.approach(&self.settings.policy))
            })
            .collect())
    }

    fn decide(&self, rollout: &Rollout, all: &[Rollout], now: DateTime<Utc>) -> Step {
        if let Some(trouble) = self
            .troubled
            .get(&rollout.name)
            .filter(|trouble| trouble.until > now || rollout.unread.is_some())
        {
            let reason = trouble.reason.clone();
            // What does not get better is no longer waited for, only tried again when there is something else to do.
            return if trouble.times > TROUBLE_PATIENCE {
                Step::Rest(reason)
            } else {
                Step::Wait {
                    reason,
                    until: trouble.until,
                }
            };
        }
        if let Some(problem) = &rollout.unread {
            let reason = Reason::Engine {
                step: LOOK.to_owned(),
                problem: problem.clone(),
            };
            let until = now + TimeDelta::seconds(1);
            return Step::Wait { reason, until };
        }
        let wish = match &self.campaign {
            Some(campaign) => campaign.wish(rollout, all),
            None => Wish::Settle(Reason::AwaitingSchedule { published: None }),
        };
        match next(rollout, &wish, &self.settings.policy, now) {
            Step::Pull { reference } if self.pulls.is_under_way(&reference) => Step::Wait {
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
        let (Step::Reject { image, cause, .. } | Step::Mark { image, cause, .. }) = &step else {
            return Some(step);
        };
        let subject = common_cause::subject(rollout);
        if subject.is_some_and(|subject| subject.started_at.is_none()) {
            return Some(step);
        }
        let (Some(source), Ok(question)) = (&self.source, image.parse::<ImageReference>()) else {
            return Some(step);
        };
        let question = as_manager_knows(&question, &self.settings.target);
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
                    self.memory.watch(&subject.id).disturb(now, outside);
                } else {
                    // It has vanished already.
                    let reason = Reason::Inconclusive {
                        image: image.clone(),
                        cause: format!("{cause}; but {outside}"),
                    };
                    self.campaign.as_mut()?.give_up(rollout, reason);
                }
                None
            }
        }
    }

    /// What is wrong with one replica is known before anything is decided on another one.
    fn note_failures(&mut self, rollouts: &[Rollout], now: DateTime<Utc>) {
        for rollout in in_order(rollouts, self.only.as_deref()) {
            if let Step::Rest(reason) | Step::Wait { reason, .. } = self.decide(rollout, rollouts, now)
                && let Some(campaign) = &mut self.campaign
            {
                campaign.note_failure(rollout, &reason);
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
    ordered.sort_by_key(|rollout| (!rollout.holds_up_replicas(), rollout.name.clone()));
    ordered
}
