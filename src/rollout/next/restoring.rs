//! No container has the name, and no candidate can take it: an old container returns.

use chrono::TimeDelta;

use super::{At, span};
use crate::container::{Role, RunState};
use crate::rollout::pace::{GRACE, LONG_GRACE, START_ATTEMPTS};
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Decision, Member, Row, Step};

impl At<'_> {
    /// Restores the old container that was never asked to stop, or else the last one, unless its successor serves elsewhere.
    pub(super) fn restoring(&self) -> Option<Decided> {
        let mut latest_first = self.rollout.old.iter().rev();
        let lost = latest_first.find(|old| self.rollout.successor_of(old).is_none())?;
        Decided::first(Row::RESTORING, |row| self.restore(row, lost))
    }

    fn restore(&self, row: Row, old: &Member) -> Option<Decision> {
        let rollout = self.rollout;
        let is_mine = self.facts.own.as_ref() == Some(&old.id);
        let is_unasked = old.role == Role::Retired || old.lives_anew();
        // Docker can rename it only in its next life.
        let is_running = old.is_up() && !old.is_between_lives();
        Some(match row {
            Row::Restore if is_mine || is_running && is_unasked => Decision::Act(Step::restore(rollout, old)),
            Row::RecreateOld => {
                let is_gone = old.state == RunState::Removing && old.has_been_down_for(LONG_GRACE, self.now);
                let is_refused = old.has_ended() && old.history.starts.count >= START_ATTEMPTS;
                let is_copied = is_running && self.may_be_copied(old) && self.is_left_to_us(old);
                (is_gone || is_refused || is_copied).then(|| Decision::Act(Step::recreate(old)))?
            }
            Row::RestoreStop if is_running => match self.stop(old) {
                Decision::Wait { until, .. } => Decision::wait(Reason::nobody_serves(old, self.now), until),
                decision => decision,
            },
            Row::RestoreWait => match old.state {
                RunState::Removing => self.wait_for_end(old),
                RunState::Restarting => Decision::wait(Reason::returning(old, None), self.soon()),
                _ if let Some(other) = self.keeps_from_starting() => self.wait_for_end(other),
                _ if old.history.stop_requested_at.is_some() => return None,
                _ => self.may_return(old, GRACE)?,
            },
            Row::RestoreStart => self.start_again(old),
            _ => return None,
        })
    }

    /// Starts an old container again. If the clock was set back, the time in its name is yet to come, and a life that starts now
    /// would seem to be the one that was asked to stop: it gets a new name first.
    pub(super) fn start_again(&self, old: &Member) -> Decision {
        let is_to_come = old.stopping_since() > Some(self.now + TimeDelta::seconds(1));
        Decision::Act(if is_to_come {
            Step::drain(self.rollout, old, self.now)
        } else {
            Step::start(old)
        })
    }

    /// Whether an old container has ended since this process asked it to stop, and Docker has not refused to start it.
    pub(super) fn may_start_again(&self, old: &Member) -> bool {
        let is_next = old.has_ended() && old.history.stop_requested_at.is_some();
        is_next && old.history.starts.count == 0 && self.keeps_from_starting().is_none()
    }

    /// Whether a copy may serve while the old container finishes its tasks. A container with `--rm` never serves again itself.
    pub(super) fn may_be_copied(&self, old: &Member) -> bool {
        old.vanishes || !self.is_stop_first() && !self.rollout.is_upgrader()
    }

    /// Whether its successor failed, or is gone and nobody will recreate it. Compose first waits for the old one to end.
    fn is_left_to_us(&self, old: &Member) -> bool {
        let mut failed = self.rollout.failed.iter();
        let is_gone = self.rollout.owner.compose_grace.is_zero() && span(self.facts.name_free_for) >= GRACE;
        old.vanishes || is_gone || failed.any(|failed| failed.is_successor_of(old))
    }
}
