//! Restoring the old one (O), which comes back, from itself.

use chrono::{DateTime, Utc};

use super::{At, RESTART_DELAY};
use crate::container::RunState;
use crate::rollout::Row::{O1, O2, O3, O4, O5, O6, O7, O8, O9, O10};
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Fact, Member, START_ATTEMPTS, Step, StoppedBy};

impl At<'_> {
    pub(super) fn restoring(&self, old: &Member) -> Decided {
        // After the clock was set back, only the order is certain.
        let never_lived_together =
            |other: &&Member| self.is_stop_first() || other.started_at > old.finished_at;
        let in_the_way = self
            .rollout
            .given_up()
            .filter(|other| other.is_up())
            .find(never_lived_together);
        let successor = self.rollout.given_up().find(|other| other.is_successor_of(old));
        let label = successor.and_then(|successor| successor.predecessor_policy.as_ref());
        // Somebody may have set another one since the label was written.
        let policy = old.history.original_policy.as_ref().or(label);
        let owed = policy.filter(|policy| old.restart_is_off() && **policy != old.restart_policy);
        let restarted = old.restarted_since_retired(successor);
        // It may have been asked to stop, and then it will: only a new life brings it back, or its standby.
        let asked_by = old.stopped_by(self.now);
        let asked = old.history.stop_requested_at.is_some();
        // Somebody may have given it a policy since it was asked to stop.
        let is_told = asked_by == Some(StoppedBy::Somebody);
        let may_have_been_asked = is_told || !restarted && (old.restart_is_off() || asked);
        // What this process asked of its life before may have reached this one, after somebody's `docker restart`.
        let lives_again = restarted && old.history.restarted_since_stop;
        // What somebody else began may have been asked to stop by a process that is gone.
        let is_our_life = restarted && old.history.restarted_by_us;
        let is_in_doubt = old.is_up() && (!is_our_life || lives_again) && self.is_safe_to_stop(old);
        // Beside one that it cannot run beside it may fail, and no policy would bring it back.
        let may_fail = restarted && self.is_stop_first() && owed.is_none() && old.restart_is_off();
        match (&old.state, in_the_way, owed) {
            (_, Some(other), _) if !old.is_up() || may_fail => O1.see(self.wait_for_removal(other)),
            _ if is_in_doubt && asked_by.is_none() => O2.learn(Fact::StoppedBy {
                container: old.id.clone(),
            }),
            _ if is_in_doubt && may_have_been_asked && !self.is_untouched(old) => O3.see(
                // A new name would say that it was asked to stop now.
                if old.restart_is_off() || asked {
                    self.drain(old)
                } else {
                    self.stop(old)
                },
            ),
            (RunState::Removing, ..) => O4.see(self.wait_for_removal(old)),
            (_, _, Some(policy)) => O5.act(Step::set_policy(old, policy)),
            _ if let Some(until) = self.may_have_collided(old).filter(|_| may_fail) => {
                let name = old.name.clone();
                O6.wait(Reason::Stopping { name }, until)
            }
            _ if old.is_up() => O7.act(Step::restore(self.rollout, old)),
            // It has its old life back; its policy decides on the next. That somebody else started it only the clock
            // could say, which is not enough to leave it as it is.
            _ if is_our_life && !self.found_its_port_taken(old) => O8.act(Step::restore(self.rollout, old)),
            // An engine that was killed in the middle of a start may never be able to start that container again.
            _ if old.history.failed_starts >= START_ATTEMPTS && !self.copy_failed_too(old) => {
                O9.act(Step::Recreate { from: old.id.clone() })
            }
            _ => O10.act(Step::start(old)),
        }
    }

    /// Until when one that somebody started may still end for want of a port: the candidate may have had it. When this
    /// process starts one, nothing is in its way.
    pub(super) fn may_have_collided(&self, other: &Member) -> Option<DateTime<Utc>> {
        let by_somebody = self.is_stop_first() && other.is_up() && !other.history.restarted_by_us;
        let until = other.history.seen_since.filter(|_| by_somebody)? + RESTART_DELAY;
        (until > self.now).then_some(until)
    }

    /// Whether somebody started the candidate that was given up in the moment in which this process started the old one,
    /// which cannot run beside it. A clock that was set back says nothing.
    fn found_its_port_taken(&self, old: &Member) -> bool {
        let lived_meanwhile = |other: &Member| {
            other.started_at.is_some()
                && other.started_at < old.finished_at
                && old.started_at < other.finished_at
                && other.finished_at <= Some(self.now)
        };
        self.is_stop_first() && self.rollout.given_up().any(lived_meanwhile)
    }

    /// Whether nobody has asked it to stop since it gave up its name, as the engine tells.
    fn is_untouched(&self, old: &Member) -> bool {
        old.history.stop_requested_at.is_none() && old.stopped_by(self.now) == Some(StoppedBy::Nobody)
    }

    /// Whether something of it is left when it stops: itself, or its standby, which can still be created.
    fn is_safe_to_stop(&self, old: &Member) -> bool {
        let standby = self.rollout.standby.as_ref();
        !old.auto_remove || standby.is_none_or(|standby| standby.is_successor_of(old))
    }

    /// A copy that failed like the old one itself says that the fault is not with the container.
    fn copy_failed_too(&self, old: &Member) -> bool {
        let is_copy = |other: &Member| other.is_successor_of(old) && other.image_id == old.image_id;
        self.rollout.given_up().any(is_copy)
    }
}
