//! Drives the workloads of an orchestrator; [`Orchestrate`] has the calls that depend on the orchestrator.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde_json::Value;
use tracing::{debug, info, warn};

use super::concurrency::soaking_of;
use super::controller::Core;
use super::log::support_news;
use super::tracked::Budget;
use super::upgrade_run::UpgradeRun;
use crate::host::hold::READ_HOLDS;
use crate::image::{ImageReference, release_day};
use crate::managed::{
    Decided, Decision, Facts, Found, Managed, Object, Orchestrate, Orchestrator, Refusal, Step, is_undecided,
    next,
};
use crate::manager::ImageSource;
use crate::rollout::reason::Reason;
use crate::rollout::{Backoff, Blocker, Desired, Policy, Release, RunFacts};
use crate::status::planned::Planned;
use crate::status::report::{DelegateReport, Report};

/// Logs a line about a workload under its orchestrator's own term.
macro_rules! log {
    ($level:ident, $name:expr, $($fields:tt)*) => {
        match O::ORCHESTRATOR {
            Orchestrator::Swarm => $level!(container = $name, $($fields)*),
            Orchestrator::Kubernetes => $level!(deployment = $name, $($fields)*),
        }
    };
}

/// The workloads of an orchestrator. Its memory may be lost at any moment: the workloads show what was started.
pub(crate) struct Driver<O> {
    pub(crate) orchestrator: O,
    pub(super) policy: Policy,
    pub(crate) found: Found,
    tracked: HashMap<String, Tracked>,
}

/// The memory of one workload. Losing it only repeats a log line.
#[derive(Debug, Default)]
struct Tracked {
    backoff: Option<Backoff>,
    budget: Budget,
    last_logged: Option<String>,
    expiry_notice: Option<String>,
    /// An image, and when it was released or why that is unknown.
    release: Option<(String, Result<Release, String>)>,
    was_warned: bool,
}

impl<O: Orchestrate> Driver<O> {
    pub(super) fn new(orchestrator: O, policy: Policy) -> Self {
        Self {
            orchestrator,
            policy,
            found: Found::default(),
            tracked: HashMap::new(),
        }
    }

    /// The workloads of the last observation.
    pub(super) fn managed(&self) -> impl Iterator<Item = &Managed> {
        self.found.objects.iter().map(|object| &object.managed)
    }

    /// Observes the workloads.
    ///
    /// # Errors
    /// The orchestrator's error; the previous observation is kept.
    pub(super) async fn observe(&mut self) -> Result<(), O::Error> {
        if let Some(mut found) = self.orchestrator.observe().await? {
            let objects = found.objects.iter().map(|object| &object.managed.name);
            let names: Vec<&String> = objects.chain(found.absent.iter().map(|(name, _)| name)).collect();
            self.tracked.retain(|name, _| names.contains(&name));
            for Object { managed, .. } in &mut found.objects {
                let known = &mut self.tracked.entry(managed.name.clone()).or_default().release;
                if known
                    .as_ref()
                    .is_none_or(|(image, _)| image != managed.image.as_str())
                {
                    let release = self.orchestrator.released(&managed.image).await;
                    *known = Some((managed.image.to_string(), Ok(release)));
                }
                managed
                    .image
                    .note_release(known.as_ref().and_then(|(_, release)| release.clone().ok()?));
            }
            self.found = found;
        }
        Ok(())
    }

    /// Notes when a registry says that an image was built.
    pub(super) fn note_created(&mut self, image: &ImageReference, created: &Result<Value, String>) {
        debug!(%image, ?created, "its registry says when it was built");
        let release = created.as_ref().map_err(String::clone);
        let release = release.map(|created| release_day(image, created, Utc::now()));
        let objects = self.found.objects.iter_mut().map(|object| &mut object.managed);
        for managed in objects.filter(|managed| managed.image.refers_to(image)) {
            let known = (managed.image.to_string(), release.clone());
            self.tracked.entry(managed.name.clone()).or_default().release = Some(known);
            managed.image.note_release(release.clone().ok().flatten());
        }
    }

    /// Why the release day of this workload's image is unknown, if its registry was asked in vain.
    #[cfg(feature = "kubernetes")]
    pub(crate) fn undated_because(&self, name: &str) -> Option<&String> {
        let (_, release) = self.tracked.get(name)?.release.as_ref()?;
        release.as_ref().err()
    }

    /// Lets a new run try again.
    pub(super) fn start_run(&mut self) {
        self.tracked
            .values_mut()
            .for_each(|tracked| tracked.backoff = None);
    }

    /// The same run, which also rolls these workloads back to these images.
    pub(super) fn rollback(
        run: UpgradeRun,
        all: Vec<(Managed, ImageReference)>,
        now: DateTime<Utc>,
    ) -> UpgradeRun {
        all.into_iter().fold(run, |run, (managed, to)| {
            let (name, workload, from) = (&managed.name, &managed.workload, &managed.image);
            log!(info, name, workload, %from, %to, "rolling back");
            run.taking_back(&managed.id, to, None, now)
        })
    }

