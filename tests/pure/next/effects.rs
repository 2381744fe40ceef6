//! The effects of a step on an engine, and of time on the containers.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use delegate_upgrader::container::{ContainerId, Role, RunState};
use delegate_upgrader::health::HealthStatus;
use delegate_upgrader::rollout::{Desired, Fact, Intent, Member, Reach, RememberedImage, Step};

use super::scene::{Change, STOP_TIMEOUT, Scene, V1, copy, holds, image_id, new, now, verdict};

/// The duration of a container's tasks, in seconds.
const TASKS: i64 = 20;
/// The time until a delegate is healthy, in seconds.
const BOOT: i64 = 5;

/// The fate of containers with an image other than V1 once they are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Works,
    NeverHealthy,
    Crashes,
}

impl Scene {
    /// Learns a fact.
    pub(super) fn learn(&mut self, fact: &Fact) {
        let facts = &mut self.facts;
        match fact {
            Fact::FreeMemory => facts.free_memory = Some(Ok(())),
            Fact::HiddenObstacle => facts.hidden_obstacle = Some(Ok(())),
            Fact::ManagerReachable { .. } => facts.manager = Some(Reach::Reachable),
            Fact::Holds => facts.holds = Some(Ok(holds())),
            Fact::Health { container } => {
                let moment = self.now;
                self.change_member(container, |m| m.history.checks.last_at = Some(moment));
            }
        }
    }

