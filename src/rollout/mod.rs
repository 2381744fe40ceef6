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
mod held_back;
mod member;
mod memory;
mod next;
mod owner;
mod pace;
mod quarantine;
pub mod reason;
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
pub(crate) use checks::FAILED_CHECKS;
pub use checks::{Checks, RequestedRestart};
pub use decided::Decided;
pub use decision::{Decision, Fact};
pub use execute::{Effect, PullState, Pulled, Pulls, execute, image_of};
pub use facts::{Facts, Reach};
pub use failure::Failure;
pub use failure_cause::{FailureCause, Rejection};
pub use held_back::HeldBack;
pub use member::{AutoRemove, Life, Member, RememberedImage, StopTimeoutSource};
pub use memory::{Check, Comparison, History, Memory, RefusedStarts, Seen};
pub use next::{next, rows_that_hold};
pub use owner::{InvalidLabel, OwnerSettings};
pub use quarantine::quarantine;
pub use row::Row;
pub(crate) use row::rows;
pub use step::Step;
pub use work_seen::WorkSeen;

use crate::config::{Strategy, Timing};
use crate::container::{ContainerId, ImageId, OWN_WORKLOAD, Role, is_replaced_by_compose};
use crate::document::{Obstacle, SingleInstance};
use crate::image::ImageReference;
use crate::rollout::pace::COMPOSE_REPLACES;
use crate::rollout::reason::Reason;

/// All containers of one delegate `NAME`, by their parts.
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
    /// Old containers that gave up the name: the draining ones, the earliest first, and after them one that is retired.
    pub old: Vec<Member>,
    /// Candidates that are no longer wanted, and trials that were not removed, the earliest first.
    pub withdrawn: Vec<Member>,
    /// Rejected candidates, the earliest created first. More than one only for a moment.
    pub failed: Vec<Member>,
    /// The helper, which exchanges an upgrader that cannot run twice at once.
    pub helper: Option<Member>,
    /// The settings on its owner's labels.
    pub owner: OwnerSettings,
    /// Why it cannot run twice at once; `None` if it can.
    pub single_instance: Option<SingleInstance>,
    /// Why a second container would find no free port of the host now; `None` if it would. For a plan only: a run tries it.
    pub no_free_port: Option<SingleInstance>,
    /// The names of other containers that look like those of its parts: no part can have them.
    pub taken_names: Vec<String>,
    /// Delegates that serve under another name, and that one of its containers was made from, or was made to replace:
    /// their owner renamed them.
    pub relatives: Vec<Member>,
    /// The images that delegates of this host keep, this one and all others: what each runs, and what it ran before.
    pub retained_images: Vec<ImageId>,
    /// Why the container in service cannot be replaced, or the candidate not be started if none is in service, by what else
    /// is on the host.
    pub obstacle: Option<Obstacle>,
    /// The settings of the container to be replaced that changed since the candidate was created, in words; empty if they are
    /// not known.
    pub changes: String,
    /// Why one of its containers could not be inspected: its state is unknown then, and it is left alone.
    pub inspect_error: Option<String>,
    /// The same of those that only are left over, each with its name: they are as the list shows them.
    pub unread: Vec<String>,
}

impl Rollout {
    /// Why this program leaves it alone: its owner opted out, or it belongs to a service.
    pub fn left_alone(&self) -> Option<Reason> {
        let task = self
            .owner
            .task_of
            .clone()
            .map(|service| Reason::TaskOfService { service });
        let account = || {
            self.owner
                .other_account
                .clone()
                .map(|account| Reason::OtherAccount { account })
        };
        task.or_else(account)
            .or_else(|| self.owner.opted_out.map(|label| Reason::OptedOut { label }))
    }

    /// Whether it is not a delegate, but the upgrader itself.
    pub fn is_upgrader(&self) -> bool {
        self.workload == OWN_WORKLOAD
    }

