//! The helper of an upgrader of which two cannot run at once (J).
//!
//! Whoever stops itself cannot start its successor. An upgrader of the new image, which takes no port, stands by until the old
//! one has ended; then it starts the candidate, or the old one again.

use super::At;
use super::proof::Candidate;
use crate::container::{Role, RunState};
use crate::rollout::Row::{J1, J2, J3, J4, J5, J6, J7, J8};
use crate::rollout::reason::Reason;
use crate::rollout::{
    CandidateFailure, Decided, Fact, FailureCause, Member, START_ATTEMPTS, Step, StoppedBy,
};

impl At<'_> {
    /// What is missing before an upgrader stops, where its candidate cannot run beside it. `None` where nothing is.
    pub(super) fn ensure_helper(&self, serving: &Member, candidate: &Member) -> Option<Decided> {
        if !(self.rollout.is_upgrader() && self.is_stop_first() && candidate.is_created()) {
            return None;
        }
        let Some(helper) = &self.rollout.helper else {
            return Some(J1.act(Step::CreateHelper {
                from: serving.id.clone(),
                image: candidate.image.to_string(),
            }));
        };
        if !helper.is_marker_of(candidate) {
            return Some(J2.see(self.remove_copy(helper)));
        }
        let failed = match self.prove(helper, true) {
            (row, Candidate::Created) if helper.history.failed_starts < START_ATTEMPTS => {
                return Some(J3.act(Step::start(helper)).noting(row));
            }
            (_, Candidate::Created) => FailureCause::StartRefused {
                problem: helper.end(),
            },
            (row, Candidate::NotYet { reason, until }) => return Some(J7.wait(reason, until).noting(row)),
            (_, Candidate::Failed(failure) | Candidate::Refused(failure)) => failure.cause,
            (_, Candidate::Proven | Candidate::Unwanted) => return None,
        };
        let is_by_hand = failed.may_be_by_hand() || helper.state == RunState::Paused;
        Some(match helper.stopped_by(self.now).filter(|_| is_by_hand) {
            None if is_by_hand => J4.learn(Fact::StoppedBy {
                container: helper.id.clone(),
            }),
            Some(StoppedBy::Nobody) | None => J6.see(self.fail(
                candidate,
                CandidateFailure {
                    cause: FailureCause::HelperFailed {
                        cause: Box::new(failed),
                    },
                    common_cause: None,
                },
            )),
            Some(_) => J5.see(self.withdraw(candidate, Some(Reason::AskedToStop))),
        })
    }

    /// Whether an upgrader of which two cannot run at once has no helper that would go on without it.
    pub(super) fn lacks_helper(&self) -> bool {
        let goes_on = |helper: &Member| {
            helper.state == RunState::Running && helper.role == Role::Helper { is_ready: true }
        };
        let helper = self.rollout.helper.as_ref();
        self.rollout.is_upgrader() && self.is_stop_first() && !helper.is_some_and(goes_on)
    }

    /// Once one is in service, and nothing has to be finished or could have to be undone, the helper goes.
    pub(super) fn remove_helper(&self) -> Option<Decided> {
        let rollout = self.rollout;
        let helper = rollout.helper.as_ref()?;
        // One with `--rm` that has ended is as good as gone.
        let serves = |serving: &Member| serving.is_up() || !serving.auto_remove;
        let has_none = !rollout.serving.as_ref().is_some_and(serves);
        let is_awaited = rollout.candidate.is_some()
            || has_none && (!rollout.draining.is_empty() || rollout.standby.is_some())
            || rollout.draining.iter().any(|old| !old.removal_is_stuck(self.now));
        (!is_awaited).then(|| J8.see(self.remove_copy(helper)))
    }
}
