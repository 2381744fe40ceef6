//! Failed and withdrawn candidates, each handled independently of the replacement.

use super::At;
use crate::container::{Role, RunState};
use crate::rollout::pace::OTHERS_REMOVE_FIRST;
use crate::rollout::{Decided, Decision, Member, Row, Step};

impl At<'_> {
    /// The decision on each of them, and on the helper of a completed exchange.
    pub(super) fn given_up(&self) -> impl Iterator<Item = Decided> {
        let rollout = self.rollout;
        let members = rollout
            .failed
            .iter()
            .chain(&rollout.withdrawn)
            .chain(&rollout.former)
            .chain(&rollout.helper);
        members.filter_map(|member| Decided::first(Row::GIVEN_UP, |row| self.end(row, member)))
    }

    /// Running candidates are stopped as gently as delegates. Only the last failed candidate is kept.
    fn end(&self, row: Row, member: &Member) -> Option<Decision> {
        if matches!(member.role, Role::Helper { .. }) {
            return self.remove_helper(member).filter(|_| row == Row::HelperRemove);
        }
        let is_withdrawn = matches!(member.role, Role::Withdrawn { .. } | Role::Trial { .. });
        let is_removing = member.state == RunState::Removing;
        let keep_stopped = Step::keep_stopped(member);
        let was_tried = member.is_up() && self.facts.backoffs.of(&keep_stopped.key()).is_some();
        Some(match row {
            Row::GivenUpRemoving => self.removing(member)?,
            _ if is_removing => return None,
            Row::GivenUpPolicy if member.has_restart_policy() && !was_tried => Decision::Act(keep_stopped),
            Row::GivenUpStop if member.is_up() => self.stop(member),
            Row::WithdrawnRemove if is_withdrawn => self.remove_after(OTHERS_REMOVE_FIRST, member),
            Row::FormerRemove if matches!(member.role, Role::Former) => {
                let rollout = self.rollout;
                let is_of = |it: &Member| it.replaces == member.replaces;
                let is_over = match &rollout.serving {
                    _ if rollout.candidate.as_ref().is_some_and(is_of) => false,
                    Some(serving) => serving.works() && !is_of(serving),
                    None => rollout.candidate.is_none() && rollout.old.is_empty(),
                };
                is_over.then(|| Decision::Act(Step::remove(member)))?
            }
            Row::FailedRemove if self.rollout.is_superseded(member) => Decision::Act(Step::remove(member)),
            _ => return None,
        })
    }
}
