//! Nobody has the name, and no candidate is there to take it: an old container comes back, from itself.

use super::proof::START_ATTEMPTS;
use super::{At, GRACE};
use crate::container::{Role, RunState};
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Member, Row, Step};

impl At<'_> {
    /// The old one that never was asked to stop, or else the last one that was, unless its successor serves elsewhere.
    pub(super) fn restoring(&self) -> Decided {
        let rollout = self.rollout;
        let mut latest_first = rollout.old.iter().rev();
        let lost = latest_first.find(|old| rollout.successor_of(old).is_none());
        match lost {
            Some(old) => self.restore(old),
            None => Row::NoContainer.rest(Reason::NoContainer),
        }
    }

    fn restore(&self, old: &Member) -> Decided {
        let rollout = self.rollout;
        let is_mine = self.facts.own.as_ref() == Some(&old.id);
        match (&old.state, self.in_the_way()) {
            (RunState::Removing, _) => self.removing_or_stuck(Row::OldRemoving, old),
            _ if old.is_between_lives() => Row::BetweenLives.wait(Reason::between_lives(old), self.soon()),
            _ if old.role == Role::Retired || old.lives_anew() || is_mine => {
                Row::Restore.act(Step::restore(rollout, old))
            }
            _ if old.is_up() && old.vanishes() => recreate(old),
            _ if old.is_up() => self.stop(Row::RestoreStop, old),
            (_, Some(other)) => self.wait_for_end(Row::RestoreWait, other),
            _ if let Some(wait) = self.may_return(Row::RestoreWait, old, GRACE) => wait,
            _ if old.history.starts.count >= START_ATTEMPTS => recreate(old),
            _ => Row::RestoreStart.act(Step::start(old)),
        }
    }
}

fn recreate(old: &Member) -> Decided {
    let from = old.id.clone();
    Row::RecreateOld.act(Step::Recreate { from, image: None })
}
