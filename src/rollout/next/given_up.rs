//! Failed and withdrawn candidates, each by itself, beside the replacement.

use super::At;
use crate::container::{Role, RunState};
use crate::rollout::pace::OTHERS_REMOVE_FIRST;
use crate::rollout::{Decided, Member, Row, Step};

impl At<'_> {
    /// Running candidates are stopped as gently as delegates. The last failed candidate is kept, and no withdrawn one.
    pub(super) fn given_up(&self) -> impl Iterator<Item = Decided> {
        let given_up = self.rollout.failed.iter().chain(&self.rollout.withdrawn);
        let superseded = self.rollout.superseded();
        given_up
            .filter_map(|member| self.end(member))
            .chain(superseded.map(|member| Row::FailedRemove.act(Step::remove(member))))
            .chain(self.remove_helper())
    }

    fn end(&self, member: &Member) -> Option<Decided> {
        let is_withdrawn = matches!(member.role, Role::Withdrawn { .. } | Role::Trial { .. });
        let keep_stopped = Step::keep_stopped(member);
        let was_tried = member.is_up() && self.facts.backoffs.of(&keep_stopped.key()).is_some();
        Some(match member.state {
            RunState::Removing => return self.removing(Row::GivenUpRemoving, member),
            _ if member.has_restart_policy() && !was_tried => Row::GivenUpPolicy.act(keep_stopped),
            _ if member.is_up() => self.stop(Row::GivenUpStop, member),
            _ if is_withdrawn => self.remove_after(OTHERS_REMOVE_FIRST, Row::WithdrawnRemove, member),
            _ => return None,
        })
    }
}
