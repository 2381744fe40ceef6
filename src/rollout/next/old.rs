//! Old containers behind the container in service.

use super::{At, span};
use crate::container::{Role, RunState};
use crate::rollout::pace::{GRACE, STOP_SLACK};
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, FailureCause, Member, Row, Step};

impl At<'_> {
    /// Each old one behind the container in service, or behind its successor that was renamed.
    pub(super) fn old_ones(&self) -> impl Iterator<Item = Decided> {
        let old_ones = self.rollout.old.iter();
        old_ones.filter_map(|old| {
            let successor = self.rollout.successor_of(old);
            let serving = self.rollout.serving.as_ref().or(successor)?;
            self.behind(serving, old)
        })
    }

    fn behind(&self, serving: &Member, old: &Member) -> Option<Decided> {
        let (rollout, grace) = (self.rollout, self.rollout.owner.compose_grace);
        let is_retired = old.role == Role::Retired;
        let works = serving.works() && self.has_settled(serving);
        let was_asked = old.history.stop_requested_at.is_some();
        let is_rejectable = rollout.serving.is_some()
            && serving.is_successor_of(old)
            && !serving.is_copy
            && self.facts.backoffs.stuck(old).is_none();
        let failure = self.failure_after_commit(serving, old).filter(|_| is_rejectable);
        Some(match old.state {
            // That one is about to be started: a row of the container in service.
            _ if serving.is_copy && serving.is_created() => return None,
            RunState::Removing => return self.removing(Row::OldRemoving, old),
            _ if is_retired && works && !old.is_between_lives() => {
                Row::RetiredDrain.act(Step::drain(rollout, old, self.now))
            }
            _ if let Some(cause) = failure => self.reject(Row::SuccessorReject, serving, cause),
            // Its owner stopped the successor: until that runs again, nothing is started, removed, or asked to stop.
            _ if serving.life.was_stopped && !(old.is_up() && was_asked) => return None,
            // Docker cannot rename a retired one between two lives, which is not at work.
            _ if old.is_up() && (works || was_asked && !is_retired) => self.stop(Row::DrainingStop, old),
            _ if !old.is_up() && works => match rollout.outdated_image(serving) {
                // Compose may be stopping the container in service, which works until it has ended; this one then serves again.
                _ if old.has_ended() && !old.has_ended_for(grace, self.now) => {
                    self.remove_after(grace, Row::DrainingRemove, old)
                }
                Some(id) => Row::DrainingRemove.act(Step::RemoveImage { id: id.clone() }),
                None => Row::DrainingRemove.act(Step::remove(old)),
            },
            _ => {
                let verdict = serving.health.to_string();
                let reason = Reason::SuccessorUnhealthy { verdict };
                Row::OldWait.wait(reason, self.now + self.proof_interval())
            }
        })
    }

    /// Why the successor in service must give the name back, if it must. An old one that finishes its tasks takes no new
    /// ones. Beside it a copy of it serves, unless two cannot run at once: then to stop an unhealthy successor before the old one
    /// has ended would leave no delegate.
    fn failure_after_commit(&self, serving: &Member, old: &Member) -> Option<FailureCause> {
        let is_retired = old.role == Role::Retired;
        // A process may have ended between the name and the request.
        let was_not_asked = old
            .stopping_since()
            .is_some_and(|since| self.now - since > span(old.stop_timeout) + STOP_SLACK);
        let may_be_copied = self.may_be_copied(old);
        let is_free = !is_retired && (!old.is_up() || may_be_copied || was_not_asked);
        if serving.has_ended() || serving.state == RunState::Removing {
            let ending = serving.end();
            let has_lasted = serving.is_over_for(GRACE, self.now);
            return has_lasted.then_some(FailureCause::EndedAfterCommit { ending });
        }
        let lasting = serving.history.unhealthy_for(self.now)?;
        let lasts = lasting >= span(self.policy.healthy_deadline);
        (lasts && (is_free || is_retired && old.works())).then(|| FailureCause::UnhealthyAfterCommit {
            lasting: lasting.to_std().unwrap_or_default(),
            health: serving.health.detail.clone(),
        })
    }
}