    fn decide<M>(
        &self,
        Core {
            run,
            next_run,
            alerts,
            ..
        }: &Core<M>,
        object: &Object,
        now: DateTime<Utc>,
    ) -> (Decided, Vec<Blocker>) {
        let managed = &object.managed;
        let (desired, timing) = (run.desired_of(managed), &self.policy.timing);
        let others = || self.managed().filter(|_| O::ONE_AT_A_TIME);
        let tracked = self.tracked.get(&managed.name);
        let mut facts = Facts {
            backoff: tracked.and_then(|tracked| tracked.backoff.clone()),
            holds: None,
            holds_are_old: self.orchestrator.holds_are_old(),
            run: RunFacts {
                next_run: *next_run,
                soaking: soaking_of(managed, others(), &desired, timing.soak, now),
                alerts: alerts.held(&desired, timing, now),
                ..run.facts_of(managed, others(), |other| is_undecided(other, &self.policy, now))
            },
        };
        if let Desired::Image { reference, .. } = &desired {
            facts.holds = self.orchestrator.holds(object, &reference.to_string(), now);
        }
        next(managed, &desired, &self.policy, &facts, now)
    }

    /// The plan: the next step for each workload of the run, or the reason for none.
    pub(super) fn plan<M>(&self, core: &Core<M>, now: DateTime<Utc>) -> Vec<Planned> {
        let planned = |object: &Object| {
            let (decided, blockers) = self.decide(core, object, now);
            let warnings = self.orchestrator.warnings(object);
            let mut planned = Planned::of_managed(&object.managed, &decided.decision, &blockers, warnings);
            let proof = self
                .orchestrator
                .proof(object)
                .filter(|_| planned.action == "replace");
            planned.message.extend(proof.map(|proof| format!("; {proof}")));
            planned.warnings.extend(object.managed.image.support_notice(now));
            planned
        };
        let absent = self.found.absent.iter();
        let absent = absent.map(|(name, reason)| Planned::absent(name, reason));
        let objects = self.found.objects.iter();
        let objects = objects.filter(|object| core.run.is_about(&object.managed.id));
        objects.map(planned).chain(absent).collect()
    }

    /// Takes the first step that a workload of the run needs, and returns `true`. If none needs one, the report says why.
    pub(super) async fn step<M: ImageSource>(
        &mut self,
        core: &mut Core<M>,
        report: &mut Report,
        now: DateTime<Utc>,
    ) -> bool {
        for object in &mut self.found.objects {
            let new = core.run.intent.new_settings(&object.managed.id);
            let missing = new.map(|new| new.missing_in(&self.orchestrator.settings(object)));
            let has_new = missing.is_some_and(|missing| missing.is_empty());
            core.run.follow(&mut object.managed, has_new);
        }
        let Found { objects, absent } = self.found.clone();
        for object in objects
            .iter()
            .filter(|object| core.run.is_about(&object.managed.id))
        {
            let managed = &object.managed;
            let (name, workload) = (&managed.name, &managed.workload);
            if !core.run.awaits_day(&managed.image)
                && let Some(line) = support_news(&managed.image, &mut self.track(name).expiry_notice, now)
            {
                log!(warn, name, workload, "{line}");
            }
            let (mut decided, mut blockers) = self.decide(core, object, now);
            let mut locked = self.orchestrator.lock(object, &decided.decision, now);
            if locked.is_none() && matches!(decided.decision, Decision::Learn(_)) {
                if let Err(refusal) = self.orchestrator.learn_holds().await {
                    self.back_off(&managed.name, READ_HOLDS.to_owned(), refusal, now);
                    return true;
                }
                // Decide again on the same observation: another one might take longer than the answer holds.
                (decided, blockers) = self.decide(core, object, now);
                locked = self.orchestrator.lock(object, &decided.decision, now);
            }
            core.alerts.keep(&mut core.manager.questions, &blockers);
            let Decided { row, mut decision } = decided;
            debug!(workload = name, %row, "decided");
            if let Some((reason, until)) = locked {
                self.report(report, managed, (&reason, until), &[]);
                continue;
            }
            let words = match &decision {
                Decision::Act(step) => Some(step.words(managed)),
                Decision::Learn(_) => Some(READ_HOLDS.to_owned()),
                Decision::Wait { .. } | Decision::Rest(_) => None,
            };
            let budget = &mut self.track(name).budget;
            let taken = words.map_or(Ok(()), |words| budget.take(&words, core.rounds, now));
            if let Err((reason, until)) = taken {
                decision = Decision::wait(reason, until);
            }
            let (reason, until) = match decision {
                Decision::Act(step) => {
                    core.ledger.count(step.kind());
                    self.apply(&mut core.run, object, &step, now).await;
                    return true;
                }
                Decision::Learn(_) => return true,
                Decision::Wait { reason, until } => (reason, Some(until)),
                Decision::Rest(reason) => (reason, None),
            };
            self.report(report, managed, (&reason, until), &blockers);
            if until.is_none() || !reason.is_failure() {
                let (subject, image) = ((&**name, &**workload), Some(&managed.image));
                core.ledger.note_reason(subject, image, &reason, now).await;
            }
        }
        for (name, reason) in absent {
            self.log((&name, &name), None, &reason);
            let row = DelegateReport::without_container(&name, &name, &reason);
            report.delegates.push(row);
        }
        false
    }

