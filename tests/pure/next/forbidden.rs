//! What must never be decided, checked against the state in which it is decided.

use delegate_upgrader::container::RunState;
use delegate_upgrader::container::{ContainerId, Role};
use delegate_upgrader::rollout::{Member, Step, UpdateOrder};

use super::scene::{HEALTHY_TIME, Scene, ago};

impl Scene {
    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.rollout.members()
    }

    pub(super) fn member(&self, id: &ContainerId) -> &Member {
        self.members().find(|member| member.id == *id).unwrap()
    }

    fn successor_works(&self) -> bool {
        let works = |member: &Member| member.state == RunState::Running && member.health.is_healthy();
        self.rollout.serving.as_ref().is_some_and(works)
    }

    /// Whether a candidate waits for the old container to stop.
    fn is_stopping_first(&self) -> bool {
        let rollout = &self.rollout;
        rollout.serving.is_none() && rollout.candidate.as_ref().is_some_and(Member::is_created)
    }

    fn may_retire(&self, id: &ContainerId) -> bool {
        if self.member(id).role != Role::Serving {
            // It only gets a newer date.
            return true;
        }
        // It was stopped to be retired, and only the abandoned candidate remembers its policy.
        let member = self.member(id);
        let remembers = |other: &Member| {
            let policy = other.predecessor_policy.as_deref();
            other.replaces.as_ref() == Some(id) && policy.is_some_and(|policy| policy != "no")
        };
        let mut given_up = self.rollout.candidate.iter().chain(&self.rollout.withdrawn);
        if member.has_ended() && member.restart_is_off() && given_up.any(remembers) {
            return true;
        }
        let Some(candidate) = &self.rollout.candidate else {
            return false;
        };
        if candidate.replaces.as_ref() != Some(id) {
            return false;
        }
        let proven = candidate.state == RunState::Running
            && candidate.health.is_healthy()
            && candidate
                .history
                .healthy_since
                .is_some_and(|since| since <= ago(HEALTHY_TIME));
        let stop_first = candidate.is_created()
            && self.rollout.update_order(&self.policy, &self.facts) == UpdateOrder::StopFirst;
        let crashed = stop_first && self.member(id).has_ended();
        let comes_back = !self.member(id).auto_remove || self.rollout.standby.is_some();
        (proven || stop_first || crashed) && comes_back
    }

    /// Whether a container may lose its restart policy and be asked to stop.
    fn may_end(&self, id: &ContainerId) -> bool {
        let member = self.member(id);
        match member.role {
            Role::Failed { .. } | Role::Inconclusive { .. } | Role::Withdrawn { .. } => true,
            // A container between two lives can be renamed only once it has stopped.
            Role::Serving => {
                (self.may_reject(id) || self.may_retire(id)) && member.state == RunState::Restarting
            }
            Role::Candidate => self.has_others(),
            Role::Draining { .. } => {
                let standby = self.rollout.standby.as_ref();
                let comes_back =
                    !member.auto_remove || standby.is_some_and(|standby| standby.is_successor_of(member));
                let may_have_been_told = comes_back && member.restart_is_off();
                member.history.stop_requested_at.is_some()
                    || self.successor_works()
                    || self.is_stopping_first()
                    || may_have_been_told
            }
            // Someone else started it.
            Role::Standby => self.rollout.serving.is_some(),
            Role::Helper { .. } => self.may_lose_helper(),
            Role::Attempt => false,
        }
    }

    /// Whether nothing has to be finished for which the helper was made. One that was made for another candidate makes way.
    fn may_lose_helper(&self) -> bool {
        let rollout = &self.rollout;
        let is_of = |candidate: &Member| {
            let helper = rollout.helper.as_ref();
            helper.is_some_and(|helper| {
                helper.image_id == candidate.image_id && helper.replaces == candidate.replaces
            })
        };
        rollout.serving.is_some() && !rollout.candidate.as_ref().is_some_and(is_of)
    }

    /// Whether there are other containers than the candidate.
    fn has_others(&self) -> bool {
        let rollout = &self.rollout;
        rollout.serving.is_some() || rollout.standby.is_some() || !rollout.draining.is_empty()
    }

    fn may_reject(&self, id: &ContainerId) -> bool {
        let member = self.member(id);
        let comes_back = |old: &&Member| {
            Some(&old.id) == member.replaces.as_ref() && !old.auto_remove && old.state != RunState::Removing
        };
        match member.role {
            Role::Serving => {
                let standby = self.rollout.standby.as_ref();
                self.rollout.draining.iter().any(|old| comes_back(&old))
                    || standby.is_some_and(|standby| standby.replaces == member.replaces)
            }
            Role::Candidate => self.has_others(),
            // Its candidate is rejected with it, or is gone.
            Role::Attempt => {
                let tried = self.tried_by(member);
                tried.map_or(self.rollout.serving.is_some(), |tried| self.may_reject(&tried.id))
            }
            _ => false,
        }
    }

    /// The candidate that this attempt marker was made for.
    fn tried_by(&self, attempt: &Member) -> Option<&Member> {
        let rollout = &self.rollout;
        let mut candidates = rollout
            .candidate
            .iter()
            .chain(&rollout.serving)
            .chain(&rollout.withdrawn);
        candidates.find(|tried| tried.image_id == attempt.image_id && tried.replaces == attempt.replaces)
    }

    fn may_remove(&self, id: &ContainerId) -> bool {
        let member = self.member(id);
        let ended = matches!(
            member.state,
            RunState::Created | RunState::Exited | RunState::Dead
        );
        let needed = match member.role {
            Role::Serving => true,
            Role::Standby => {
                let rollout = &self.rollout;
                let not_touched = rollout.serving.as_ref().is_some_and(|serving| {
                    let ours = serving.is_successor_of(member) || serving.replaces == member.replaces;
                    !ours || serving.replaces.is_none()
                });
                !not_touched && !self.successor_works()
            }
            Role::Candidate => !self.has_others(),
            Role::Draining { .. } => !self.successor_works(),
            Role::Withdrawn { .. } | Role::Failed { .. } | Role::Inconclusive { .. } => false,
            Role::Helper { .. } => !self.may_lose_helper(),
            // What was tried and may be to blame is rejected instead.
            Role::Attempt => self.tried_by(member).is_none() && self.rollout.candidate.is_none(),
        };
        ended && !needed
    }

    /// Whether a step must not be decided in this state.
    pub(super) fn forbids(&self, step: &Step) -> bool {
        let rollout = &self.rollout;
        let allowed = match step {
            Step::CreateAttemptMarker { candidate, .. } => {
                rollout.attempt.is_none() && self.member(candidate).auto_remove
            }
            Step::NoteFirstSeen { .. } => rollout.candidate.is_none(),
            // The pull shows whether another image could replace the only container.
            Step::Pull { .. } if rollout.sole_candidate().is_some() => true,
            Step::Pull { .. } | Step::Create { .. } => {
                let vanishes = rollout
                    .serving
                    .as_ref()
                    .is_some_and(|serving| serving.auto_remove);
                rollout.candidate.is_none()
                    && rollout.serving.as_ref().is_some_and(Member::is_up)
                    && (matches!(step, Step::Pull { .. }) || !vanishes || rollout.standby.is_some())
            }
            Step::CreateHelper { from, .. } => {
                let serves = self.member(from).role == Role::Serving;
                rollout.helper.is_none() && rollout.candidate.is_some() && serves && rollout.is_upgrader()
            }
            Step::CreateStandby { from } => {
                rollout.standby.is_none() && self.member(from).auto_remove && self.member(from).is_up()
            }
            Step::Recreate { from } => {
                let up = |member: &Member| member.is_up() && member.role != Role::Standby;
                let alone = rollout.serving.is_none() && rollout.candidate.is_none();
                let beside = rollout.members().any(up);
                let broken = self.member(from).history.failed_starts > 0;
                let is_old = self.member(from).role == Role::Standby || broken;
                alone && is_old && !(beside && rollout.single_instance.is_some())
            }
            Step::Start { id, .. } => {
                let member = self.member(id);
                let restart = member.history.checks.restart.as_ref();
                let was_restarted = restart.is_some_and(|restart| restart.life == member.started_at);
                let owner_s = member.role == Role::Serving && !was_restarted;
                let replaced_by = |old: &Member| old.is_up() && member.replaces.as_ref() == Some(&old.id);
                let beside = rollout.serving.iter().chain(&rollout.draining).any(replaced_by);
                let two_at_once = rollout.single_instance.is_some() && beside;
                !member.is_up() && !owner_s && !two_at_once
            }
            Step::Retire { id, .. } => self.may_retire(id),
            Step::Rename { id, .. } => self.member(id).role == Role::Candidate,
            Step::Withdraw { id, because, .. } => {
                let member = self.member(id);
                let serving = member.role == Role::Serving && self.may_reject(id);
                let candidate = member.role == Role::Candidate && self.has_others();
                // It stands for a candidate that is gone.
                let marker = member.role == Role::Attempt;
                (serving || candidate || marker) && (member.is_up() || because.is_some())
            }
            Step::Promote { id, .. } => rollout.serving.is_none() && self.member(id).role == Role::Candidate,
            Step::Restore { id, .. } => {
                rollout.serving.is_none()
                    && rollout.candidate.is_none()
                    && matches!(self.member(id).role, Role::Draining { .. } | Role::Standby)
            }
            Step::Reject { id, .. } | Step::SetAside { id, .. } => self.may_reject(id),
            Step::SetRestartPolicy { id, policy, .. } => policy != "no" || self.may_end(id),
            Step::Stop { id, .. } => {
                let member = self.member(id);
                // Only the label of its successor keeps the policy, so the policy stays until the container is retired.
                let about_to_retire = member.role == Role::Serving && self.may_retire(id);
                self.may_end(id) && (member.restart_is_off() || about_to_retire) && member.is_up()
            }
            Step::Restart { id, .. } => {
                let member = self.member(id);
                let has_failed = member.state == RunState::Running && !member.health.is_healthy();
                has_failed && member.role == Role::Serving && !rollout.is_in_progress()
            }
            Step::Remove { id, .. } => self.may_remove(id),
            Step::RemoveImage { id } => {
                self.successor_works() && rollout.serving.iter().all(|member| member.image_id != *id)
            }
        };
        !allowed
    }
}