    /// Whether it has the name that Compose gives to a container for a moment, and is about to lose that or to be removed. Two
    /// minutes after the last change Compose has failed: what it left is the delegate.
    fn is_replaced_by_compose(&self, now: DateTime<Utc>) -> bool {
        let changes = self.members().flat_map(|member| {
            let life = &member.life;
            [Some(member.created_at), life.started_at, life.finished_at]
        });
        let is_recent = |last: DateTime<Utc>| now - last < COMPOSE_REPLACES;
        is_replaced_by_compose(&self.name) && changes.flatten().max().is_some_and(is_recent)
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

    /// Whether no container with the name is up, and a replacement that is not finished can end that.
    fn is_to_be_served(&self) -> bool {
        let is_copy = self
            .serving
            .as_ref()
            .is_some_and(|copy| copy.is_copy && copy.is_created());
        // Behind a delegate, an old container that ended starts nothing.
        let is_unfinished = |old: &Member| self.serving.is_none() || old.is_up();
        !self.is_served() && (self.candidate.is_some() || self.old.iter().any(is_unfinished) || is_copy)
    }

    /// Whether a replacement is at the stage where other replicas wait: not yet proven, or without a holder of the
    /// name. They do not wait for a drain after the commit.
    pub fn blocks_replicas(&self) -> bool {
        self.candidate.is_some() || (self.serving.is_none() && !self.old.is_empty())
    }

    /// All its containers.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        let named = self.serving.iter().chain(&self.candidate).chain(&self.helper);
        named.chain(&self.old).chain(&self.withdrawn).chain(&self.failed)
    }

    /// The number of the latest attempt at a replacement, as far as its containers show; 0 if there was none.
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

    /// The old one that this candidate is to replace, or else the last one that gave up the name.
    fn predecessor_of(&self, candidate: &Member) -> Option<&Member> {
        let mut old_ones = self.old.iter();
        old_ones
            .find(|old| candidate.is_successor_of(old))
            .or(self.old.last())
    }

    /// Whether the container in service was made to take this one's place, or serves under another name by now.
    fn successor_of<'a>(&'a self, old: &Member) -> Option<&'a Member> {
        let relatives = self.relatives.iter().filter(|other| other.is_up());
        let mut served = self.serving.iter().chain(relatives);
        served.find(|serving| serving.is_successor_of(old))
    }

    /// The container that the candidate was to replace, where its owner gave it another name, under which it serves.
    fn renamed_predecessor(&self) -> Option<&Member> {
        let candidate = self.candidate.as_ref()?;
        let mut relatives = self.relatives.iter();
        relatives.find(|other| candidate.is_successor_of(other) && other.is_up())
    }

    /// The withdrawn and the rejected candidates, the last ones first.
    pub(crate) fn given_up(&self) -> impl Iterator<Item = &Member> {
        self.withdrawn.iter().rev().chain(self.failed.iter().rev())
    }

    /// Whether this one is only left over: a container serves, and this one, old or given up, does not return.
    pub fn is_left_over(&self, id: &ContainerId) -> bool {
        let ended = self.old.iter().filter(|old| !old.is_up());
        let mut left_over = ended.chain(self.given_up());
        self.serving.is_some() && left_over.any(|member| member.id == *id)
    }

    /// The name that a replacement needs, and that another container has.
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

    /// The name of this part with this second, or with the next second whose name is free.
    fn dated_name(&self, mut since: i64, role: impl Fn(i64) -> Role) -> String {
        while self.members().any(|other| other.role == role(since)) || self.is_taken(role(since)) {
            since += 1;
        }
        role(since).name(&self.name)
    }

    /// The name of this part; where a container that is left over has it, the next one that is free.
    fn free_name(&self, role: Role) -> String {
        let name = role.name(&self.name);
        let beside = (2..=u32::MAX).map(|number| format!("{name}-{number}"));
        let is_free = |name: &String| self.members().all(|member| member.name != *name);
        let mut names = std::iter::once(name.clone()).chain(beside);
        names.find(is_free).unwrap_or(name)
    }

    /// Whether a container that is not ours has the name of this part.
    fn is_taken(&self, role: Role) -> bool {
        self.taken_names.contains(&role.name(&self.name))
    }

    /// A former image that `KEEP_IMAGES` does not keep. Another replica may be a step behind.
    fn outdated_image<'a>(&self, serving: &'a Member) -> Option<&'a ImageId> {
        let mut outdated = serving.outdated_images.iter();
        let is_used = |image: &ImageId| self.old.iter().any(|old| old.image_id == *image);
        outdated.find(|image| !is_used(image) && !self.retained_images.contains(image))
    }

    /// The member whose image may be replaced by the published image.
    pub fn replaceable(&self) -> Option<&Member> {
        self.serving.as_ref().or_else(|| self.sole_candidate())
    }

    /// Those that are to stop and still have a process, the earliest first.
    pub fn finishing(&self) -> impl Iterator<Item = &Member> {
        let given_up = self.old.iter().chain(&self.withdrawn);
        given_up.filter(|member| member.is_up())
    }

    /// The member that stands for the delegate in reports: the one that works, or would.
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
    /// Finish the replacement in progress, and start no other one, for this reason.
    Keep(Reason),
    /// This image.
    Image {
        /// The target.
        reference: ImageReference,
        /// The id behind the reference, known once it was pulled.
        id: Option<ImageId>,
        /// The origin of the wish.
        intent: Intent,
    },
}

