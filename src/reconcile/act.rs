//! Taking a step, and what is known after it.

use chrono::{DateTime, Utc};
use tracing::{info, warn};

use super::Reconciler;
use super::log::{completion_message, log_step};
use crate::engine::Engine;
use crate::health::HealthEndpoint;
use crate::manager::ImageSource;
use crate::rollout::reason::Reason;
use crate::rollout::{Backoff, Failure, Pulled, Rollout, Step, execute};

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    pub(super) async fn apply(&mut self, rollout: &Rollout, step: &Step, now: DateTime<Utc>) {
        log_step(rollout, step, &self.update_order(rollout));
        *self.steps_taken.entry(step.kind()).or_default() += 1;
        self.collect_evidence(rollout, step, now).await;
        if let Step::Pull { reference } = step {
            let disk = self.settings.scope.disk();
            self.pulls.start(&self.engine, rollout, reference, disk);
            return;
        }
        let outcome = execute(self.engine.as_ref(), rollout, step, &mut self.memory, now).await;
        if let (Step::Stop { id, .. }, Ok(())) = (step, &outcome) {
            let told = self.now();
            self.memory.note_stop_requested(id, told);
        }
        if outcome.is_ok() {
            // An old one that is only dated anew is where it was.
            if !is_dated_anew(rollout, step) {
                self.track(rollout).backoff = None;
            }
            if let Some(message) = completion_message(rollout, step) {
                self.track(rollout).completion = Some(message);
            }
        }
        match (step, outcome) {
            (
                Step::Withdraw {
                    because: Some(reason),
                    ..
                },
                Ok(()),
            ) => self.run.skip_until_next_run(rollout, reason.clone()),
            (
                Step::Reject { image, cause, .. } | Step::CreateQuarantineMarker { image, cause, .. },
                Ok(()),
            ) => {
                let reason = Reason::Rejected {
                    image: image.clone(),
                    cause: cause.clone(),
                };
                self.run.skip_until_next_run(rollout, reason);
            }
            (_, Ok(())) => {}
            // What is needed to go on is not given up; what is to begin is.
            (Step::CreateStandby { .. }, Err(failure)) if rollout.serving.is_none() => {
                self.backoff(rollout, &step.to_string(), problem(&failure), now);
            }
            (_, Err(Failure::Refused(reason))) => {
                self.run.skip_until_next_run(rollout, reason);
            }
            (Step::Create { reference, .. }, Err(Failure::ImageVanished)) => {
                if self.run.pull_again(reference) {
                    let container = rollout.name.as_str();
                    warn!(container, image = %reference, "image disappeared after the pull; pulling again");
                } else {
                    let problem =
                        format!("{reference} was removed or retagged right after each of two pulls");
                    self.run
                        .skip_until_next_run(rollout, Reason::CreateRefused { problem });
                }
            }
            (step, Err(failure)) => self.backoff(rollout, &step.to_string(), problem(&failure), now),
        }
    }

    /// Takes in the pulls that have ended.
    pub(super) fn collect_pulls(&mut self, now: DateTime<Utc>) {
        while let Some(Pulled {
            rollout,
            reference,
            outcome,
        }) = self.pulls.ended()
        {
            let result = match outcome {
                Ok(id) => {
                    info!(image = %reference, %id, "pulled");
                    Ok(id)
                }
                Err(Failure::Refused(reason)) => Err(reason),
                Err(failure) => {
                    let step = Step::Pull { reference };
                    self.backoff(&rollout, &step.to_string(), problem(&failure), now);
                    continue;
                }
            };
            self.track(&rollout).backoff = None;
            if let Err(reason) = &result {
                self.run.halt_replicas(&rollout, reason);
            }
            self.run.note_pulled(&reference, result);
        }
    }

    /// After an error nothing is known but that it has to be looked at again, a little later, and later each time.
    pub(super) fn backoff(&mut self, rollout: &Rollout, step: &str, problem: String, now: DateTime<Utc>) {
        warn!(
            delegate = rollout.name,
            step, problem, "engine call failed; will retry"
        );
        let reason = Reason::EngineError {
            step: step.to_owned(),
            problem,
        };
        let tracked = self.track(rollout);
        tracked.backoff = Some(Backoff::after(tracked.backoff.as_ref(), reason, now));
    }
}

fn is_dated_anew(rollout: &Rollout, step: &Step) -> bool {
    let Step::Retire { id, .. } = step else {
        return false;
    };
    rollout.draining.iter().any(|old| old.id == *id)
}

fn problem(failure: &Failure) -> String {
    match failure {
        Failure::Engine(error) => error.to_string(),
        Failure::Refused(reason) => reason.to_string(),
        Failure::ImageVanished => "the image is gone".to_owned(),
    }
}
