//! Carries out a decision: takes a step and handles its outcome, or finds out a fact.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;
use tracing::{info, warn};

use super::Reconciler;
use super::log::{completion_message, log_reason, log_result, log_step};
use super::observation::Observed;
use crate::engine::Engine;
use crate::events::event::seconds;
use crate::health::HealthEndpoint;
use crate::image::ImageReference;
use crate::manager::ImageSource;
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Decision, Effect, Fact, Failure, Pulled, Rollout, Row, Step, execute};
use crate::status::report::Report;

/// The outcome of one observation.
pub(super) enum Outcome {
    /// There is nothing to do, as the report says.
    Rest(Report),
    /// More is known, or a pull started. The observation still holds.
    Learned,
    /// The observation may no longer hold.
    Changed,
}

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// Takes the first step, or finds out the first fact, that a delegate needs, if the observation is recent enough to act on.
    /// If there is none, the report says why.
    pub(super) async fn step_or_report(&mut self, observed: &Observed) -> Outcome {
        let (rollouts, now) = (&observed.rollouts, observed.now);
        let mut report = Report::new(now);
        for rollout in self.core.run.in_order(rollouts) {
            let (mut decided, blockers) = self.answer(rollout, rollouts, false, now);
            if decided.decision.is_to_do() {
                if !observed.may_act {
                    return Outcome::Changed;
                }
                let rounds = self.core.rounds;
                let budget = &mut self.track(rollout).budget;
                // A fault makes it take step after step, each reported to succeed.
                if let Err((reason, until)) = budget.take(&decided.decision, rounds, now) {
                    decided = Decided {
                        row: Row::CallFailed,
                        decision: Decision::wait(reason, until),
                    };
                }
            }
            self.log_decision(rollout, &decided);
            let (reason, until) = match decided.decision {
                Decision::Act(step) => {
                    self.apply(rollout, &step, now).await;
                    return match step {
                        Step::Pull { .. } => Outcome::Learned,
                        _ => Outcome::Changed,
                    };
                }
                Decision::Learn(fact) => {
                    // After any other fact, the containers are observed again.
                    let outcome = match fact {
                        Fact::FreeMemory | Fact::HiddenObstacle | Fact::Holds => Outcome::Learned,
                        _ => Outcome::Changed,
                    };
                    self.learn(rollout, rollouts, fact, now).await;
                    return outcome;
                }
                Decision::Wait { reason, until } => (reason, Some(until)),
                Decision::Rest(reason) => (reason, None),
            };
            self.report(&mut report, rollout, (&reason, until), &blockers);
            // A failure in back-off may pass.
            if until.is_none() || !reason.is_failure() {
                let subject = (&*rollout.name, &*rollout.workload);
                let image = rollout.representative().map(|member| &member.image);
                self.core.ledger.note_reason(subject, image, &reason, now).await;
            }
        }
        Outcome::Rest(report)
    }

    /// Takes a step. A pull is only started: [`Self::collect_pulls`] handles its end.
    pub(super) async fn apply(&mut self, rollout: &Rollout, step: &Step, now: DateTime<Utc>) {
        log_step(rollout, step, &self.update_order(rollout));
        self.core.ledger.count(step.kind());
        if let Step::Reject {
            id, to, rejection, ..
        } = step
            && let Some(candidate) = rollout.member(id)
        {
            let (engine, evidence) = (self.engine.as_ref(), &mut self.evidence);
            evidence
                .record(engine, rollout, candidate, to, rejection, now)
                .await;
        }
        if let Step::Pull { reference } = step {
            // The reason to wait for it is the same sentence, so it need not be logged again.
            self.track(rollout).last_logged = Some(step.to_string());
            self.start_pull(rollout, reference);
            return;
        }
        if let Step::NoteFirstSeen { .. } | Step::Reject { .. } = step {
            self.holds.note_change();
        }
        // The request may stop the container even if its answer is lost.
        if let Step::Stop { id, .. } | Step::Restart { id, .. } = step {
            self.memory.history(id).was_asked_to_stop = true;
        }
        self.core.ledger.before(rollout, step, now).await;
        let begun = Instant::now();
        let executed = execute(self.engine.as_ref(), rollout, step, &mut self.memory, now).await;
        // The back-off starts when the call ends, which may take a minute.
        let ended = self.now();
        match executed {
            Ok(effect) => {
                self.note_success(rollout, step, &effect, begun.elapsed(), ended);
                self.core.ledger.after(rollout, step, &effect, ended).await;
            }
            Err(failure) => self.note_failure(rollout, step, failure, ended),
        }
    }

    fn start_pull(&mut self, rollout: &Rollout, reference: &ImageReference) {
        let disk = self.settings.scope.disk();
        let policy = self.core.target.pull;
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
        self.note_step(rollout, step, None, now);
        if let Some(message) = completion_message(rollout, step) {
            self.track(rollout).completion = Some(message);
        }
        match step {
            Step::Stop { id, .. } => {
                // The grace period starts when the engine forwards the request, not when we send it.
                self.memory.history(id).stop_requested_at.get_or_insert(now);
            }
            Step::Promote { .. } => {
                if let Some(candidate) = &rollout.candidate {
                    self.track(rollout).recreations.note_upgrade(candidate, now);
                }
            }
            Step::Create { .. } => _ = self.core.run.created.insert(rollout.name.clone()),
            Step::Restart { id, grace, .. } if *effect == Effect::Done => {
                self.memory.history(id).checks.note_restart(now, *grace);
            }
            Step::Withdraw {
                because: Some(reason),
                ..
            } => {
                self.track(rollout).note_withdrawal(rollout, reason);
                self.core.run.skip_until_next_run(rollout, reason.clone());
            }
            Step::Reject { image, rejection, .. } => {
                let reason = Reason::Rejected {
                    image: image.clone(),
                    rejection: rejection.clone(),
                };
                self.core.run.skip_until_next_run(rollout, reason);
            }
            _ => {}
        }
    }

    fn note_failure(&mut self, rollout: &Rollout, step: &Step, failure: Failure, now: DateTime<Utc>) {
        self.pull_if_removed(rollout, &failure);
        match (step, failure) {
            // A replacement in progress needs this step, so it is retried until it succeeds, whatever the run wants.
            (Step::Recreate { .. } | Step::Stop { .. }, failure) if rollout.is_in_progress() => {
                self.note_step(rollout, step, Some(failure.to_string()), now);
            }
            (step, Failure::Refused(reason)) => {
                if rollout.is_in_progress() {
                    self.note_step(rollout, step, Some(reason.to_string()), now);
                }
                self.core.run.skip_until_next_run(rollout, reason);
            }
            // A replacement in progress is retried until it succeeds.
            (step, Failure::Doubtful(error))
                if rollout.serving.is_some()
                    && rollout.candidate.is_none()
                    && self.track(rollout).backoffs.of(&step.key()).is_some() =>
            {
                let problem = error.to_string();
                self.core
                    .run
                    .skip_until_next_run(rollout, Reason::CreateRefused { problem });
            }
            (Step::Create { reference, .. }, Failure::ImageVanished) => {
                let (container, workload) = (&rollout.name, &rollout.workload);
                if self.core.run.pull_again(reference) {
                    warn!(container, workload, image = %reference, "image disappeared after the pull; pulling again");
                } else {
                    let problem = format!("{reference} was removed or retagged twice right after a pull");
                    self.core
                        .run
                        .skip_until_next_run(rollout, Reason::CreateRefused { problem });
                }
            }
            (step, failure) => self.note_step(rollout, step, Some(failure.to_string()), now),
        }
    }

    /// Pulls the image again if it was removed. Only the next attempt needs it.
    fn pull_if_removed(&mut self, rollout: &Rollout, failure: &Failure) {
        if let Failure::ImageRemoved(reference) = failure {
            self.start_pull(rollout, reference);
        }
    }

    /// Handles the pulls that have ended.
    pub(super) fn collect_pulls(&mut self, now: DateTime<Utc>) {
        while let Some(Pulled {
            rollout,
            reference,
            outcome,
            took,
        }) = self.pulls.ended()
        {
            let step = Step::Pull {
                reference: reference.clone(),
            };
            let result = match outcome {
                Ok(id) => {
                    let (container, workload) = (&rollout.name, &rollout.workload);
                    info!(container, workload, image_id = %id, seconds = seconds(took), "pulled {reference}");
                    self.core.ledger.note_pull(&id, took);
                    Ok(id)
                }
                Err(Failure::Refused(mut reason)) => {
                    self.core.run.retries.schedule(&mut reason, now);
                    Err(reason)
                }
                Err(failure) => {
                    self.note_step(&rollout, &step, Some(failure.to_string()), now);
                    continue;
                }
            };
            self.track(&rollout).backoffs.forget(&step.key());
            if let Err(reason) = &result
                && reason.is_failure()
            {
                // If a run starts right now, it tries again and its report does not mention the failure.
                log_reason(&rollout, reason);
                self.track(&rollout).last_logged = Some(reason.to_string());
                self.core.run.halt_replicas(&rollout, reason);
            }
            match result {
                // Another delegate may run another image, or need another platform.
                Err(reason @ (Reason::WrongPlatform { .. } | Reason::SameImage { .. })) => {
                    self.core.run.note_unsuitable(&reference, &rollout, reason);
                }
                result => self.core.run.note_pulled(&reference, result),
            }
        }
    }

    /// Notes an attempt at a step, failed with this problem or reported to succeed. Only the next observation shows its effect.
    fn note_step(&mut self, rollout: &Rollout, step: &Step, problem: Option<String>, now: DateTime<Utc>) {
        let is_beside = step.container().is_some_and(|id| rollout.is_left_over(id));
        self.note_attempt(rollout, &step.key(), step.to_string(), problem, is_beside, now);
    }

    /// Notes that a question failed. Nothing is changed until its answer is known.
    pub(super) fn note_failed_question(
        &mut self,
        rollout: &Rollout,
        fact: &Fact,
        step: &str,
        failure: impl Into<Failure>,
        now: DateTime<Utc>,
    ) {
        let failure = failure.into();
        self.pull_if_removed(rollout, &failure);
        let problem = Some(failure.to_string());
        self.note_attempt(rollout, fact.kind(), step.to_owned(), problem, false, now);
    }

    /// Notes an attempt. Every attempt passes through here, so none is repeated without a pause.
    pub(super) fn note_attempt(
        &mut self,
        rollout: &Rollout,
        key: &str,
        step: String,
        problem: Option<String>,
        is_beside: bool,
        now: DateTime<Utc>,
    ) {
        if let Some(problem) = &problem {
            let (container, workload) = (&rollout.name, &rollout.workload);
            warn!(
                container,
                workload, step, problem, "engine call failed; will retry"
            );
        }
        let tracked = self.track(rollout);
        if problem.is_some() {
            // Other containers may have taken the memory by the next attempt.
            tracked.free_memory.take_if(|answer| answer.is_ok());
        }
        tracked
            .backoffs
            .note(key.to_owned(), step, problem, is_beside, now);
    }
}