impl Desired {
    /// The image that should run, if it is another one; or why that is not known.
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
    /// Whether a candidate has the wanted image. If that image is unknown, the replacement is finished.
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

/// The origin of the wish for another image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Intent {
    /// It is published.
    #[default]
    Upgrade,
    /// An operator wants an upgrade in spite of earlier rejections: `retry`.
    Retry,
    /// An operator returns to the previous image: `rollback`.
    Rollback,
}

/// The operator's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// `DISABLE_AUTO_UPGRADE`: nothing is written but restarts, where `restarts_unhealthy` is set.
    pub health_only: bool,
    /// `UPDATE_ORDER`.
    pub strategy: Strategy,
    /// How long a candidate must be healthy without a break.
    pub healthy_time: Duration,
    /// How long it has for that.
    pub healthy_deadline: Duration,
    /// How long a stop-first replacement waits for a moment in which the old one has no task.
    pub idle_wait: Duration,
    /// `HEALTH_ACTION=restart`.
    pub restarts_unhealthy: bool,
    /// When a replacement may start.
    pub timing: Timing,
}

/// How an old and a new container change places.
#[derive(Clone, Debug, PartialEq)]
pub enum UpdateOrder {
    /// The new one proves itself beside the old one.
    StartFirst,
    /// The old one stops before the new one starts.
    StopFirst,
    /// Neither way is open.
    Blocked(Reason),
}

impl fmt::Display for UpdateOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StartFirst => f.write_str("start-first"),
            Self::StopFirst => f.write_str("stop-first"),
            Self::Blocked(reason) => write!(f, "{reason}"),
        }
    }
}

impl Rollout {
    /// How this delegate is replaced: its owner's label before the operator's setting before what its configuration
    /// or the host's memory forbids.
    pub fn update_order(&self, policy: &Policy, facts: &Facts) -> UpdateOrder {
        let too_little_memory = facts
            .free_memory
            .as_ref()
            .and_then(|memory| memory.as_ref().err());
        let single_instance = self
            .single_instance
            .as_ref()
            .or(too_little_memory)
            .or(facts.no_free_port.as_ref());
        match (self.owner.strategy.unwrap_or(policy.strategy), single_instance) {
            (Strategy::StartFirst | Strategy::Auto, None) => UpdateOrder::StartFirst,
            (Strategy::StartFirst, Some(conflict)) => {
                UpdateOrder::Blocked(Reason::CannotStartFirst(conflict.clone()))
            }
            // The helper would need that memory as well.
            (Strategy::Auto, Some(conflict @ SingleInstance::TooLittleMemory { .. }))
                if self.is_upgrader() =>
            {
                UpdateOrder::Blocked(Reason::CannotStartFirst(conflict.clone()))
            }
            (Strategy::Auto, Some(_)) | (Strategy::StopFirst, _) => UpdateOrder::StopFirst,
        }
    }

    /// That a container which the delegate needs is not there: no candidate can be started, nor the old one again.
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