    async fn apply(&mut self, run: &mut UpgradeRun, object: &Object, step: &Step, now: DateTime<Utc>) {
        let Managed { name, workload, .. } = &object.managed;
        if let Step::Begin { .. } = step
            && !std::mem::replace(&mut self.track(name).was_warned, true)
        {
            for warning in self.orchestrator.warnings(object) {
                log!(warn, name, workload, "{warning}");
            }
        }
        let words = step.words(&object.managed);
        let (mut release, last_successful_release) = releases(&object.managed);
        if let Step::Begin { .. } = step {
            release = object.managed.next_release();
        }
        if let Step::RollBack { .. } | Step::Quarantine { .. } = step {
            log!(warn, name, workload, release, last_successful_release, "{words}");
        } else {
            log!(info, name, workload, release, last_successful_release, "{words}");
        }
        match self.orchestrator.apply(object, step, now).await {
            Ok(()) => {
                self.track(name).backoff = None;
                let managed = &object.managed;
                match step {
                    Step::Quarantine { cause, .. } => run.note_failed(managed, cause),
                    Step::Begin { .. } if step.new_settings(managed).is_some() => {
                        run.note_started(managed, step.writes(managed, now).0);
                    }
                    _ => {}
                }
            }
            Err(refusal) => {
                if let Refusal::NotFound(problem) | Refusal::Failed(problem) | Refusal::Refused(problem) =
                    &refusal
                {
                    let (step, api) = (&words, O::API);
                    log!(
                        warn,
                        name,
                        workload,
                        step,
                        problem,
                        "a call to {api} failed; will retry"
                    );
                }
                match (refusal, step) {
                    // Only this image is refused; the API itself works.
                    (Refusal::Refused(problem), Step::Begin { .. } | Step::Apply { .. }) => {
                        let reason = Reason::CreateRefused { problem };
                        self.track(name).backoff = Some(Backoff::hopeless(reason, now));
                    }
                    (refusal, _) => self.back_off(name, words, refusal, now),
                }
            }
        }
    }

    /// Makes a workload wait after a failed call. After a conflict, the decision is made again from what is there now.
    fn back_off(&mut self, name: &str, step: String, refusal: Refusal, now: DateTime<Utc>) {
        let backoff = &mut self.track(name).backoff;
        *backoff = Some(match refusal {
            Refusal::Conflict(problem) | Refusal::NotFound(problem) | Refusal::Failed(problem) => {
                Backoff::after(backoff.as_ref(), Reason::EngineError { step, problem }, now)
            }
            Refusal::Refused(problem) => Backoff::hopeless(Reason::EngineError { step, problem }, now),
            Refusal::NotPermitted(problem) => {
                let reason = Reason::NotPermitted { step, problem };
                // An API server that has just started may not know its permissions yet.
                match backoff {
                    None => Backoff::after(None, reason, now),
                    Some(_) => Backoff::hopeless(reason, now),
                }
            }
        });
    }

    fn track(&mut self, name: &str) -> &mut Tracked {
        self.tracked.entry(name.to_owned()).or_default()
    }

    fn report(
        &mut self,
        report: &mut Report,
        managed: &Managed,
        (reason, until): (&Reason, Option<DateTime<Utc>>),
        blockers: &[Blocker],
    ) {
        if let Some(until) = until {
            report.check_by(until);
        }
        self.log(
            (&managed.name, &managed.workload),
            Some(releases(managed)),
            reason,
        );
        let mut row = DelegateReport::of_managed(managed, reason, until);
        row.blockers = blockers.to_vec();
        report.delegates.push(row);
    }

    /// Logs a reason if it differs from the last one.
    fn log(&mut self, (name, workload): (&str, &str), releases: Option<(u64, u64)>, reason: &Reason) {
        if !reason.is_news(&mut self.track(name).last_logged) {
            return;
        }
        let (kind, cause) = (reason.kind().as_str(), reason.cause());
        let (release, last_successful_release) = releases.unzip();
        macro_rules! line {
            ($level:ident) => {
                log!(
                    $level,
                    name,
                    workload,
                    reason = kind,
                    cause,
                    release,
                    last_successful_release,
                    "{reason}"
                )
            };
        }
        if reason.is_failure() {
            line!(warn);
        } else {
            line!(info);
        }
    }
}

/// The numbers of the last attempt and of the last successful one.
fn releases(managed: &Managed) -> (u64, u64) {
    (managed.record.release, managed.successful_release())
}
