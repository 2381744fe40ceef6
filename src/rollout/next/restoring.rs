//! Nobody has the name, and no candidate is there to take it: an old container comes back, from itself.

use super::{At, span};
use crate::container::{Role, RunState};
use crate::rollout::pace::{GRACE, LONG_GRACE, START_ATTEMPTS};
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Decision, Member, Row, Step};

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
        let is_unasked = old.role == Role::Retired || old.lives_anew();
        // Docker can rename it in its next life only.
        let is_running = old.is_up() && !old.is_between_lives();
        let is_gone = old.state == RunState::Removing && old.has_been_down_for(LONG_GRACE, self.now);
        let is_refused = old.has_ended() && old.history.starts.count >= START_ATTEMPTS;
        let may_be_copied = || self.may_be_copied(old) && self.is_left_to_us(old);
        match old.state {
            _ if is_mine || is_running && is_unasked => Row::Restore.act(Step::restore(rollout, old)),
            _ if is_gone || is_refused || is_running && may_be_copied() => {
                Row::RecreateOld.act(Step::recreate(old))
            }
            _ if is_running => match self.stop(Row::RestoreStop, old) {
                Decided {
                    row,
                    decision: Decision::Wait { until, .. },
                } => row.wait(Reason::nobody_serves(old, self.now), until),
                decided => decided,
            },
            RunState::Removing => self.wait_for_end(Row::RestoreWait, old),
            RunState::Restarting => Row::RestoreWait.wait(Reason::returning(old, None), self.soon()),
            _ if let Some(other) = self.keeps_from_starting() => self.wait_for_end(Row::RestoreWait, other),
            _ if old.history.stop_requested_at.is_none()
                && let Some(wait) = self.may_return(Row::RestoreWait, old, GRACE) =>
            {
                wait
            }
            _ => Row::RestoreStart.act(Step::start(old)),
        }
    }

    /// Whether an old container has ended, since this process asked it to stop, and Docker has not refused to start it.
    pub(super) fn may_start_again(&self, old: &Member) -> bool {
        let is_next = old.has_ended() && old.history.stop_requested_at.is_some();
        is_next && old.history.starts.count == 0 && self.keeps_from_starting().is_none()
    }

    /// Whether a copy may serve while the old container finishes its tasks. One with `--rm` never serves again itself.
    pub(super) fn may_be_copied(&self, old: &Member) -> bool {
        old.vanishes() || !self.is_stop_first() && !self.rollout.is_upgrader()
    }

    /// Whether its successor failed, or is gone for so long that nobody is about to create it again. Compose first waits until the
    /// old one has ended.
    fn is_left_to_us(&self, old: &Member) -> bool {
        let mut failed = self.rollout.failed.iter();
        let is_gone = self.rollout.owner.compose_grace.is_zero() && span(self.facts.name_free_for) >= GRACE;
        old.vanishes() || is_gone || failed.any(|failed| failed.is_successor_of(old))
    }
}
