//! The replacement of one delegate, read from Docker's own state.
//!
//! There is no state file: `Rollout` is read from container names, labels and states at every observation, [`next`]
//! decides what to do about it, and [`execute`] takes the step. What a restart of this program loses ([`History`]) is
//! only how long something has been watched, never what was done.

mod blockers;
mod call_backoff;
mod checks;
mod circumstances;
mod decided;
mod decision;
mod execute;
mod facts;
mod failure;
mod failure_cause;
mod member;
mod memory;
mod next;
mod owner;
pub(crate) mod pace;
mod quarantine;
pub mod reason;
mod restart_deferral;
mod row;
mod start_of_container;
mod step;
pub(crate) mod wanted;
mod work_seen;

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

pub use blockers::{Blocker, BlockerKind, RunFacts, table as blocker_table};
pub(crate) use blockers::{BlockerRow, Start, Surroundings};
pub(crate) use call_backoff::INSPECT;
pub use call_backoff::{Backoff, Backoffs};
pub use checks::{Checks, RequestedRestart};
pub use decided::Decided;
pub use decision::{Decision, Fact};
pub use execute::{Effect, PullState, Pulled, Pulls, execute, image_of};
pub use facts::{Facts, Reach};
pub use failure::Failure;
pub use failure_cause::{FailureCause, Rejection};
pub use member::{AutoRemove, Life, Member, RememberedImage, StopTimeoutSource};
pub use memory::{Check, Comparison, History, Memory, RefusedStarts, Release, Seen};
pub use next::{next, rows_that_hold};
pub use owner::{InvalidLabel, OwnerSettings};
pub use quarantine::quarantine;
pub use restart_deferral::RestartDeferral;
pub use row::Row;
pub(crate) use row::rows;
pub use step::Step;
pub use work_seen::WorkSeen;

