//! Failed and withdrawn candidates, and attempt markers (F).

use chrono::TimeDelta;

use super::At;
use crate::container::RunState;
use crate::rollout::Row::{F1, F2, F3, F4, F5, F6, F7};
use crate::rollout::{CandidateFailure, Decided, Member, Step};

/// For how long a withdrawn candidate that has ended is left to those who asked it to stop.
const OTHERS_REMOVE_FIRST: TimeDelta = TimeDelta::seconds(3);

impl At<'_> {
    /// Those that are up are stopped as gently as delegates. Of the failed ones the last is kept, of the withdrawn ones none, and each
    /// that remembers the restart policy of an old one that is still to come back.
    pub(super) fn clean_up(&self) -> impl Iterator<Item = Decided> {
        let rollout = self.rollout;
        let (failed, withdrawn) = (&rollout.failed, &rollout.withdrawn);
        let up = failed.iter().chain(withdrawn).chain(&rollout.attempt);
        // Where somebody stopped it, the engine would start it again at its own next start.
        let comes_back = |member: &Member| member.has_ended() && !member.restart_is_off();
        let up = up.filter(move |member| member.is_up() || comes_back(member));
        // What was created with `--rm` goes by itself, in its own time.
        let is_vanishing = |member: &&Member| {
            let is_being_removed = member.state == RunState::Removing && !member.removal_is_stuck(self.now);
            is_being_removed || self.ended_just_now(member)
        };
        let vanishing = withdrawn.iter().filter(is_vanishing);
        // Somebody may have given it another name, and have started it, while its successor was being given up.
        let serving = rollout
            .serving
            .iter()
            .chain(&rollout.renamed_predecessor)
            .filter(|_| rollout.candidate.is_none());
        let pairs = serving.flat_map(|serving| rollout.given_up().map(move |other| (serving, other)));
        let owed = pairs.filter_map(|(serving, other)| self.restore_lost_policy(serving, other));
        let is_removable = |member: &&Member| member.is_removable();
        let is_done = move |member: &&Member| rollout.serving.is_some() || !rollout.remembers_policy(member);
        let superseded = failed.iter().rev().skip(1).rev();
        let superseded = superseded.filter(is_removable).filter(is_done);
        let done = withdrawn.iter().filter(is_removable).filter(is_done);
        let done = done.filter(|member| !self.ended_just_now(member));
        let needless = rollout.needless_attempt(self.is_stop_first(), self.now);
        let attempt = match (needless, rollout.vanished_attempt()) {
            (Some(attempt), _) => Some(F6.act(Step::remove(attempt))),
            (None, Some((attempt, cause))) => {
                let failure = CandidateFailure::of(attempt, cause, self.healthy_deadline_ago());
                Some(F7.see(self.fail(attempt, failure)))
            }
            (None, None) => None,
        };
        up.map(|member| F1.see(self.stop(member)))
            .chain(vanishing.map(|member| F2.see(self.wait_for_removal(member))))
            .chain(owed.map(|restore| F3.see(restore)))
            .chain(superseded.map(|member| F4.act(Step::remove(member))))
            .chain(done.map(|member| F5.act(Step::remove(member))))
            .chain(attempt)
            .chain(self.remove_helper())
    }

    /// `docker-compose up` removes what it has just stopped, and fails if the container is being removed already.
    fn ended_just_now(&self, member: &Member) -> bool {
        let since = member.finished_at.map(|at| self.now - at);
        member.has_ended()
            && since.is_some_and(|since| (TimeDelta::zero()..OTHERS_REMOVE_FIRST).contains(&since))
    }
}
