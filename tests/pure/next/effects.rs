//! What an engine makes of each step: the scene that follows.

use delegate_upgrader::container::RunState;
use delegate_upgrader::container::{ContainerId, Role};
use delegate_upgrader::health::HealthStatus;
use delegate_upgrader::rollout::{Desired, Intent, Member, Step};

use super::combinations::mark;
use super::scene::{Change, Scene, helper, image_id, new, now, old, standby};

impl Scene {
    /// Changes the scene as an engine would.
    pub(super) fn take(&mut self, step: &Step) {
        let moment = now();
        let rollout = &mut self.rollout;
        match step {
            Step::NoteFirstSeen { .. } => {
                if let Some(Ok(holds)) = &mut self.facts.holds {
                    holds.first_seen = Some(moment);
                }
            }
            Step::Pull { reference } => {
                self.desired = Desired::Image {
                    reference: reference.clone(),
                    id: Some(image_id(&reference.to_string())),
                    intent: Intent::Upgrade,
                };
            }
            Step::Create { from, reference, .. } => {
                let mut member = new()
                    .id("created")
                    .image(&reference.to_string())
                    .replaces(from.as_str());
                member.created_at = moment;
                // As its label has it.
                let policy = rollout.member(from).map(|old| {
                    let taken = old.history.original_policy.as_ref();
                    taken.unwrap_or(&old.restart_policy).clone()
                });
                member.predecessor_policy = policy;
                member.role = Role::Candidate;
                member.name = Role::Candidate.name("d");
                rollout.candidate = Some(member);
            }
            Step::CreateHelper { .. } => {
                assert!(rollout.helper.is_none(), "two helpers");
                let made = helper().id("made-helper").created();
                *self = self.clone().helper(made);
            }
            Step::CreateStandby { from } => {
                let made = standby().replaces(from.as_str());
                *self = self.clone().standby(made);
            }
            Step::Recreate { from } => {
                let made = old()
                    .id("recreated")
                    .replaces(from.as_str())
                    .auto_remove()
                    .created();
                *self = self.clone().candidate(made);
            }
            Step::CreateAttemptMarker { candidate, .. } => {
                assert!(rollout.attempt.is_none(), "two attempts");
                let tried = rollout.member(candidate).unwrap();
                let made = mark().id("made-mark").change(|m| {
                    m.created_at = moment;
                    m.image_id = tried.image_id.clone();
                    m.replaces.clone_from(&tried.replaces);
                    m.release = tried.release;
                });
                *self = self.clone().attempt(made);
            }
            Step::Start { id, .. } => {
                let (seen, health) = (Some(moment), HealthStatus::Starting);
                change(self, id, |member| {
                    member.state = RunState::Running;
                    member.started_at = seen;
                    member.health.status = health;
                    member.history.seen_since = seen;
                    member.history.unhealthy_since = seen;
                    member.history.healthy_since = None;
                    member.history.stop_requested_at = None;
                });
            }
            Step::Retire { id, to }
            | Step::Withdraw { id, to, .. }
            | Step::Rename { id, to }
            | Step::Promote { id, to }
            | Step::Reject { id, to, .. }
            | Step::SetAside { id, to, .. }
            | Step::Restore { id, to } => self.rename(id, to),
            Step::SetRestartPolicy { id, policy, .. } => {
                change(self, id, |member| policy.clone_into(&mut member.restart_policy));
            }
            Step::Stop { id, .. } => change(self, id, |member| {
                member.history.stop_requested_at = Some(moment);
                if member.state == RunState::Restarting {
                    member.state = RunState::Exited;
                    member.finished_at = Some(moment);
                }
            }),
            Step::Restart { id, grace, .. } => change(self, id, |member| {
                member.history.checks.note_restart(moment, *grace);
                member.started_at = Some(moment);
            }),
            Step::Remove { id, .. } => {
                self.pull_out(id);
            }
            Step::RemoveImage { id } => {
                for old in rollout.draining.iter_mut().chain(&mut rollout.standby) {
                    old.previous_image_id = old.previous_image_id.take().filter(|image| image != id);
                }
            }
        }
    }

    fn pull_out(&mut self, id: &ContainerId) -> Member {
        let rollout = &mut self.rollout;
        let slots = [&mut rollout.serving, &mut rollout.candidate, &mut rollout.standby];
        for slot in slots
            .into_iter()
            .chain([&mut rollout.attempt, &mut rollout.helper])
        {
            if let Some(member) = slot.take_if(|member| member.id == *id) {
                return member;
            }
        }
        for members in [&mut rollout.draining, &mut rollout.withdrawn, &mut rollout.failed] {
            if let Some(index) = members.iter().position(|member| member.id == *id) {
                return members.remove(index);
            }
        }
        panic!("no {id}")
    }

    /// A name is a mutex.
    fn rename(&mut self, id: &ContainerId, to: &str) {
        assert!(self.members().all(|member| member.name != to), "{to} is taken");
        let mut member = self.pull_out(id);
        let (base, role) = Role::parse(to);
        assert_eq!(base, "d");
        member.role = role;
        to.clone_into(&mut member.name);
        let rollout = &mut self.rollout;
        match role {
            Role::Serving => assert!(rollout.serving.replace(member).is_none()),
            Role::Draining { .. } => rollout.draining.push(member),
            Role::Withdrawn { .. } => rollout.withdrawn.push(member),
            Role::Failed { .. } | Role::Inconclusive { .. } => rollout.failed.push(member),
            Role::Candidate => assert!(rollout.candidate.replace(member).is_none()),
            Role::Standby | Role::Attempt | Role::Helper { .. } => panic!("{to}"),
        }
        rollout
            .draining
            .sort_by_key(|member| (member.role, member.created_at));
        rollout
            .failed
            .sort_by_key(|member| (member.created_at, member.role));
    }
}

pub(super) fn change(scene: &mut Scene, id: &ContainerId, change: impl FnOnce(&mut Member)) {
    let rollout = &mut scene.rollout;
    let member = rollout
        .serving
        .iter_mut()
        .chain(&mut rollout.candidate)
        .chain(&mut rollout.standby)
        .chain(&mut rollout.helper)
        .chain(&mut rollout.draining)
        .chain(&mut rollout.withdrawn)
        .chain(&mut rollout.failed)
        .find(|member| member.id == *id)
        .unwrap();
    change(member);
}
