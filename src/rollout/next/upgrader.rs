//! The special rules for the upgrader's own container: a candidate takes the name itself, which proves that it is an upgrader. If
//! two cannot run at once, a helper makes the exchange.

use super::At;
use super::proof::Proof;
use crate::container::RunState;
use crate::rollout::pace::LONG_GRACE;
use crate::rollout::reason::Reason;
use crate::rollout::{Decision, FailureCause, Member, Step};

impl At<'_> {
    /// If this process is the candidate and no container with the upgrader's name is up, it takes the name and does nothing else.
    pub(super) fn take_own_name(&self) -> Option<Decision> {
        let candidate = self.rollout.candidate.as_ref();
        let candidate = candidate.filter(|candidate| self.facts.own.as_ref() == Some(&candidate.id))?;
        Some(match &self.rollout.serving {
            None => Decision::Act(Step::promote(self.rollout, candidate)),
            Some(serving) if serving.has_ended_for(LONG_GRACE, self.now) => {
                Decision::Act(Step::retire(self.rollout, serving))
            }
            Some(serving) => Decision::wait(Reason::interrupted(serving), self.soon()),
        })
    }

    /// Whether it is proven: an upgrader takes its name before it has shown more than that it starts.
    pub(super) fn has_settled(&self, serving: &Member) -> bool {
        let healthy_for = serving.history.healthy_for(self.now).unwrap_or_default();
        !self.rollout.is_upgrader() || healthy_for >= self.policy.healthy_time
    }

    /// An upgrader that stops itself cannot start its successor. So a helper with the new image, which takes no port, must be
    /// ready before the container in service gives up its name, and completes the exchange. A bad image fails before that.
    pub(super) fn prove_helper(&self, helper: &Member, candidate: &Member) -> Option<Decision> {
        Some(match self.proof(helper) {
            Proof::Created => Decision::Act(Step::start(helper)),
            Proof::Failed(cause) => {
                let ending = cause.to_string();
                self.reject(candidate, FailureCause::HelperFailed { ending })
            }
            Proof::NotYet { reason, until } => Decision::wait(reason, until),
            Proof::Proven => return None,
        })
    }

    /// Removes the helper once an upgrader serves and the exchange can be neither continued nor undone.
    pub(super) fn remove_helper(&self, helper: &Member) -> Option<Decision> {
        let rollout = self.rollout;
        let is_awaited = rollout.candidate.is_some() || !rollout.is_served() || !rollout.old.is_empty();
        Some(match helper.state {
            _ if is_awaited => return None,
            RunState::Removing => self.removing(helper)?,
            _ if helper.is_up() => self.stop(helper),
            _ => Decision::Act(Step::remove(helper)),
        })
    }
}
