//! The containers of one delegate, by role.

use chrono::{DateTime, Utc};

use super::pace::COMPOSE_REPLACES;
use super::{Facts, Member, OwnerSettings};
use crate::container::{ContainerId, ImageId, OWN_WORKLOAD, Role, compose};
use crate::document::{Obstacle, SingleInstance};

/// All containers of the delegate `NAME`, by role.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rollout {
    /// `NAME`.
    pub name: String,
    /// The `DELEGATE_NAME` it is a replica of.
    pub workload: String,
    /// The container in service.
    pub serving: Option<Member>,
    /// The new container, not yet proven.
    pub candidate: Option<Member>,
    /// Old containers that gave up the name: draining ones, earliest first, then a retired one.
    pub old: Vec<Member>,
    /// Withdrawn candidates and leftover trials, earliest first.
    pub withdrawn: Vec<Member>,
    /// Rejected candidates, earliest first. More than one only briefly.
    pub failed: Vec<Member>,
    /// The settings before a change of these, in a container that was never started. During another change there are two.
    pub former: Vec<Member>,
    /// The helper, which replaces an upgrader that cannot run twice at once.
    pub helper: Option<Member>,
    /// The owner's settings from its labels.
    pub owner: OwnerSettings,
    /// Why it cannot run twice at once; `None` if it can.
    pub single_instance: Option<SingleInstance>,
    /// Why a second container would find no free host port now, if so. For plans only: a run just tries.
    pub no_free_port: Option<SingleInstance>,
    /// Names that its parts would need but other containers have.
    pub taken_names: Vec<String>,
    /// Delegates under another name that one of its containers was made from or was to replace: their owner renamed them.
    pub relatives: Vec<Member>,
    /// The images that any delegate of this host runs or may go back to.
    pub retained_images: Vec<ImageId>,
    /// Why something else on the host prevents replacing the container in service or, without one, starting the candidate.
    pub obstacle: Option<Obstacle>,
    /// The changes to the settings of the container to be replaced since the candidate was created; empty if unknown.
    pub changes: String,
    /// Why one of its containers could not be inspected. The delegate is left alone, since that state is unknown.
    pub inspect_error: Option<String>,
    /// Errors from inspecting leftovers, each with the container's name; the list of containers shows their state.
    pub unread: Vec<String>,
}

impl Rollout {
    /// Whether it is the upgrader itself.
    pub fn is_upgrader(&self) -> bool {
        self.workload == OWN_WORKLOAD
    }

    /// Whether it has Compose's temporary name and is about to be renamed or removed. Two minutes after the last change Compose
    /// has failed, and the container is the delegate.
    pub(super) fn is_replaced_by_compose(&self, now: DateTime<Utc>) -> bool {
        let changes = self.members().flat_map(|member| {
            let life = &member.life;
            [Some(member.created_at), life.started_at, life.finished_at]
        });
        let is_recent = |last: DateTime<Utc>| now - last < COMPOSE_REPLACES;
        compose::is_temporary_name(&self.name) && changes.flatten().max().is_some_and(is_recent)
    }

    /// Whether a replacement has to be finished.
    pub fn is_in_progress(&self) -> bool {
        self.candidate.is_some()
            || self.serving.is_none()
            || self.helper.is_some()
            || !self.old.is_empty()
            || !self.withdrawn.is_empty()
    }

    /// Whether a container with the delegate's name is up.
    pub fn is_served(&self) -> bool {
        self.serving.as_ref().is_some_and(Member::is_up)
    }

    /// Whether no container with the name is up, but an unfinished replacement will start one.
    pub(super) fn is_to_be_served(&self) -> bool {
        let is_copy = self
            .serving
            .as_ref()
            .is_some_and(|copy| copy.is_copy && copy.is_created());
        // If a container has the name, an old container that has ended only waits to be removed.
        let is_unfinished = |old: &Member| self.serving.is_none() || old.is_up();
        !self.is_served() && (self.candidate.is_some() || self.old.iter().any(is_unfinished) || is_copy)
    }

    /// Whether other replicas must wait: the candidate is unproven, or no container has the name. A drain does not count.
    pub fn blocks_replicas(&self) -> bool {
        self.candidate.is_some() || (self.serving.is_none() && !self.old.is_empty())
    }

