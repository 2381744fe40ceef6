//! A failure (X), and withdrawing (U).

use chrono::TimeDelta;

use super::At;
use crate::container::{ContainerId, ImageId, RunState};
use crate::image::ImageReference;
use crate::rollout::Row::{U1, U2, U3, U4, X1, X2, X3, X4, X5, X6, X7, X8, X9, X10};
use crate::rollout::reason::Reason;
use crate::rollout::{CandidateFailure, Decided, Fact, FailureCause, Member, Reach, Step};

/// What is rejected: a container, or what is known of one that has vanished.
pub(super) struct Attempt<'a> {
    pub(super) image_id: &'a ImageId,
    pub(super) image: String,
    pub(super) reference: Option<&'a ImageReference>,
    pub(super) replaces: &'a ContainerId,
    pub(super) release: u64,
    pub(super) container: Option<&'a Member>,
}

impl At<'_> {
    /// What becomes of one that failed, where there is another one to go back to.
    pub(super) fn fail(&self, member: &Member, failure: CandidateFailure) -> Decided {
        let CandidateFailure { cause, common_cause } = failure;
        match common_cause {
            Some(common_cause) => {
                let image = member.image.to_string();
                let because = Reason::Inconclusive {
                    image,
                    cause,
                    common_cause,
                };
                X1.see(self.withdraw(member, Some(because)))
            }
            None if self.rollout.has_marker(member) => X2.see(self.withdraw(member, None)),
            None if !member.auto_remove
                && member.is_between_lives()
                && self.stop(member).decision.is_to_do() =>
            {
                X3.see(self.stop(member))
            }
            None => {
                let attempt = Attempt {
                    image_id: &member.image_id,
                    image: member.image.to_string(),
                    reference: member.image.reference().ok(),
                    replaces: member.replaces.as_ref().unwrap_or(&member.id),
                    release: member.release,
                    container: Some(member),
                };
                self.reject(&attempt, cause)
            }
        }
    }

    /// The new name counts the attempts of its image. A candidate with `--rm` vanishes by stopping: a container of its
    /// image that is never started stands for it.
    ///
    /// Without the Manager no delegate is healthy, so whether it can be reached is known before. One that was never
    /// started needs no Manager to fail.
    pub(super) fn reject(&self, attempt: &Attempt<'_>, cause: FailureCause) -> Decided {
        let image = attempt.image.clone();
        let was_started = attempt
            .container
            .is_none_or(|container| container.started_at.is_some());
        let question = attempt.reference.filter(|_| was_started);
        let to = match self.rollout.next_failed_name(attempt.image_id) {
            Ok(to) => to,
            Err(holder) => return X4.act(Step::remove(holder)),
        };
        match (question, &self.facts.manager, attempt.container) {
            (Some(reference), None, _) => X5.learn(Fact::ManagerReachable {
                image: reference.clone(),
            }),
            (Some(_), Some(Reach::Asking), _) => X6.wait(
                Reason::Confirming { image, cause },
                self.now + TimeDelta::milliseconds(500),
            ),
            (Some(_), Some(Reach::Unreachable(problem)), Some(container)) => X7.learn(Fact::CommonCause {
                container: container.id.clone(),
                cause: problem.clone(),
            }),
            (Some(_), Some(Reach::Unreachable(problem)), None) => X8.rest(Reason::Inconclusive {
                image,
                cause,
                common_cause: problem.clone(),
            }),
            (_, _, Some(container)) if !container.auto_remove => {
                let id = container.id.clone();
                X9.act(Step::Reject { id, to, image, cause })
            }
            _ => X10.act(Step::CreateQuarantineMarker {
                id: attempt.image_id.clone(),
                image,
                to,
                cause,
                replaces: attempt.replaces.clone(),
                release: attempt.release,
            }),
        }
    }

    /// A candidate that is not wanted any more, through no fault of its own: no quarantine.
    pub(super) fn withdraw(&self, candidate: &Member, because: Option<Reason>) -> Decided {
        match (&candidate.state, because) {
            (RunState::Removing, _) => U1.see(self.wait_for_removal(candidate)),
            (_, None) if !candidate.is_up() => U2.act(Step::remove(candidate)),
            (RunState::Restarting, _) => U3.see(self.stop(candidate)),
            // It is renamed before it is asked to stop: a candidate that is stopping must not be taken for a proven
            // one.
            (_, because) => U4.act(Step::withdraw(self.rollout, candidate, because, self.now)),
        }
    }
}
