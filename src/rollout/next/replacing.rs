//! Side by side (C), giving up the name (G), a lost policy (L), and the name is free (N).

use chrono::{DateTime, TimeDelta, Utc};

use super::proof::Candidate;
use super::{At, span};
use crate::container::{Role, RunState};
use crate::document::Obstacle;
use crate::rollout::Row::{
    C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13, G1, G2, G3, G4, G5, G6, L1, L2, N1, N2, N3, N4,
    N5, N6, N7, N8, N9, N10, N11, N12, N13, N14, N15, N16,
};
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Desired, Fact, Member, Step, StoppedBy, UpdateOrder};

/// How often a delegate is asked whether it has a task to finish.
const IDLE_INTERVAL: TimeDelta = TimeDelta::seconds(1);

/// What the one in service is to its candidate.
#[derive(Clone, Copy)]
enum Serving {
    /// Its owner lets it run.
    InUse,
    /// It was between two lives, and was stopped to be retired: by this process, or by another one, which took its policy
    /// off. A `docker stop` does not.
    StoppedByUs,
    /// Its owner stopped it.
    StoppedByOwner,
}

impl Serving {
    fn of(serving: &Member, candidate: &Member) -> Self {
        let lost_its_policy = serving.restart_is_off() && candidate.predecessor_restarts().is_some();
        if serving.is_in_use() {
            Self::InUse
        } else if serving.has_ended() && (lost_its_policy || serving.history.stop_requested_at.is_some()) {
            Self::StoppedByUs
        } else {
            Self::StoppedByOwner
        }
    }
}

