//! Nobody holds the name and nobody is about to take it: the old one comes back.

use super::stopping::{set_policy, waiting};
use super::{At, can_come_back, start, timestamp};
use crate::container::Role;
use crate::container::RunState;
use crate::rollout::reason::Reason;
use crate::rollout::{Decision, Member, START_ATTEMPTS, Step};

impl At<'_> {
    /// The one that a rejected or withdrawn candidate was to replace, else the last one that was retired. One that
    /// vanishes by stopping has its standby.
    pub(super) fn bring_back(&self) -> Decision {
        let old_ones = &self.rollout.draining;
        let replaced = |old: &&Member| self.given_up().any(|other| other.is_successor_of(old));
        let old = old_ones.iter().rev().find(replaced).or(old_ones.last());
        match (old, &self.rollout.standby) {
            (Some(old), Some(standby)) if old.auto_remove && !old.is_up() => self.restore_from(standby),
            (Some(old), _) => self.restore(old),
            (None, Some(standby)) => self.restore_from(standby),
            (None, None) => Decision::Rest(Reason::NoContainer),
        }
    }

    /// Rejected and withdrawn candidates, the last one first.
    fn given_up(&self) -> impl Iterator<Item = &Member> {
        self.rollout
            .withdrawn
            .iter()
            .rev()
            .chain(self.rollout.failed.iter().rev())
    }

    /// No successor: the old one comes back, from itself.
    fn restore(&self, old: &Member) -> Decision {
        let mut pending = None;
        if !old.is_up()
            && let Some(other) = self
                .given_up()
                .find(|other| other.is_up() && (self.is_stop_first() || other.started_at > old.finished_at))
        {
            // Started only when the old one had stopped: the two may not live at once. By a clock that was set back
            // only the approach tells.
            return self.until_gone(other);
        }
        let twin = self.given_up().find(|other| other.is_successor_of(old));
        let policy = twin
            .and_then(|twin| twin.predecessor_policy.as_ref())
            .or(old.history.original_policy.as_ref());
        let set_policy = || {
            policy
                .filter(|policy| old.restart_is_off() && **policy != old.restart_policy)
                .map(|policy| set_policy(old, policy))
        };
        // The life that the rollout ended began before its name was given up, and before the candidate was made: the
        // one is read from its name, to the second, the other from the engine's own clock. An engine that restarted, or
        // a crash, may have begun another life in between, and that one was ended too.
        let retired = match old.role {
            Role::Draining { since } => Some(timestamp(since + 1)),
            _ => None,
        };
        let begun = twin.map(|twin| twin.created_at).max(retired);
        let restarted = old.history.stop_requested_at.is_none()
            && (old.history.restarted_since_stop || begun.is_some_and(|begun| old.started_at > Some(begun)));
        let take_back = || {
            Decision::Act(Step::Restore {
                id: old.id.clone(),
                to: self.rollout.name.clone(),
            })
        };
        if old.is_up() {
            let may_be_told = old.restart_is_off() && !restarted;
            if may_be_told && let Some(step) = self.copy_of(old) {
                return step;
            }
            if may_be_told && (can_come_back(old) || self.has_standby(old)) {
                // It may have been told to stop, and then it will: only a new life brings it back,
                // or its standby.
                return match self.drain(old, &mut pending) {
                    Some(step) => step,
                    None => waiting(pending, self.now),
                };
            }
            return set_policy().unwrap_or_else(take_back);
        }
        if old.state == RunState::Removing {
            return self.until_gone(old);
        }
        // A copy of it that failed like itself says that the fault is not with the container.
        let is_copy = |other: &Member| other.is_successor_of(old) && other.image_id == old.image_id;
        let copied = self.given_up().any(is_copy);
        // One that this process has started, and that has ended by itself since, has its old life back; its policy decides
        // on the next. Who else may have started it only the clock tells, which is not enough to leave it as it is.
        set_policy().unwrap_or_else(|| {
            if restarted && old.history.restarted_by_us {
                take_back()
            } else if old.history.failed_starts >= START_ATTEMPTS && !copied {
                // An engine that was killed in the middle of a start may never be able to start that container again.
                Decision::Act(Step::Recreate { from: old.id.clone() })
            } else {
                start(old)
            }
        })
    }
}
