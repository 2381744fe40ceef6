//! Stopping (T), and waiting for a removal (W).

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::{At, span};
use crate::container::Role;
use crate::rollout::Row::{T1, T2, T3, T4, T5, T6, W1, W2};
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Member, Step};

/// How long after its deadline a container that was asked to stop is asked again, to stop at once. Engines 23.0 to
/// 24.0.2 forget the deadline when the client that asked is gone.
pub(super) const STOP_SLACK: TimeDelta = TimeDelta::milliseconds(500);
/// A rename and the stop after it are this close together, unless the process that did the first is gone.
const RENAME_TO_STOP_LIMIT: TimeDelta = TimeDelta::seconds(10);

impl At<'_> {
    /// An old one finishes its tasks. An earlier process may have asked it to stop, which cannot be known.
    ///
    /// So it gets its whole time: better late than a task cut short. Where it had been asked before, the engine's own
    /// clock still runs from the first time. A policy that is still on says that it had not been, and then its name
    /// gets the time at which it is.
    pub(super) fn drain(&self, old: &Member) -> Decided {
        let is_late = old
            .retired_at()
            .is_some_and(|retired| self.now > retired + RENAME_TO_STOP_LIMIT);
        let was_told = old.restart_is_off() || old.history.stop_requested_at.is_some();
        if self.rollout.misses_standby(old) {
            T1.act(Step::CreateStandby { from: old.id.clone() })
        } else if is_late && !was_told && !old.is_between_lives() {
            T2.act(Step::retire(self.rollout, old, self.now))
        } else {
            self.stop(old)
        }
    }

    /// Policy off, then the signal, then patience.
    pub(super) fn stop(&self, member: &Member) -> Decided {
        match member.history.stop_requested_at {
            _ if !member.restart_is_off() => T3.act(Step::set_policy(member, "no")),
            None => T4.act(Step::stop(member, member.stop_timeout)),
            Some(asked) if self.is_overdue(member, asked) => T5.act(Step::stop(member, Duration::ZERO)),
            Some(asked) => T6.wait(stopping(member, asked), self.next_check(member, asked)),
        }
    }

    pub(super) fn is_overdue(&self, member: &Member, asked: DateTime<Utc>) -> bool {
        self.now > asked + span(member.stop_timeout) + STOP_SLACK
    }

    /// Often at first, every ten seconds later; and at the deadline, and when it is overdue.
    pub(super) fn next_check(&self, member: &Member, asked: DateTime<Utc>) -> DateTime<Utc> {
        let elapsed = (self.now - asked).max(TimeDelta::zero());
        let pause = (elapsed / 10).clamp(TimeDelta::milliseconds(500), TimeDelta::seconds(10));
        let deadline = asked + span(member.stop_timeout);
        let overdue = deadline + STOP_SLACK + TimeDelta::milliseconds(1);
        let due = [deadline, overdue]
            .into_iter()
            .filter(|moment| *moment > self.now);
        due.fold(self.now + pause, DateTime::min)
    }

    pub(super) fn wait_for_removal(&self, member: &Member) -> Decided {
        let name = member.name.clone();
        if member.removal_is_stuck(self.now) {
            W1.rest(Reason::RemovalStuck { name })
        } else {
            W2.wait(Reason::Stopping { name }, self.now + TimeDelta::seconds(1))
        }
    }
}

fn stopping(member: &Member, asked: DateTime<Utc>) -> Reason {
    let name = member.name.clone();
    match member.role {
        Role::Draining { .. } => Reason::Draining {
            name,
            tasks: member.work.map(|work| work.tasks),
            until: asked + span(member.stop_timeout),
        },
        _ => Reason::Stopping { name },
    }
}
