//! The differences where the container is the upgrader's own: a candidate takes the name itself, which is its proof of
//! being an upgrader, and where two cannot run at once, a helper makes the exchange.

use super::At;
use super::proof::Proof;
use crate::container::RunState;
use crate::rollout::pace::LONG_GRACE;
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, FailureCause, Member, Row, Step};

impl At<'_> {
    /// The decision if this process is the candidate itself, and nothing of the upgrader's name is up: it takes the name,
    /// and nothing else.
    pub(super) fn own_turn(&self) -> Option<Decided> {
        let candidate = self.rollout.candidate.as_ref();
        let candidate = candidate.filter(|candidate| self.facts.own.as_ref() == Some(&candidate.id))?;
        let Some(serving) = &self.rollout.serving else {
            return Some(Row::TakeOwnName.act(Step::promote(self.rollout, candidate)));
        };
        Some(if serving.has_ended_for(LONG_GRACE, self.now) {
            Row::TakeOwnName.act(Step::retire(self.rollout, serving))
        } else {
            Row::TakeOwnName.wait(Reason::interrupted(serving), self.soon())
        })
    }

    /// Whether there is nothing to go back from: an upgrader takes its name before it has proven more than that it starts.
    pub(super) fn has_settled(&self, serving: &Member) -> bool {
        let healthy_for = serving.history.healthy_for(self.now).unwrap_or_default();
        !self.rollout.is_upgrader() || healthy_for >= self.policy.healthy_time
    }

    /// An upgrader that stops itself cannot start its successor: one of the new image, which takes no port, has to be ready
    /// before the container in service gives up its name, and does the rest.
    pub(super) fn with_helper(&self, serving: &Member, candidate: &Member) -> Decided {
        let Some(helper) = &self.rollout.helper else {
            return Row::HelperCreate.act(Step::CreateHelper {
                from: serving.id.clone(),
                image: candidate.image.to_string(),
            });
        };
        match self.proof(helper) {
            Proof::Created => Row::HelperStart.act(Step::start(helper)),
            Proof::Failed(cause) => {
                let ending = cause.to_string();
                let cause = FailureCause::HelperFailed { ending };
                self.reject(Row::CandidateReject, candidate, cause)
            }
            Proof::NotYet { reason, until } => Row::HelperStart.wait(reason, until),
            // It has been ready for a while: an image that fails soon shows it before the container in service stops.
            Proof::Proven => Row::NameRetired.act(Step::retire(self.rollout, serving)),
        }
    }

    /// Removes the helper once an upgrader is in service and the exchange can neither continue nor be undone.
    pub(super) fn remove_helper(&self) -> Option<Decided> {
        let (rollout, row) = (self.rollout, Row::HelperRemove);
        let helper = rollout.helper.as_ref()?;
        let is_served = rollout.serving.as_ref().is_some_and(Member::is_up);
        let is_awaited = rollout.candidate.is_some() || !is_served || !rollout.old.is_empty();
        Some(match helper.state {
            _ if is_awaited => return None,
            RunState::Removing => return self.removing(row, helper),
            _ if helper.is_up() => self.stop(row, helper),
            _ => row.act(Step::remove(helper)),
        })
    }
}
