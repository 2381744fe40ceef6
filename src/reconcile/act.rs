//! Carries out a decision: takes a step and handles its outcome, or learns a fact.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;
use tracing::{info, warn};

use super::log::{completion_message, log_result, log_step, seconds};
use super::observation::Observed;
use super::{Reconciler, Stalled};
use crate::engine::Engine;
use crate::health::HealthEndpoint;
use crate::image::ImageReference;
use crate::manager::ImageSource;
use crate::rollout::reason::Reason;
use crate::rollout::{Backoff, Decision, Effect, Fact, Failure, Pulled, Rollout, Step, execute};
use crate::status::report::Report;

/// The outcome of one observation.
pub(super) enum Outcome {
    /// There is nothing to do: a report.
    Rest(Report),
    /// More is known, or a pull started. The observation still holds.
    Learned,
    /// The observation may no longer hold.
    Changed,
}

impl Outcome {
    fn of_step(step: &Step) -> Self {
        match step {
            Step::Pull { .. } => Self::Learned,
            _ => Self::Changed,
        }
    }

    /// All other facts are kept with the containers that were observed.
    fn of_fact(fact: &Fact) -> Self {
        match fact {
            Fact::FreeMemory | Fact::HiddenObstacle | Fact::Holds => Self::Learned,
            _ => Self::Changed,
        }
    }
}

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// Takes the first step, or learns the first fact, that a delegate needs, if the observation may be acted upon. Where none
    /// needs one, the report says why.
    pub(super) async fn step_or_report(&mut self, observed: &Observed) -> Outcome {
        let (rollouts, now) = (&observed.rollouts, observed.now);
        let mut report = Report::new(now);
        let mut stalled = Stalled::new();
        for rollout in self.run.in_order(rollouts) {
            let decided = self.decide(rollout, rollouts, &stalled, now);
            if decided.decision.is_to_do() && !observed.may_act() {
                return Outcome::Changed;
            }
            self.log_decision(rollout, &decided);
            match decided.decision {
                Decision::Act(step) => {
                    self.apply(rollout, &step, now).await;
                    return Outcome::of_step(&step);
                }
                Decision::Learn(fact) => {
                    let outcome = Outcome::of_fact(&fact);
                    self.learn(rollout, rollouts, fact, now).await;
                    return outcome;
                }
                Decision::Wait { reason, until } => {
                    self.report(&mut report, rollout, &reason, Some(until));
                    // A failure that is waited out may pass.
                    if !reason.is_failure() {
                        self.ledger.note_reason(rollout.into(), &reason, now).await;
                    }
                }
                Decision::Rest(reason) => {
                    self.report(&mut report, rollout, &reason, None);
                    self.ledger.note_reason(rollout.into(), &reason, now).await;
                    if reason.is_failure() {
                        stalled.insert(rollout.name.clone(), reason.failure());
                    }
                }
            }
        }
        Outcome::Rest(report)
    }

    /// Takes a step. A pull is only started: [`Self::collect_pulls`] takes in its end.
    pub(super) async fn apply(&mut self, rollout: &Rollout, step: &Step, now: DateTime<Utc>) {
        log_step(rollout, step, &self.update_order(rollout));
        *self.steps_taken.entry(step.kind()).or_default() += 1;
        self.collect_evidence(rollout, step, now).await;
        if let Step::Pull { reference } = step {
            // The reason to wait for it is the same sentence.
            self.track(rollout).last_logged = Some(step.to_string());
            self.start_pull(rollout, reference);
            return;
        }
        if let Step::NoteFirstSeen { .. } = step {
            self.holds.forget();
        }
        self.ledger.before(rollout, step, now).await;
        let begun = Instant::now();
        match execute(self.engine.as_ref(), rollout, step, &mut self.memory, now).await {
            Ok(effect) => {
                let ended = self.now();
                self.note_success(rollout, step, &effect, begun.elapsed(), ended);
                self.ledger.after(rollout, step, &effect, ended).await;
            }
            Err(failure) => self.note_failure(rollout, step, failure, now),
        }
    }

    fn start_pull(&mut self, rollout: &Rollout, reference: &ImageReference) {
        let disk = self.settings.scope.disk();
        let policy = self.settings.target.pull;
        self.pulls.start(&self.engine, rollout, reference, policy, disk);
    }

    fn note_success(
        &mut self,
        rollout: &Rollout,
        step: &Step,
        effect: &Effect,
        took: Duration,
        now: DateTime<Utc>,
    ) {
        log_result(rollout, step, effect, took);
        self.track(rollout).backoff = None;
        if let Some(message) = completion_message(rollout, step) {
            self.track(rollout).completion = Some(message);
        }
        match step {
            Step::Stop { id, .. } => {
                // The grace counts from when the engine passed the request on, not from when it was sent.
                self.memory.history(id).stop_requested_at = Some(now);
            }
            Step::Promote { .. } => {
                if let Some(candidate) = &rollout.candidate {
                    self.track(rollout).recreations.note_upgrade(candidate, now);
                }
            }
            Step::Create { .. } => self.run.note_created(rollout),
            Step::Restart { id, grace, .. } if *effect == Effect::Done => {
                self.memory.history(id).checks.note_restart(now, *grace);
            }
            Step::Withdraw {
                because: Some(reason),
                ..
            } => {
                self.track(rollout).note_withdrawal(rollout, reason);
                self.run.skip_until_next_run(rollout, reason.clone());
            }
            Step::Reject { image, rejection, .. } => {
                let reason = Reason::Rejected {
                    image: image.clone(),
                    rejection: rejection.clone(),
                };
                self.run.skip_until_next_run(rollout, reason);
            }
            _ => {}
        }
    }

    fn note_failure(&mut self, rollout: &Rollout, step: &Step, failure: Failure, now: DateTime<Utc>) {
        match (step, failure) {
            (step, Failure::ImageRemoved(reference)) => {
                let problem = problem(&Failure::ImageRemoved(reference.clone()));
                self.backoff(rollout, &step.to_string(), problem, now);
                self.start_pull(rollout, &reference);
            }
            // A replacement in progress needs the step, so it is tried until it succeeds, whatever the run wants.
            (Step::Recreate { .. } | Step::Stop { .. }, failure) if rollout.is_in_progress() => {
                self.backoff(rollout, &step.to_string(), problem(&failure), now);
            }
            (_, Failure::Refused(reason)) => self.run.skip_until_next_run(rollout, reason),
            // A replacement in progress is tried until it succeeds.
            (step, Failure::Doubtful(error))
                if rollout.serving.is_some()
                    && rollout.candidate.is_none()
                    && self.has_just_failed(rollout, step) =>
            {
                let problem = error.to_string();
                self.run
                    .skip_until_next_run(rollout, Reason::CreateRefused { problem });
            }
            (Step::Create { reference, .. }, Failure::ImageVanished) => {
                let (container, workload) = (&rollout.name, &rollout.workload);
                if self.run.pull_again(reference) {
                    warn!(container, workload, image = %reference, "image disappeared after the pull; pulling again");
                } else {
                    let problem = format!("{reference} was removed or retagged twice right after a pull");
                    self.run
                        .skip_until_next_run(rollout, Reason::CreateRefused { problem });
                }
            }
            (step, failure) => self.backoff(rollout, &step.to_string(), problem(&failure), now),
        }
    }

    /// Whether this step failed last.
    fn has_just_failed(&self, rollout: &Rollout, step: &Step) -> bool {
        let tracked = self.tracked.get(&rollout.name);
        let last = tracked.and_then(|tracked| tracked.backoff.as_ref());
        last.is_some_and(|last| {
            matches!(&last.reason, Reason::EngineError { step: failed, .. } if *failed == step.to_string())
        })
    }

    /// Records the pulls that have ended.
    pub(super) fn collect_pulls(&mut self, now: DateTime<Utc>) {
        while let Some(Pulled {
            rollout,
            reference,
            outcome,
            took,
        }) = self.pulls.ended()
        {
            let result = match outcome {
                Ok(id) => {
                    let (container, workload) = (&rollout.name, &rollout.workload);
                    info!(container, workload, image_id = %id, seconds = seconds(took), "pulled {reference}");
                    self.ledger.note_pull(&id, took);
                    Ok(id)
                }
                Err(Failure::Refused(mut reason)) => {
                    self.run.schedule_retry(&mut reason, now);
                    Err(reason)
                }
                Err(failure) => {
                    let step = Step::Pull { reference };
                    self.backoff(&rollout, &step.to_string(), problem(&failure), now);
                    continue;
                }
            };
            // One that brings a delegate back is tried again after its pause: its image may still not be there.
            if rollout.serving.is_some() {
                self.track(&rollout).backoff = None;
            }
            if let Err(reason) = &result
                && reason.is_failure()
            {
                self.log_failure(&rollout, reason);
                self.run.halt_replicas(&rollout, reason);
            }
            match result {
                // Another delegate may run another image, and of another platform.
                Err(reason @ (Reason::WrongPlatform { .. } | Reason::SameImage { .. })) => {
                    self.run.note_unsuitable(&reference, &rollout, reason);
                }
                result => self.run.note_pulled(&reference, result),
            }
        }
    }

    /// After a failed call only the next observation shows what it did. It is made after a pause.
    pub(super) fn backoff(&mut self, rollout: &Rollout, step: &str, problem: String, now: DateTime<Utc>) {
        let (container, workload) = (&rollout.name, &rollout.workload);
        warn!(
            container,
            workload, step, problem, "engine call failed; will retry"
        );
        let reason = Reason::EngineError {
            step: step.to_owned(),
            problem,
        };
        let tracked = self.track(rollout);
        // Others may have taken the memory by the next try.
        tracked.free_memory.take_if(|answer| answer.is_ok());
        tracked.backoff = Some(Backoff::after(tracked.backoff.as_ref(), reason, now));
    }
}

fn problem(failure: &Failure) -> String {
    match failure {
        Failure::Engine(error) | Failure::Doubtful(error) => error.to_string(),
        Failure::Refused(reason) => reason.to_string(),
        Failure::ImageVanished => "the image disappeared".to_owned(),
        Failure::ImageRemoved(reference) => format!("{reference} is no longer on the host; pulling it"),
    }
}
