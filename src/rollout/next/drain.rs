//! Draining containers behind a successor (D).

use super::stop::STOP_SLACK;
use super::{At, RESTART_DELAY, span, successor_unhealthy};
use crate::container::RunState;
use crate::rollout::Row::{D1, D2, D3, D4, D5, D6, D7};
use crate::rollout::{CandidateFailure, Condition, Decided, FailureCause, Member, Step};

impl At<'_> {
    /// The one in service gives the name back to an old one that is still there, or can still come back.
    pub(super) fn lost_successor(&self) -> Option<Decided> {
        let serving = self.rollout.serving.as_ref()?;
        let comes_back =
            |old: &&Member| old.can_come_back() || (old.is_up() && self.rollout.has_standby(old));
        let mut old_ones = self.rollout.draining.iter().filter(comes_back);
        let old = old_ones.find(|old| serving.is_successor_of(old))?;
        let failure = self.lost_after_commit(serving, Some(old))?;
        Some(D1.see(self.fail(serving, failure)))
    }

    /// Each old one behind the one in service, the earliest first.
    pub(super) fn drain_predecessors(&self) -> impl Iterator<Item = Decided> {
        let serving = self.rollout.serving.iter();
        serving.flat_map(|serving| {
            let old_ones = self.rollout.draining.iter();
            old_ones.filter_map(|old| self.behind_a_successor(serving, old))
        })
    }

    fn behind_a_successor(&self, serving: &Member, old: &Member) -> Option<Decided> {
        let was_asked_to_stop = old.history.stop_requested_at.is_some();
        let lost = serving
            .history
            .unhealthy_since
            .filter(|since| *since <= self.healthy_deadline_ago());
        let is_stranger = !serving.is_successor_of(old);
        Some(match old.state {
            _ if old.is_up() && (serving.works() || was_asked_to_stop) => D2.see(self.drain(old)),
            // It holds up nothing.
            _ if old.removal_is_stuck(self.now) => return None,
            RunState::Removing => D3.see(self.wait_for_removal(old)),
            _ if !serving.works() && is_stranger && lost.is_some() => D4.rest(successor_unhealthy(serving)),
            _ if !serving.works() => D5.wait(successor_unhealthy(serving), self.now + self.proof_interval()),
            _ => match self.rollout.outdated_image(serving, old) {
                _ if self.names_a_renamed_one(old) => return None,
                Some(id) => D6.act(Step::RemoveImage { id }),
                None => D7.act(Step::remove(old)),
            },
        })
    }

    /// Whether only its label says that one which somebody gave another name drains here, too.
    fn names_a_renamed_one(&self, old: &Member) -> bool {
        let is_renamed = |other: &Member| other.name != other.role.name(&self.rollout.name);
        let mut others = self.rollout.draining.iter();
        others
            .any(|other| old.is_successor_of(other) && is_renamed(other) && !other.removal_is_stuck(self.now))
    }

    /// Whether another process may have asked this old one to stop: it took the policy off, and the time that the old
    /// one had since then is not over.
    fn was_asked_by_another_process(&self, old: &Member) -> bool {
        let is_by_another = old.restart_is_off() && old.history.original_policy.is_none();
        let ends = old.retired_at().map(|retired| retired + span(old.stop_timeout));
        is_by_another && ends.is_some_and(|ends| self.now <= ends + STOP_SLACK)
    }

    /// Why the successor in service must give the name back, if it must.
    pub(super) fn lost_after_commit(
        &self,
        serving: &Member,
        old: Option<&Member>,
    ) -> Option<CandidateFailure> {
        let too_long_ago = self.healthy_deadline_ago();
        // An engine that does not get to its removal says as little about the image as one that removes it at once.
        let ended_before = |moment| serving.finished_at.is_some_and(|finished| finished < moment);
        let is_left_over = serving.state == RunState::Removing && ended_before(self.now - RESTART_DELAY);
        if serving.has_ended() || is_left_over || self.is_paused(serving) {
            let ending = serving.end();
            return (!self.may_be_restarting(serving)).then(|| {
                CandidateFailure::of(serving, FailureCause::EndedAfterCommit { ending }, too_long_ago)
            });
        }
        // An old one that finishes its tasks takes no new ones, and cannot serve before it has ended. To stop an
        // unhealthy successor before that would leave no delegate at all, and the Manager may be to blame.
        let had_a_policy = serving.predecessor_policy.as_deref() != Some("no");
        let is_finishing = |old: &Member| {
            old.is_up()
                && (old.history.stop_requested_at.is_some()
                    || (had_a_policy && self.was_asked_by_another_process(old)))
        };
        let since = serving
            .history
            .unhealthy_since
            .filter(|since| *since <= too_long_ago)?;
        // That its predecessor did no better excuses it for ever, and after that time the old one takes over again.
        let did_no_better = serving.predecessor_condition != Condition::Working;
        let lasts = did_no_better && since <= too_long_ago - span(self.policy.healthy_deadline);
        let waits = serving.history.had_common_cause_since(too_long_ago) && !lasts;
        if old.is_some_and(is_finishing) || waits {
            return None;
        }
        let cause = FailureCause::UnhealthyAfterCommit {
            lasting: (self.now - since).to_std().unwrap_or_default(),
            health: serving.health.detail.clone(),
        };
        Some(CandidateFailure::of(serving, cause, too_long_ago))
    }
}