impl At<'_> {
    /// One in service, a candidate beside it.
    pub(super) fn side_by_side(&self, serving: &Member, candidate: &Member) -> Decided {
        // Nothing has been done to the one in service yet.
        let cannot_begin = candidate.is_created() && self.missing_companion().is_some();
        let is_wanted = candidate.is_successor_of(serving)
            && self.is_wanted(candidate)
            && !self.rollout.is_marked_as_rejected(candidate)
            && candidate.history.outdated.is_none()
            && !cannot_begin
            && !self.was_policy_taken_by_somebody(serving, candidate);
        let owed = self.restore_lost_policy(serving, candidate);
        let (row, proof) = self.prove(candidate, is_wanted);
        let decided = match (proof, Serving::of(serving, candidate), &self.order, owed) {
            (Candidate::Unwanted | Candidate::Failed(_), _, _, Some(restore)) => C1.see(restore),
            (Candidate::Unwanted, ..) => C2.see(self.withdraw(candidate, None)),
            (Candidate::Created | Candidate::Refused(_), Serving::StoppedByUs, ..) => {
                C3.act(Step::retire(self.rollout, serving, self.now))
            }
            (Candidate::Created | Candidate::Refused(_), Serving::StoppedByOwner, ..) => {
                C4.see(self.withdraw(candidate, None))
            }
            (Candidate::Refused(failure), ..) => C5.see(self.fail(candidate, failure)),
            (Candidate::Created, _, UpdateOrder::StartFirst, _) if self.facts.free_memory.is_none() => {
                C6.learn(Fact::FreeMemory)
            }
            (Candidate::Created, _, UpdateOrder::StartFirst, _) => {
                C7.after(self.mark_attempt(candidate), || Step::start(candidate))
            }
            (Candidate::Created, _, UpdateOrder::StopFirst, _)
                if let Some((tasks, until)) = self.tasks_to_wait_for(serving, candidate) =>
            {
                C8.wait(Reason::WaitingForIdle { tasks, until }, self.now + IDLE_INTERVAL)
            }
            (Candidate::Created, _, UpdateOrder::StopFirst, _) => {
                C9.see(self.give_up_name(serving, candidate))
            }
            (Candidate::Created, _, UpdateOrder::Blocked(_), _) => C10.see(self.withdraw(candidate, None)),
            (Candidate::Proven, ..) => C11.see(self.give_up_name(serving, candidate)),
            (Candidate::NotYet { reason, until }, ..) => C12.wait(reason, until),
            (Candidate::Failed(failure), ..) => C13.see(self.fail(candidate, failure)),
        };
        decided.noting(row)
    }

    /// Whether somebody took the policy of the one in service off after its candidate was created. Start-first, an upgrader
    /// does that only for a candidate that is proven.
    fn was_policy_taken_by_somebody(&self, serving: &Member, candidate: &Member) -> bool {
        let was_never_started = candidate.is_created() && !candidate.failed_to_start;
        let has_none = serving.restart_is_off() && !serving.auto_remove;
        let is_lost = has_none && candidate.predecessor_restarts().is_some();
        self.order == UpdateOrder::StartFirst
            && was_never_started
            && serving.is_in_use()
            && is_lost
            && serving.history.original_policy.is_none()
    }

    /// The tasks of the one in service, and until when its candidate waits for their end. A stop-first replacement keeps
    /// it from taking new ones until the candidate works, so the gap is as long as what it still has to finish. The
    /// wait begins with the candidate, which a restart of this process does not change.
    fn tasks_to_wait_for(&self, serving: &Member, candidate: &Member) -> Option<(u64, DateTime<Utc>)> {
        let tasks = serving.work.filter(|_| serving.state == RunState::Running)?.tasks;
        let until = candidate.created_at + span(self.policy.idle_wait);
        (tasks > 0 && self.now < until).then_some((tasks, until))
    }

    /// Whether the candidate has the image that is desired now. Where nothing is known of that, what was begun is
    /// finished.
    pub(super) fn is_wanted(&self, candidate: &Member) -> bool {
        match self.desired {
            // Another process rolls back from it.
            Desired::Image { reference, id, .. }
                if candidate.was_rolled_back_from(reference, id.as_ref()) =>
            {
                true
            }
            Desired::Image { id: Some(id), .. } => *id == candidate.image_id,
            Desired::Image {
                reference, id: None, ..
            } => candidate.runs(reference),
            Desired::Keep(Reason::UpToDate { .. } | Reason::SameImage { .. }) => {
                candidate.rolled_back_from.is_some()
            }
            Desired::Keep(_) => true,
        }
    }

    /// What its owner stops has to stay stopped, and Compose makes it anew under its name.
    ///
    /// A crashing one cannot be renamed between two lives, and is stopped first: its policy goes, which its candidate's
    /// label remembers.
    fn give_up_name(&self, serving: &Member, candidate: &Member) -> Decided {
        // It began another life before the stop request of that had reached it.
        let lives_on =
            serving.restart_is_off() && serving.restarts() > 0 && candidate.predecessor_restarts().is_some();
        let is_by_us = matches!(Serving::of(serving, candidate), Serving::StoppedByUs)
            || serving.history.stop_requested_at.is_some()
            || lives_on;
        let is_paused = serving.state == RunState::Paused;
        let asked: Vec<&Member> = [serving, candidate]
            .into_iter()
            .filter(|member| !(member.is_created() || is_by_us && member.id == serving.id))
            .collect();
        // Its standby may have taken a while: what was learned before that is asked again.
        let standby = self.rollout.standby.as_ref().map(|standby| standby.created_at);
        let standby = standby.filter(|created_at| *created_at <= self.now);
        let unknown = asked.iter().find(|member| {
            let stopper = member.history.stopper.as_ref();
            let is_old = stopper.is_some_and(|stopper| standby.is_some_and(|made| stopper.asked_at < made));
            is_old || member.stopped_by(self.now).is_none()
        });
        let is_asked = |member: &&Member| member.stopped_by(self.now) == Some(StoppedBy::Somebody);
        match (unknown, self.ensure_standby(serving)) {
            (Some(unknown), _) if !is_paused => G1.learn(Fact::StoppedBy {
                container: unknown.id.clone(),
            }),
            _ if is_paused || asked.iter().any(is_asked) => {
                G2.see(self.withdraw(candidate, Some(Reason::AskedToStop)))
            }
            _ if let Some(helper) = self.ensure_helper(serving, candidate) => helper,
            (_, Some(_)) if let Some(name) = &self.rollout.name_conflict => {
                let name = name.clone();
                G3.see(self.withdraw(candidate, Some(Reason::NameTaken { name })))
            }
            // A candidate that is withdrawn loses its marker first, so it gets none before that is decided.
            _ if candidate.is_created()
                && let Some(marked) = self.mark_attempt(candidate) =>
            {
                marked
            }
            (_, Some(standby)) => G4.see(standby),
            _ if serving.is_between_lives() => G5.see(self.stop(serving)),
            _ => G6.act(Step::retire(self.rollout, serving, self.now)),
        }
    }

    /// The policy that a crashing one lost when it was about to be retired, before the candidate that remembers it
    /// goes. Another process may have withdrawn that one meanwhile.
    pub(super) fn restore_lost_policy(&self, serving: &Member, candidate: &Member) -> Option<Decided> {
        // Somebody may have set another one since the label was written.
        let taken = serving.history.original_policy.as_deref();
        let policy = taken.or(candidate.predecessor_restarts())?;
        let by_us = match candidate.role {
            // Where it was given up since somebody changed the delegate, that may have been its policy.
            Role::Withdrawn { .. } => candidate.history.outdated.is_none(),
            // This process took it off, and somebody gave it another name while its successor was being given up.
            Role::Failed { .. } | Role::Inconclusive { .. } => {
                taken.is_some() || serving.was_restored_lately(candidate, self.now)
            }
            _ => {
                candidate.is_created() && self.is_stop_first()
                    || serving.has_ended()
                    || serving.history.original_policy.is_some()
            }
        };
        let is_lost = by_us && candidate.is_successor_of(serving) && serving.restart_is_off();
        // What it takes to come back is a life, and only then the policy that would tell it apart from one that its
        // owner stopped.
        match serving.has_ended() {
            _ if !is_lost => None,
            true if serving.name == self.rollout.name => {
                Some(L1.act(Step::retire(self.rollout, serving, self.now)))
            }
            _ => Some(give_back(serving, policy)),
        }
    }

    /// Nobody has the name: the candidate takes it once it is proven. Without an old one there is its standby.
    pub(super) fn name_is_free(&self, candidate: &Member, old: Option<&Member>) -> Decided {
        let settings_changed =
            candidate
                .history
                .outdated
                .as_ref()
                .map(|differences| Reason::SettingsChanged {
                    differences: differences.clone(),
                });
        // Its policy says that nobody has asked it to stop yet: what its owner paused stays so.
        let is_paused = |old: &Member| {
            let was_asked = old.restart_is_off() || old.history.stop_requested_at.is_some();
            old.state == RunState::Paused && !was_asked
        };
        let paused = (candidate.is_created() && old.is_some_and(is_paused)).then_some(Reason::AskedToStop);
        // Nobody would go on once it has stopped.
        let is_left_alone = candidate.is_created() && old.is_some_and(Member::is_up) && self.lacks_helper();
        let is_wanted = settings_changed.is_none()
            && paused.is_none()
            && !is_left_alone
            && !self.rollout.is_marked_as_rejected(candidate)
            && self.rollout.renamed_predecessor.is_none();
        let (row, proof) = self.prove(candidate, is_wanted);
        let is_asked = |old: &Member| old.is_up() && old.history.stop_requested_at.is_some();
        let missing = self.missing_companion().filter(|_| !old.is_some_and(is_asked));
        // Its settings go with it when it stops. The candidate can be compared only with the container that it was made from;
        // somebody may have made another one under that name.
        let vanishing = old.filter(|old| old.auto_remove && old.is_up() && candidate.is_created());
        let vanishing = vanishing.filter(|old| candidate.is_successor_of(old));
        let is_compared = |old: &Member| old.history.compared_settings == Some(old.settings);
        let outdated = vanishing.filter(|_| candidate.history.outdated.is_some());
        let renewed = outdated.and_then(|old| self.renew_standby(old, candidate));
        let decided = match (proof, old, missing) {
            (Candidate::Created | Candidate::Refused(_), ..)
                if vanishing.is_some_and(|old| !is_compared(old)) =>
            {
                N1.learn(Fact::ChangedSettings {
                    candidate: candidate.id.clone(),
                })
            }
            (Candidate::Unwanted, ..) if let Some(renewed) = renewed => renewed,
            (Candidate::Unwanted | Candidate::Refused(_), Some(old), _)
                if vanishing.is_some_and(is_asked) =>
            {
                N16.see(self.drain(old))
            }
            (Candidate::Unwanted, ..) => N4.see(self.let_go(candidate, settings_changed.or(paused))),
            (Candidate::Refused(failure), ..) => N5.see(self.fail(candidate, failure)),
            (Candidate::Created, Some(old), None) if old.is_up() => N6.see(self.drain(old)),
            // Stopped by somebody else, it would come back when the engine restarts.
            (Candidate::Created, Some(old), _) if !old.is_up() && !old.restart_is_off() => {
                N7.act(Step::set_policy(old, "no"))
            }
            (Candidate::Created, _, None) => N8.act(Step::start(candidate)),
            (Candidate::Created, _, Some(missing)) => N15.rest(Reason::Obstacle(missing.clone())),
            (_, Some(old), _) if !self.is_stop_first() && candidate.was_proven_before(old) => {
                N9.act(Step::promote(self.rollout, candidate))
            }
            (Candidate::Proven, ..) => match candidate.stopped_by(self.now) {
                None => N10.learn(Fact::StoppedBy {
                    container: candidate.id.clone(),
                }),
                Some(StoppedBy::Somebody) => N11.see(self.withdraw(candidate, Some(Reason::AskedToStop))),
                Some(_) => N12.act(Step::promote(self.rollout, candidate)),
            },
            (Candidate::NotYet { reason, until }, ..) => N13.wait(reason, until),
            (Candidate::Failed(failure), ..) => N14.see(self.fail(candidate, failure)),
        };
        decided.noting(row)
    }

    /// A candidate's label has the policy that was taken off the one it was to replace. Where somebody gave that one another
    /// name, it gets it back before the candidate goes.
    pub(super) fn let_go(&self, candidate: &Member, reason: Option<Reason>) -> Decided {
        let is_owed = |old: &&Member| {
            old.restart_is_off() && (self.is_stop_first() || old.history.original_policy.is_some())
        };
        let renamed = self.rollout.renamed_predecessor.as_ref().filter(is_owed);
        match (renamed, candidate.predecessor_restarts()) {
            (Some(old), Some(policy)) => give_back(old, policy),
            _ => self.withdraw(candidate, reason),
        }
    }

    /// What comes before an outdated candidate goes: a standby of the delegate as it is now.
    fn renew_standby(&self, old: &Member, candidate: &Member) -> Option<Decided> {
        match &self.rollout.standby {
            Some(standby) => {
                let is_outdated = match standby.history.copied_settings {
                    // By a clock that was set back, a new one is older, too.
                    Some(copied) => copied != old.settings,
                    None => standby.created_at < candidate.created_at,
                };
                is_outdated.then(|| N2.see(self.remove_copy(standby)))
            }
            None => Some(N3.act(Step::CreateStandby { from: old.id.clone() })),
        }
    }

    /// That a container which the delegate needs is not there: no candidate can be started, nor the old one again.
    fn missing_companion(&self) -> Option<&Obstacle> {
        let obstacle = self.rollout.obstacle.as_ref();
        obstacle.filter(|obstacle| matches!(obstacle, Obstacle::DependencyMissing { .. }))
    }
}

fn give_back(old: &Member, policy: &str) -> Decided {
    L2.act(Step::set_policy(old, policy))
}