use crate::config::{Timing, UpdateOrder};
use crate::container::{ContainerId, ImageId, OWN_WORKLOAD, Request, Role, compose};
use crate::document::{Obstacle, SingleInstance};
use crate::image::ImageReference;
use crate::rollout::pace::COMPOSE_REPLACES;
use crate::rollout::reason::Reason;

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
    fn is_replaced_by_compose(&self, now: DateTime<Utc>) -> bool {
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

    /// Whether a container with the name is up.
    pub fn is_served(&self) -> bool {
        self.serving.as_ref().is_some_and(Member::is_up)
    }

    /// Whether no container with the name is up, but an unfinished replacement will start one.
    fn is_to_be_served(&self) -> bool {
        let is_copy = self
            .serving
            .as_ref()
            .is_some_and(|copy| copy.is_copy && copy.is_created());
        // If a container has the name, an old one that has ended only waits to be removed.
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
        named.chain(&self.old).chain(&self.withdrawn).chain(&self.failed)
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

    /// The candidate, if it is the only container.
    pub fn sole_candidate(&self) -> Option<&Member> {
        let others = self.serving.is_some() || !self.old.is_empty();
        self.candidate.as_ref().filter(|_| !others)
    }

    /// The old container that this candidate replaces, or else the last one that gave up the name.
    fn predecessor_of(&self, candidate: &Member) -> Option<&Member> {
        let mut old_ones = self.old.iter();
        old_ones
            .find(|old| candidate.is_successor_of(old))
            .or(self.old.last())
    }

    /// The container in service if it was created to replace this one, or a relative that was.
    fn successor_of<'a>(&'a self, old: &Member) -> Option<&'a Member> {
        let relatives = self.relatives.iter().filter(|other| other.is_up());
        let mut served = self.serving.iter().chain(relatives);
        served.find(|serving| serving.is_successor_of(old))
    }

    /// The container that the candidate was to replace, if its owner renamed it and it serves under the new name.
    fn renamed_predecessor(&self) -> Option<&Member> {
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
    fn name_conflict(&self) -> Option<String> {
        let mut needed = vec![Role::Candidate, Role::Retired];
        if self.is_upgrader() {
            needed.extend([false, true].map(|is_ready| Role::Helper { is_ready }));
        }
        needed
            .into_iter()
            .find(|role| self.is_taken(*role))
            .map(|role| role.name(&self.name))
    }

    /// The name of this role with this time in seconds, or with the first later second whose name is free.
    fn dated_name(&self, mut since: i64, role: impl Fn(i64) -> Role) -> String {
        while self.members().any(|other| other.role == role(since)) || self.is_taken(role(since)) {
            since += 1;
        }
        role(since).name(&self.name)
    }

    /// The name of this role, or the next free one if a leftover has it.
    fn free_name(&self, role: Role) -> String {
        let name = role.name(&self.name);
        let beside = (2..=u32::MAX).map(|number| format!("{name}-{number}"));
        let is_free = |name: &String| self.members().all(|member| member.name != *name);
        let mut names = std::iter::once(name.clone()).chain(beside);
        names.find(is_free).unwrap_or(name)
    }

    /// Whether a container that is not ours has the name of this role.
    fn is_taken(&self, role: Role) -> bool {
        self.taken_names.contains(&role.name(&self.name))
    }

    /// A former image beyond `KEEP_IMAGES`. Another replica may still need it.
    fn outdated_image<'a>(&self, serving: &'a Member) -> Option<&'a ImageId> {
        let mut outdated = serving.outdated_images.iter();
        let is_used = |image: &ImageId| self.old.iter().any(|old| old.image_id == *image);
        outdated.find(|image| !is_used(image) && !self.retained_images.contains(image))
    }

    /// The member whose image may be replaced by the published one.
    pub fn replaceable(&self) -> Option<&Member> {
        self.serving.as_ref().or_else(|| self.sole_candidate())
    }

    /// Containers that were asked to stop and still have a process, earliest first.
    pub fn finishing(&self) -> impl Iterator<Item = &Member> {
        let given_up = self.old.iter().chain(&self.withdrawn);
        given_up.filter(|member| member.is_up())
    }

    /// The member that represents the delegate in reports: the working one, or the one that should work.
    pub fn representative(&self) -> Option<&Member> {
        self.serving
            .as_ref()
            .or_else(|| self.old.last())
            .or(self.candidate.as_ref())
    }
}

/// Which image a delegate should run.
#[derive(Clone, Debug, PartialEq)]
pub enum Desired {
    /// Finish the replacement in progress, and start no other, for this reason.
    Keep(Reason),
    /// This image.
    Image {
        /// The target.
        reference: ImageReference,
        /// The id behind the reference, known once it was pulled.
        id: Option<ImageId>,
        /// Why this image is wanted.
        intent: Intent,
    },
}

impl Desired {
    /// The image that should run, if it differs from the running one, or why it is unknown.
    pub(crate) fn published(&self) -> Result<Option<String>, String> {
        match self {
            Self::Image { reference, .. } => Ok(Some(reference.to_string())),
            Self::Keep(Reason::AwaitingSchedule { published }) => Ok(published.clone()),
            Self::Keep(Reason::HeldBack { image, .. } | Reason::NotPinned { image }) => {
                Ok(Some(image.clone()))
            }
            Self::Keep(reason @ Reason::AwaitingAnswer { .. }) => Err(reason.to_string()),
            Self::Keep(reason) if reason.is_failure() => Err(reason.to_string()),
            Self::Keep(_) => Ok(None),
        }
    }
}

impl Desired {
    /// Whether a candidate has the wanted image. If that is unknown, the replacement is finished.
    fn wants(&self, candidate: &Member) -> bool {
        match self {
            // Another process rolls back from it.
            Self::Image { reference, id, .. } if candidate.was_rolled_back_from(reference, id.as_ref()) => {
                true
            }
            Self::Image { id: Some(id), .. } => *id == candidate.image_id,
            Self::Image { reference, .. } => candidate.runs(reference),
            Self::Keep(Reason::UpToDate { .. } | Reason::SameImage { .. }) => {
                candidate.rolled_back_from.is_some()
            }
            Self::Keep(_) => true,
        }
    }
}