    /// All its containers.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        let named = self.serving.iter().chain(&self.candidate).chain(&self.helper);
        let ended = self.withdrawn.iter().chain(&self.failed).chain(&self.former);
        named.chain(&self.old).chain(ended)
    }

    /// The number of the latest attempt at a replacement that its containers show; 0 if there was none.
    pub fn latest_release(&self) -> u64 {
        self.members()
            .map(|member| member.release)
            .max()
            .unwrap_or_default()
    }

    /// The number of the last attempt that succeeded; 0 if none did.
    pub fn successful_release(&self) -> u64 {
        match self.serving.as_ref().or(self.old.last()) {
            Some(member) => member.release,
            None => self
                .candidate
                .as_ref()
                .map_or(0, |candidate| candidate.previous_release),
        }
    }

    /// The member with this id.
    pub fn member(&self, id: &ContainerId) -> Option<&Member> {
        self.members().find(|member| member.id == *id)
    }

    /// The old container that this candidate replaces, or else the last one that gave up the name.
    pub(super) fn predecessor_of(&self, candidate: &Member) -> Option<&Member> {
        let mut old_ones = self.old.iter();
        old_ones
            .find(|old| candidate.is_successor_of(old))
            .or(self.old.last())
    }

    /// The container that keeps the settings of the one before this container.
    pub fn former_of(&self, successor: &Member) -> Option<&Member> {
        let mut former = self.former.iter();
        former.find(|former| former.replaces == successor.replaces)
    }

    /// The container in service if it was created to replace this one, or a relative that was.
    pub(super) fn successor_of<'a>(&'a self, old: &Member) -> Option<&'a Member> {
        let relatives = self.relatives.iter().filter(|other| other.is_up());
        let mut served = self.serving.iter().chain(relatives);
        served.find(|serving| serving.is_successor_of(old))
    }

    /// The container that the candidate was to replace, if its owner renamed it and it serves under the new name.
    pub(super) fn renamed_predecessor(&self) -> Option<&Member> {
        let candidate = self.candidate.as_ref()?;
        let mut relatives = self.relatives.iter();
        relatives.find(|other| candidate.is_successor_of(other) && other.is_up())
    }

    /// The withdrawn and rejected candidates, latest first.
    pub(crate) fn given_up(&self) -> impl Iterator<Item = &Member> {
        self.withdrawn.iter().rev().chain(self.failed.iter().rev())
    }

    /// Whether it is a leftover: another container serves, and this old or abandoned one will not return.
    pub fn is_left_over(&self, id: &ContainerId) -> bool {
        let ended = self.old.iter().filter(|old| !old.is_up());
        let mut left_over = ended.chain(self.given_up());
        self.serving.is_some() && left_over.any(|member| member.id == *id)
    }

    /// The name that a replacement needs but another container has.
    pub(super) fn name_conflict(&self) -> Option<String> {
        let helpers = [false, true].map(|is_ready| Role::Helper { is_ready });
        let helpers = helpers.into_iter().filter(|_| self.is_upgrader());
        let mut needed = [Role::Candidate, Role::Retired].into_iter().chain(helpers);
        let taken = needed.find(|role| self.is_taken(*role));
        taken.map(|role| role.name(&self.name))
    }

    /// The name of this role with this number or second, or with the first later one whose name is free.
    pub(super) fn numbered_name(&self, mut number: i64, role: impl Fn(i64) -> Role) -> String {
        while self.members().any(|other| other.role == role(number)) || self.is_taken(role(number)) {
            number += 1;
        }
        role(number).name(&self.name)
    }

    /// The name of this role, or the next free one if a leftover has it.
    pub(super) fn free_name(&self, role: Role) -> String {
        let name = role.name(&self.name);
        let beside = (2..=u32::MAX).map(|number| format!("{name}-{number}"));
        let is_free = |name: &String| self.members().all(|member| member.name != *name);
        let mut names = std::iter::once(name.clone()).chain(beside);
        names.find(is_free).unwrap_or(name)
    }

    /// Whether a container that is not ours has the name of this role.
    pub(super) fn is_taken(&self, role: Role) -> bool {
        self.taken_names.contains(&role.name(&self.name))
    }

    /// A former image beyond `KEEP_IMAGES`. Another replica may still need it.
    pub(super) fn outdated_image<'a>(&self, serving: &'a Member) -> Option<&'a ImageId> {
        let mut outdated = serving.outdated_images.iter();
        let is_used = |image: &ImageId| self.old.iter().any(|old| old.image_id == *image);
        outdated.find(|image| !is_used(image) && !self.retained_images.contains(image))
    }

    /// The member whose image may be replaced by the published one: the container in service, or a candidate that is alone.
    pub fn replaceable(&self) -> Option<&Member> {
        let alone = self.candidate.as_ref().filter(|_| self.old.is_empty());
        self.serving.as_ref().or(alone)
    }

    /// Containers that were asked to stop and still have a process, earliest first.
    pub fn finishing(&self) -> impl Iterator<Item = &Member> {
        let given_up = self.old.iter().chain(&self.withdrawn);
        given_up.filter(|member| member.is_up())
    }

    /// The member that represents the delegate in reports: the container in service, or else the one that should serve.
    pub fn representative(&self) -> Option<&Member> {
        self.serving
            .as_ref()
            .or_else(|| self.old.last())
            .or(self.candidate.as_ref())
    }

    /// The container that the delegate needs but that is missing: neither a candidate nor the old one can start.
    pub(super) fn missing_companion(&self) -> Option<&Obstacle> {
        let obstacle = self.obstacle.as_ref();
        obstacle.filter(|obstacle| matches!(obstacle, Obstacle::DependencyMissing { .. }))
    }

    /// Why the container in service cannot be replaced.
    pub(super) fn obstacle<'a>(&'a self, facts: &'a Facts) -> Option<&'a Obstacle> {
        let hidden = facts.hidden_obstacle.as_ref();
        let hidden = hidden.and_then(|hidden| hidden.as_ref().err());
        self.obstacle.as_ref().or(hidden)
    }
}
