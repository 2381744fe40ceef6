//! A failure (X), marking an attempt (M), and withdrawing (U).

use chrono::TimeDelta;

use super::At;
use crate::container::{ContainerId, RunState};
use crate::rollout::Row::{M1, M2, U1, U2, U3, U4, U5, X1, X2, X3, X4, X5, X6, X7, X8, X9, X10};
use crate::rollout::reason::Reason;
use crate::rollout::{CandidateFailure, Decided, Fact, FailureCause, Member, Reach, Step};

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
            None if self.rollout.is_marked_as_rejected(member) => X2.see(self.withdraw(member, None)),
            None if !member.auto_remove
                && member.is_between_lives()
                && self.stop(member).decision.is_to_do() =>
            {
                X3.see(self.stop(member))
            }
            None => self.reject(member, cause),
        }
    }

    /// The new name counts the attempts of its image. A candidate with `--rm` vanishes by stopping: its attempt marker
    /// gets that name.
    ///
    /// Without the Manager no delegate is healthy, so whether it can be reached is known before.
    fn reject(&self, member: &Member, cause: FailureCause) -> Decided {
        let image = member.image.to_string();
        let question = member
            .image
            .reference()
            .ok()
            .filter(|_| cause.may_be_the_manager());
        let to = match self.rollout.next_failed_name(&member.image_id) {
            Ok(to) => to,
            Err(holder) => return X4.act(Step::remove(holder)),
        };
        let rejected = |id: &ContainerId| Step::Reject {
            id: id.clone(),
            to,
            image: image.clone(),
            cause: cause.clone(),
        };
        match (question, &self.facts.manager, self.rollout.attempt_of(member)) {
            (Some(reference), None, _) => X5.learn(Fact::ManagerReachable {
                image: reference.clone(),
            }),
            (Some(_), Some(Reach::Asking), _) => X6.wait(
                Reason::Confirming { image, cause },
                self.now + TimeDelta::milliseconds(500),
            ),
            (Some(_), Some(Reach::Unreachable(problem)), _) => X7.learn(Fact::CommonCause {
                container: member.id.clone(),
                cause: problem.clone(),
            }),
            (.., Some(attempt)) => X8.act(rejected(&attempt.id)),
            _ if !member.auto_remove => X9.act(rejected(&member.id)),
            _ => X10.see(self.mark(member)),
        }
    }

    /// What comes before the first start of a candidate that vanishes by stopping, and before anything is done to the
    /// one that it replaces.
    pub(super) fn mark_attempt(&self, candidate: &Member) -> Option<Decided> {
        let is_marked = !candidate.auto_remove || self.rollout.attempt_of(candidate).is_some();
        (!is_marked).then(|| self.mark(candidate))
    }

    fn mark(&self, candidate: &Member) -> Decided {
        match &self.rollout.attempt {
            Some(earlier) => M1.act(Step::remove(earlier)),
            None => M2.act(Step::CreateAttemptMarker {
                candidate: candidate.id.clone(),
                image: candidate.image.to_string(),
            }),
        }
    }

    /// A candidate that is not wanted any more, through no fault of its own: no quarantine.
    pub(super) fn withdraw(&self, candidate: &Member, because: Option<Reason>) -> Decided {
        match (&candidate.state, because, self.rollout.attempt_of(candidate)) {
            (.., Some(attempt)) => U1.act(Step::remove(attempt)),
            (RunState::Removing, ..) => U2.see(self.wait_for_removal(candidate)),
            (_, None, _) if !candidate.is_up() => U3.act(Step::remove(candidate)),
            (RunState::Restarting, ..) => U4.see(self.stop(candidate)),
            // It is renamed before it is asked to stop: a candidate that is stopping must not be taken for a proven
            // one.
            (_, because, _) => U5.act(Step::withdraw(self.rollout, candidate, because, self.now)),
        }
    }
}