    /// Changes the containers as an engine would.
    pub(super) fn take(&mut self, step: &Step) {
        let moment = self.now;
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
            Step::Create {
                from,
                reference,
                release,
                ..
            } => {
                let old = self.member(from);
                let made = new()
                    .id("created")
                    .image(&reference.to_string())
                    .replaces(from.as_str())
                    .change(|m| {
                        m.fingerprint = Some(old.settings.clone());
                        m.previous = Some(RememberedImage {
                            reference: old.image.clone(),
                            id: old.image_id.clone(),
                        });
                        (m.release, m.previous_release) = (*release, old.release);
                        m.created_at = moment;
                        (m.history.comparison, m.history.trial) = (None, None);
                    });
                self.facts.has_created = true;
                *self = self.clone().candidate(made);
            }
            Step::Prepare { id, .. } => self.change_member(id, |m| m.history.comparison = Some(Ok(()))),
            Step::TryStart { id, .. } => self.change_member(id, |m| m.history.trial = Some(Ok(()))),
            Step::Recreate { from, image } => {
                let original = self.member(from);
                let made = copy().id("recreated").replaces(from.as_str()).change(|m| {
                    let own = RememberedImage {
                        reference: original.image.clone(),
                        id: original.image_id.clone(),
                    };
                    let image = image.clone().unwrap_or(own);
                    (m.image, m.image_id, m.created_at) = (image.reference, image.id, moment);
                    m.emulates_auto_remove = original.vanishes || original.emulates_auto_remove;
                });
                *self = self.clone().serving(made);
            }
            Step::Keep { from, .. } => {
                let kept = new()
                    .id("former")
                    .replaces(from.as_str())
                    .change(|m| m.state = RunState::Created);
                *self = self.clone().former(kept);
            }
            Step::CreateHelper { .. } => panic!("no scene here is of an upgrader"),
            Step::Start { id, .. } => self.change_member(id, |m| {
                m.state = RunState::Running;
                m.life.started_at = Some(moment);
                m.health = verdict(HealthStatus::Starting);
                m.history.seen_since = Some(moment);
                m.history.unhealthy_since = Some(moment);
                (m.history.healthy_since, m.history.stop_requested_at) = (None, None);
            }),
            Step::Retire { id, to }
            | Step::Drain { id, to }
            | Step::Withdraw { id, to, .. }
            | Step::Announce { id, to }
            | Step::Promote { id, to }
            | Step::Reject { id, to, .. }
            | Step::Restore { id, to } => self.rename(id, to),
            Step::SetRestartPolicy { id, policy, .. } => {
                self.change_member(id, |m| policy.clone_into(&mut m.restart_policy));
            }
            Step::Stop { id, grace, .. } => {
                let ends = grace.is_zero() || self.member(id).is_between_lives();
                self.change_member(id, |m| m.history.stop_requested_at = Some(moment));
                if ends {
                    self.end(id);
                }
            }
            Step::Restart { id, grace, .. } => self.change_member(id, |m| {
                m.history.checks.note_restart(moment, *grace);
                (m.life.started_at, m.history.checks.restart) = (Some(moment), None);
            }),
            Step::Remove { id, .. } => drop(self.pull_out(id)),
            Step::RemoveImage { id } => {
                let serving = self.rollout.serving.iter_mut().chain(&mut self.rollout.relatives);
                serving.for_each(|member| member.outdated_images.retain(|image| image != id));
            }
        }
    }

    /// Shortens the stop timeouts, so that no walk takes hours.
    pub(super) fn shorten_stops(&mut self) {
        let ids: Vec<ContainerId> = self.rollout.members().map(|member| member.id.clone()).collect();
        for id in ids {
            self.change_member(&id, |m| m.stop_timeout = Duration::from_secs(60));
        }
        for relative in &mut self.rollout.relatives {
            relative.stop_timeout = Duration::from_secs(60);
        }
    }

    /// Lets time pass, in which requested and started actions take place.
    pub(super) fn pass(&mut self, until: DateTime<Utc>, fate: Fate) {
        let since = std::mem::replace(&mut self.now, until);
        let free_for = self.facts.name_free_for + (until - since).to_std().unwrap();
        self.facts.name_free_for = if self.rollout.serving.is_none() {
            free_for
        } else {
            Duration::ZERO
        };
        let after = |from: Option<DateTime<Utc>>, seconds| {
            from.is_some_and(|from| until - from >= TimeDelta::seconds(seconds))
        };
        let members: Vec<Member> = self.rollout.members().cloned().collect();
        for member in members {
            let (id, started) = (&member.id, member.life.started_at);
            // A container that was asked long ago ignores the request.
            let asked = member
                .history
                .stop_requested_at
                .filter(|asked| since - *asked < TimeDelta::seconds(STOP_TIMEOUT));
            let is_young = started > Some(now() - TimeDelta::seconds(8));
            let is_good = fate == Fate::Works || member.image_id == image_id(V1);
            match member.state {
                RunState::Removing => drop(self.pull_out(id)),
                _ if member.is_up() && after(asked, TASKS) => self.end(id),
                RunState::Restarting => self.change_member(id, |m| {
                    m.state = RunState::Running;
                    (m.life.started_at, m.life.restart_count) = (Some(until), m.life.restart_count + 1);
                    m.history.stop_requested_at = None;
                }),
                RunState::Running
                    if member.role.is_candidate() && is_young && fate == Fate::Crashes && !is_good =>
                {
                    self.end(id);
                }
                RunState::Running if is_young && is_good && after(started, BOOT) && !member.works() => {
                    self.change_member(id, |m| {
                        m.health = verdict(HealthStatus::Healthy);
                        (m.history.healthy_since, m.history.unhealthy_since) = (Some(until), None);
                    });
                }
                _ => {}
            }
        }
        for id in self
            .rollout
            .members()
            .filter(|m| !m.works())
            .map(|m| m.id.clone())
            .collect::<Vec<_>>()
        {
            self.change_member(&id, |m| {
                m.history.unhealthy_since = m.history.unhealthy_since.or(Some(until));
            });
        }
    }

    fn end(&mut self, id: &ContainerId) {
        let moment = self.now;
        if self.member(id).vanishes {
            drop(self.pull_out(id));
            return;
        }
        self.change_member(id, |m| {
            m.state = RunState::Exited;
            m.life.finished_at = Some(moment);
            m.health = verdict(HealthStatus::Unhealthy);
            (m.history.healthy_since, m.history.stop_requested_at) = (None, None);
        });
    }

    fn change_member(&mut self, id: &ContainerId, change: impl FnOnce(&mut Member)) {
        let rollout = &mut self.rollout;
        let named = rollout
            .serving
            .iter_mut()
            .chain(&mut rollout.candidate)
            .chain(&mut rollout.helper);
        let others = rollout
            .old
            .iter_mut()
            .chain(&mut rollout.withdrawn)
            .chain(&mut rollout.failed);
        change(named.chain(others).find(|member| member.id == *id).unwrap());
    }

    fn pull_out(&mut self, id: &ContainerId) -> Member {
        let rollout = &mut self.rollout;
        for slot in [&mut rollout.serving, &mut rollout.candidate, &mut rollout.helper] {
            if let Some(member) = slot.take_if(|member| member.id == *id) {
                return member;
            }
        }
        for members in [&mut rollout.old, &mut rollout.withdrawn, &mut rollout.failed] {
            if let Some(index) = members.iter().position(|member| member.id == *id) {
                return members.remove(index);
            }
        }
        panic!("no {id}")
    }

    /// Every name is unique, and a container between two lives keeps its own.
    fn rename(&mut self, id: &ContainerId, to: &str) {
        assert!(
            self.rollout.members().all(|member| member.name != to),
            "{to} is taken"
        );
        assert!(!self.member(id).is_between_lives(), "{id} cannot be renamed");
        let mut member = self.pull_out(id);
        let (base, role) = Role::parse(to);
        assert_eq!(base, "d");
        member.role = role;
        to.clone_into(&mut member.name);
        let rollout = &mut self.rollout;
        match role {
            Role::Serving => assert!(rollout.serving.replace(member).is_none()),
            Role::Next => assert!(rollout.candidate.replace(member).is_none()),
            Role::Candidate | Role::Trial { .. } | Role::Helper { .. } | Role::Former => panic!("{to}"),
            Role::Retired | Role::Draining { .. } => rollout.old.push(member),
            Role::Withdrawn { .. } => rollout.withdrawn.push(member),
            Role::Failed { .. } => rollout.failed.push(member),
        }
        // Draining ones come first, in the order in which they are read.
        rollout
            .old
            .sort_by_key(|old| (old.role == Role::Retired, old.role));
        rollout
            .failed
            .sort_by_key(|failed| (failed.created_at, failed.role));
    }
}