/// Why another image is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Intent {
    /// It is published.
    #[default]
    Upgrade,
    /// An operator wants an upgrade despite earlier rejections: `retry`.
    Retry(Request),
    /// An operator returns to the previous image: `rollback`.
    Rollback(Request),
}

impl Intent {
    /// The intent of this name, with the operator's request.
    pub(crate) fn named(name: &str, request: Request) -> Self {
        match name {
            "retry" => Self::Retry(request),
            "rollback" => Self::Rollback(request),
            _ => Self::Upgrade,
        }
    }

    /// The operator's request, if there is one.
    pub fn request(&self) -> Option<&Request> {
        match self {
            Self::Upgrade => None,
            Self::Retry(request) | Self::Rollback(request) => Some(request),
        }
    }
}

/// The operator's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// `DISABLE_AUTO_UPGRADE`: nothing is changed, except for restarts if `restarts_unhealthy` is set.
    pub health_only: bool,
    /// `UPDATE_ORDER`.
    pub update_order: UpdateOrder,
    /// How long a candidate must stay healthy.
    pub healthy_time: Duration,
    /// How long it may take to achieve that.
    pub healthy_deadline: Duration,
    /// How long a stop-first replacement waits for the old one to be idle.
    pub idle_wait: Duration,
    /// `HEALTH_ACTION=restart`.
    pub restarts_unhealthy: bool,
    /// When a replacement may start.
    pub timing: Timing,
}

/// The order in which the old container stops and the new one starts.
#[derive(Clone, Debug, PartialEq)]
pub enum ChosenOrder {
    /// The new one proves itself beside the old one.
    StartFirst,
    /// The old one stops before the new one starts.
    StopFirst,
    /// Neither order is possible.
    Blocked(Reason),
}

impl fmt::Display for ChosenOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StartFirst => f.write_str("start-first"),
            Self::StopFirst => f.write_str("stop-first"),
            Self::Blocked(reason) => write!(f, "{reason}"),
        }
    }
}

impl Rollout {
    /// How this delegate is replaced: by its owner's label, then the setting, then what its configuration or memory permits.
    pub fn update_order(&self, policy: &Policy, facts: &Facts) -> ChosenOrder {
        let too_little_memory = facts
            .free_memory
            .as_ref()
            .and_then(|memory| memory.as_ref().err());
        let single_instance = self
            .single_instance
            .as_ref()
            .or(too_little_memory)
            .or(facts.no_free_port.as_ref());
        match (
            self.owner.update_order.unwrap_or(policy.update_order),
            single_instance,
        ) {
            (UpdateOrder::StartFirst | UpdateOrder::Auto, None) => ChosenOrder::StartFirst,
            (UpdateOrder::StartFirst, Some(conflict)) => {
                ChosenOrder::Blocked(Reason::CannotStartFirst(conflict.clone()))
            }
            // The helper would need that memory as well.
            (UpdateOrder::Auto, Some(conflict @ SingleInstance::TooLittleMemory { .. }))
                if self.is_upgrader() =>
            {
                ChosenOrder::Blocked(Reason::CannotStartFirst(conflict.clone()))
            }
            (UpdateOrder::Auto, Some(_)) | (UpdateOrder::StopFirst, _) => ChosenOrder::StopFirst,
        }
    }

    /// The container that the delegate needs but that is missing: neither a candidate nor the old one can start.
    fn missing_companion(&self) -> Option<&Obstacle> {
        let obstacle = self.obstacle.as_ref();
        obstacle.filter(|obstacle| matches!(obstacle, Obstacle::DependencyMissing { .. }))
    }

    /// Why the container in service cannot be replaced.
    fn obstacle<'a>(&'a self, facts: &'a Facts) -> Option<&'a Obstacle> {
        let hidden = facts.hidden_obstacle.as_ref();
        let hidden = hidden.and_then(|hidden| hidden.as_ref().err());
        self.obstacle.as_ref().or(hidden)
    }
}
