//! A failure (X), marking an attempt (M), and withdrawing (U).

use chrono::TimeDelta;

use super::At;
use crate::container::{ContainerId, Role, RunState};
use crate::rollout::Row::{M1, M2, U1, U2, U3, U4, U5, X1, X2, X3, X4, X5, X6, X7, X8, X9, X10, X11, X12};
use crate::rollout::reason::Reason;
use crate::rollout::{
    CandidateFailure, CommonCause, Condition, Decided, Fact, FailureCause, Member, Reach, Step, UnhealthyPeer,
};

/// What a stop-first candidate's failure is put down to while the old container is up.
const BESIDE_OLD: &str = "somebody started it while the old container was still running";

/// What a failure says about the image.
enum Verdict {
    /// It is bad.
    Rejected,
    /// Nothing: delegates with another image do no better. That may last, so there is a pause before the next attempt.
    Inconclusive(CommonCause),
}

impl Verdict {
    fn role(&self, attempt: u32) -> Role {
        match self {
            Self::Rejected => Role::Failed { attempt },
            Self::Inconclusive(_) => Role::Inconclusive { attempt },
        }
    }
}

impl At<'_> {
    /// What becomes of one that failed, where there is another one to go back to.
    pub(super) fn fail(&self, member: &Member, failure: CandidateFailure) -> Decided {
        let CandidateFailure { cause, common_cause } = failure;
        let with_peer = common_cause.is_some();
        // A marker is not what it stands for.
        let was_stopped_by_us = member.role != Role::Attempt && member.was_stopped_by_us();
        let outside = match member.stopped_by(self.now) {
            _ if self.ran_beside_old(member, &cause) => Some(BESIDE_OLD.into()),
            _ if !cause.may_be_by_hand() || was_stopped_by_us => None,
            // No image does that.
            _ if member.state == RunState::Paused => Some("somebody paused it".into()),
            None => {
                return X1.learn(Fact::StoppedBy {
                    container: member.id.clone(),
                });
            }
            Some(by) => by.common_cause().map(CommonCause::from),
        };
        let (cause, verdict) = match outside.or(common_cause) {
            None => (cause, Verdict::Rejected),
            Some(CommonCause { what, peer: None }) => {
                return X2.see(self.withdraw(member, Some(inconclusive(member, cause, what, 0))));
            }
            Some(common_cause) if self.has_harmed_before(member, &common_cause) => {
                let peer = common_cause.what;
                (FailureCause::HarmsOthers { peer }, Verdict::Rejected)
            }
            Some(common_cause) => (cause, Verdict::Inconclusive(common_cause)),
        };
        if self.rollout.is_marked_as_rejected(member) {
            return X3.see(self.withdraw(member, None));
        }
        if !member.auto_remove && member.is_between_lives() && self.stop(member).decision.is_to_do() {
            return X4.see(self.stop(member));
        }
        self.put_away(member, cause, &verdict, with_peer)
    }

    /// Whether a candidate runs, or ran and has vanished, beside an old one that it cannot run beside: nothing here has
    /// started it.
    fn ran_beside_old(&self, member: &Member, cause: &FailureCause) -> bool {
        let rollout = self.rollout;
        let olds = rollout.serving.iter().chain(&rollout.draining);
        let was_started = match member.role {
            Role::Candidate => member.started_at.is_some(),
            Role::Attempt => matches!(cause, FailureCause::Vanished { problem: None }),
            _ => false,
        };
        // The marker is older than the life of its candidate.
        let lived_on = |old: &Member| {
            let was_up = old.started_at.is_some_and(|started| started < member.created_at);
            member.role != Role::Attempt || (old.role == Role::Serving && was_up)
        };
        // Or it was, when the candidate began its life, or this process first saw it run.
        let outlasted = |old: &Member| {
            let begins = [member.history.seen_since, member.started_at];
            let mut begins = begins.into_iter().flatten();
            let is_candidate = member.role == Role::Candidate;
            is_candidate && old.has_ended() && begins.any(|begin| Some(begin) < old.finished_at)
        };
        let is_old =
            |old: &Member| member.is_successor_of(old) && (old.is_up() && lived_on(old) || outlasted(old));
        was_started && self.is_stop_first() && olds.into_iter().any(is_old)
    }

    /// Whether others lost their health with a container of this image once before, and had recovered without it.
    fn has_harmed_before(&self, member: &Member, common_cause: &CommonCause) -> bool {
        let again = common_cause.peer == Some(UnhealthyPeer::WithIt);
        let worked_before = |member: &Member| member.predecessor_condition == Condition::Working;
        let last = self.rollout.last_rejection(&member.image_id);
        let before = last.is_some_and(|(last, _)| {
            matches!(last.role, Role::Inconclusive { .. }) && worked_before(last) && last.id != member.id
        });
        again && before && worked_before(member)
    }

    /// The new name counts the attempts of its image. A candidate with `--rm` vanishes by stopping: its attempt marker
    /// gets that name.
    ///
    /// Without the Manager no delegate is healthy, so whether it can be reached is known before.
    fn put_away(&self, member: &Member, cause: FailureCause, verdict: &Verdict, with_peer: bool) -> Decided {
        let image = member.image.to_string();
        let to = match self
            .rollout
            .next_failed_name(&member.image_id, |attempt| verdict.role(attempt))
        {
            Ok(to) => to,
            Err(holder) => return X5.act(Step::remove(holder)),
        };
        let question = member
            .image
            .reference()
            .ok()
            .filter(|_| cause.may_be_the_manager());
        match (question, &self.facts.manager) {
            (Some(reference), None) => X6.learn(Fact::ManagerReachable {
                image: reference.clone(),
            }),
            (Some(_), Some(Reach::Asking)) => X7.wait(
                Reason::Confirming { image, cause },
                self.now + TimeDelta::milliseconds(500),
            ),
            // It has had its extended time.
            (Some(_), Some(Reach::Unreachable(problem))) if with_peer => {
                let because = inconclusive(member, cause, problem.clone(), 0);
                X8.see(self.withdraw(member, Some(because)))
            }
            (Some(_), Some(Reach::Unreachable(problem))) => X9.learn(Fact::CommonCause {
                container: member.id.clone(),
                cause: problem.clone(),
            }),
            _ => self.by_marker(member, |id| match verdict {
                Verdict::Rejected => Step::Reject {
                    id: id.clone(),
                    to,
                    image,
                    cause,
                },
                Verdict::Inconclusive(CommonCause { what, .. }) => {
                    let last = self.rollout.last_rejection(&member.image_id);
                    let attempts = last.map_or(1, |(_, attempt)| attempt.saturating_add(1));
                    Step::SetAside {
                        id: id.clone(),
                        to,
                        because: inconclusive(member, cause, what.clone(), attempts),
                    }
                }
            }),
        }
    }

    /// The container that bears the verdict: the attempt marker of one with `--rm`, or the candidate itself.
    fn by_marker(&self, member: &Member, step: impl FnOnce(&ContainerId) -> Step) -> Decided {
        match self.rollout.attempt_of(member) {
            Some(attempt) => X10.act(step(&attempt.id)),
            None if !member.auto_remove => X11.act(step(&member.id)),
            None => X12.see(self.mark(member)),
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

fn inconclusive(member: &Member, cause: FailureCause, common_cause: String, attempts: u32) -> Reason {
    Reason::Inconclusive {
        image: member.image.to_string(),
        cause,
        common_cause,
        attempts,
    }
}
