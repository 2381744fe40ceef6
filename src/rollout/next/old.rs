//! Old containers behind the container in service.

use super::{At, span};
use crate::container::{Role, RunState};
use crate::rollout::pace::{GRACE, STOP_SLACK};
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Decision, FailureCause, Member, Row, Step};

impl At<'_> {
    /// The decision on each old container behind the one in service or its renamed successor.
    pub(super) fn old_ones(&self) -> impl Iterator<Item = Decided> {
        self.rollout.old.iter().filter_map(|old| {
            let successor = self.rollout.successor_of(old);
            let serving = self.rollout.serving.as_ref().or(successor)?;
            Decided::first(Row::OLD, |row| self.behind(row, serving, old))
        })
    }

    fn behind(&self, row: Row, serving: &Member, old: &Member) -> Option<Decision> {
        let (rollout, grace) = (self.rollout, self.rollout.owner.compose_grace);
        let is_retired = old.role == Role::Retired;
        let works = serving.works() && self.has_settled(serving);
        let was_asked = old.history.stop_requested_at.is_some();
        // While its successor is stopped by the owner, nothing is started, removed or asked to stop.
        let stays = serving.life.was_stopped && !(old.is_up() && was_asked);
        let is_copy_started_first = serving.is_copy && serving.is_created();
        Some(match row {
            _ if is_copy_started_first => return None,
            Row::OldRemoving => self.removing(old)?,
            _ if old.state == RunState::Removing => return None,
            Row::RetiredDrain if is_retired && works && !old.is_between_lives() => {
                Decision::Act(Step::drain(rollout, old, self.now))
            }
            Row::SuccessorReject => {
                let is_rejectable = rollout.serving.is_some()
                    && serving.is_successor_of(old)
                    && !serving.is_copy
                    && self.facts.backoffs.stuck(old).is_none();
                let cause = self.failure_after_commit(serving, old).filter(|_| is_rejectable);
                self.reject(serving, cause?)
            }
            // Docker cannot rename a retired container between two lives, but that one is not working either.
            Row::DrainingStop if !stays && old.is_up() && (works || was_asked && !is_retired) => {
                self.stop(old)
            }
            Row::DrainingRemove if !stays && !old.is_up() && works => match rollout.outdated_image(serving) {
                // Compose may be stopping the container in service, which works until it has ended. Then this one serves again.
                _ if old.has_ended() && !old.has_ended_for(grace, self.now) => self.remove_after(grace, old),
                Some(id) => Decision::Act(Step::RemoveImage { id: id.clone() }),
                None => Decision::Act(Step::remove(old)),
            },
            Row::OldWait if !stays => {
                let verdict = serving.health.to_string();
                let reason = Reason::SuccessorUnhealthy { verdict };
                Decision::wait(reason, self.now + self.proof_interval())
            }
            _ => return None,
        })
    }

    /// Why the successor in service must give the name back, if so. An old container that drains takes no new tasks. A copy of it
    /// serves meanwhile, unless two cannot run at once: then stopping an unhealthy successor early would leave no delegate.
    fn failure_after_commit(&self, serving: &Member, old: &Member) -> Option<FailureCause> {
        let is_retired = old.role == Role::Retired;
        // A process may have ended between the rename and the request.
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
