//! The replacement of one delegate, as Docker's own state tells it.
//!
//! There is no state file: `Rollout` is read from container names, labels and states at every look, [`next`] decides
//! the one step to take, and the executor takes it. What a restart of this program loses ([`History`]) is only how long
//! something has been watched, never what was done.

mod backoff;
mod decision;
mod execute;
mod facts;
mod failure;
mod failure_cause;
mod history;
mod next;
pub mod reason;
mod step;

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

pub use backoff::Backoff;
pub(crate) use backoff::INSPECT;
pub use decision::{Decision, Fact};
pub use execute::{Effect, Pulled, Pulls, execute};
pub use facts::{Facts, Reach};
pub use failure::Failure;
pub use failure_cause::FailureCause;
pub use next::next;

pub use history::{History, Memory};
pub use step::Step;

use crate::config::Strategy;
use crate::container::{ContainerId, ImageId, Role, label};
use crate::container::{Inspected, RunState};
use crate::document::{Obstacle, SingleInstance};
use crate::health::Health;
use crate::image::ImageReference;
use crate::rollout::reason::Reason;

/// The image a rollback went back from: left alone for as long as it is the published one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBackImage {
    /// Its reference.
    pub reference: String,
    /// Its id.
    pub id: ImageId,
}

/// A start that the engine itself fails at is tried this often before it counts.
const START_ATTEMPTS: u32 = 3;

/// One container's part in a rollout.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its id.
    pub id: ContainerId,
    /// Its name now.
    pub name: String,
    /// Its part, as its name tells.
    pub role: Role,
    /// The engine's word for its state.
    pub state: RunState,
    /// The verdict on it now.
    pub health: Health,
    /// The image it runs.
    pub image_id: ImageId,
    /// That image, as the container's configuration names it.
    pub image: String,
    /// The container it was created to replace.
    pub replaces: Option<ContainerId>,
    /// How many times this delegate had been replaced when it was created; 0 for one we did not create.
    pub release: u64,
    /// The image of the one it replaces, as that one's configuration names it.
    pub previous_image: Option<String>,
    /// The id of that image; not shown any more once its removal was tried.
    pub previous_image_id: Option<ImageId>,
    /// Its restart policy as `docker run --restart` takes it.
    pub restart_policy: String,
    /// The restart policy its predecessor had before it was told to stop.
    pub predecessor_policy: Option<String>,
    /// Whether the engine removes it when it stops.
    pub auto_remove: bool,
    /// What it was rolled back from, where `rollback` made it.
    pub rolled_back_from: Option<RolledBackImage>,
    /// Its memory limit, in bytes.
    pub memory_limit: Option<u64>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When its present or last life began.
    pub started_at: Option<DateTime<Utc>>,
    /// When its last life ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// How often the engine has restarted it.
    pub restart_count: u64,
    /// Why its last start failed, in the engine's words.
    pub start_error: Option<String>,
    /// How its last life ended, in words.
    pub ending: String,
    /// How long it may take to stop.
    pub stop_timeout: Duration,
    /// What this process has seen of it.
    pub history: History,
}

impl Member {
    /// Reads a member from its document.
    pub fn read(
        container: &Inspected,
        role: Role,
        health: Health,
        stop_timeout: Duration,
        history: History,
    ) -> Self {
        Self {
            id: container.id(),
            name: container.name().to_owned(),
            role,
            state: container.state(),
            health,
            image_id: container.image_id(),
            image: container.image_reference().to_owned(),
            replaces: container.label(label::REPLACES).map(ContainerId::new),
            release: container
                .label(label::RELEASE)
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
            previous_image: container.label(label::PREVIOUS_IMAGE).map(str::to_owned),
            previous_image_id: container.label(label::PREVIOUS_IMAGE_ID).map(ImageId::new),
            restart_policy: container.restart_policy_text(),
            predecessor_policy: container.label(label::RESTART_POLICY).map(str::to_owned),
            auto_remove: container.auto_remove(),
            rolled_back_from: rolled_back_from(container),
            memory_limit: container.memory_limit(),
            created_at: container.created_at().unwrap_or_default(),
            started_at: container.started_at(),
            finished_at: container.finished_at(),
            restart_count: container.restart_count(),
            start_error: Some(container.error())
                .filter(|error| !error.is_empty())
                .map(str::to_owned),
            ending: crate::health::ending(container),
            stop_timeout,
            history,
        }
    }

    /// Whether it was made to take this one's place.
    pub fn is_successor_of(&self, other: &Self) -> bool {
        self.replaces.as_ref() == Some(&other.id)
    }

    /// Whether its configuration names this image.
    pub fn runs(&self, reference: &ImageReference) -> bool {
        names(&self.image, reference)
    }

    /// Whether it has a process, or will have one again in a moment.
    pub fn is_up(&self) -> bool {
        matches!(
            self.state,
            RunState::Running | RunState::Restarting | RunState::Paused
        )
    }

    /// Whether it has never been started.
    pub fn is_created(&self) -> bool {
        self.state == RunState::Created
    }

    /// Whether it was started and has stopped for good.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, RunState::Exited | RunState::Dead)
    }

    /// Whether the engine leaves it stopped once it stops.
    pub fn restart_is_off(&self) -> bool {
        self.restart_policy == "no"
    }
}

/// All containers of one delegate `NAME`, by their parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollout {
    /// `NAME`.
    pub name: String,
    /// The `DELEGATE_NAME` it is a replica of.
    pub workload: String,
    /// The one in service.
    pub serving: Option<Member>,
    /// The new one, not yet proven.
    pub candidate: Option<Member>,
    /// Old ones that were told to stop, the earliest first.
    pub draining: Vec<Member>,
    /// Candidates that nobody wants any more, told to stop; the earliest first.
    pub withdrawn: Vec<Member>,
    /// The copy of an `--rm` delegate that its replacement can fall back on.
    pub standby: Option<Member>,
    /// Rejected candidates, the earliest created first. More than one only for a moment.
    pub failed: Vec<Member>,
    /// Whether its owner wants it left alone.
    pub opted_out: bool,
    /// Why two of it cannot run at once, if so.
    pub single_instance: Option<SingleInstance>,
    /// The owner's choice for this delegate, over `UPGRADE_STRATEGY`.
    pub strategy: Option<Strategy>,
    /// A container of somebody else's that has a name this rollout needs.
    pub name_conflict: Option<String>,
    /// Candidates that this process created and that are gone again.
    pub vanished: Vec<Vanished>,
    /// Whether the container that the candidate was to replace serves under another name by now.
    pub predecessor_was_renamed: bool,
    /// The images that delegates of this host keep, this one and all others: what each runs, and what it ran before.
    pub retained_images: Vec<ImageId>,
    /// Why the one in service cannot be replaced, by what else is on the host or was put into it.
    pub obstacle: Option<Obstacle>,
    /// Why one of its containers could not be inspected: then its state is not known, and nothing is done to it.
    pub inspect_error: Option<String>,
}

/// A candidate that is gone, and was not removed by this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vanished {
    /// Its image.
    pub image: ImageId,
    /// Whether it was made with `--rm` and was started: then it vanishes by stopping.
    pub auto_remove: bool,
    /// Why it could not be started, where that is known.
    pub cause: Option<String>,
}

impl Rollout {
    /// Whether something was begun that has to be finished.
    pub fn is_in_progress(&self) -> bool {
        self.candidate.is_some()
            || self.serving.is_none()
            || self.standby.is_some()
            || !self.draining.is_empty()
            || !self.withdrawn.is_empty()
    }

    /// Whether a replacement is at the stage where other replicas wait: not yet proven, or without a holder of the
    /// name. A drain after the commit holds up nobody.
    pub fn blocks_replicas(&self) -> bool {
        let old_ones = self.draining.iter().chain(&self.standby).next();
        self.candidate.is_some() || (self.serving.is_none() && old_ones.is_some())
    }

    /// All its containers.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        let named = self.serving.iter().chain(&self.candidate).chain(&self.standby);
        named
            .chain(&self.draining)
            .chain(&self.withdrawn)
            .chain(&self.failed)
    }

    /// The member with this id.
    pub fn member(&self, id: &ContainerId) -> Option<&Member> {
        self.members().find(|member| member.id == *id)
    }

    /// The candidate, where it is all there is.
    pub fn sole_candidate(&self) -> Option<&Member> {
        let others = self.serving.is_some() || self.standby.is_some() || !self.draining.is_empty();
        self.candidate
            .as_ref()
            .filter(|_| !others && !self.predecessor_was_renamed)
    }

    /// The member whose image may be replaced by what is published.
    pub fn replaceable(&self) -> Option<&Member> {
        self.serving.as_ref().or_else(|| self.sole_candidate())
    }

    /// The member that stands for the delegate in reports: the one that works, or would.
    pub fn representative(&self) -> Option<&Member> {
        self.serving
            .as_ref()
            .or_else(|| self.draining.last())
            .or(self.candidate.as_ref())
            .or(self.standby.as_ref())
    }
}

/// Which image a delegate should run.
#[derive(Clone, Debug, PartialEq)]
pub enum Desired {
    /// Nothing new: only what is under way is finished, or, with a reason, why nothing new is begun.
    Keep(Reason),
    /// This image.
    Image {
        /// The target.
        reference: ImageReference,
        /// The id behind the reference, known once it was pulled.
        id: Option<ImageId>,
        /// Who wants it.
        intent: Intent,
    },
}

/// Who wants another image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Intent {
    /// It is published.
    #[default]
    Upgrade,
    /// An operator does, in spite of what was rejected before: `retry`.
    Retry,
    /// An operator does, who goes back to the image before: `rollback`.
    Rollback,
}

/// What the operator allows.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// `DISABLE_AUTO_UPGRADE`: nothing may be written.
    pub health_only: bool,
    /// `UPGRADE_STRATEGY`.
    pub strategy: Strategy,
    /// How long a candidate must be healthy without a break.
    pub healthy_time: Duration,
    /// How long it has for that.
    pub healthy_deadline: Duration,
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
        let single_instance = self.single_instance.as_ref().or(too_little_memory);
        match (self.strategy.unwrap_or(policy.strategy), single_instance) {
            (Strategy::StartFirst | Strategy::Auto, None) => UpdateOrder::StartFirst,
            (Strategy::StartFirst, Some(conflict)) => {
                UpdateOrder::Blocked(Reason::CannotStartFirst(conflict.clone()))
            }
            (Strategy::Auto, Some(_)) | (Strategy::StopFirst, _) => UpdateOrder::StopFirst,
        }
    }
}

impl Rollout {
    /// Whether a container made from this reference was rejected here, and the back-off is not over, or somebody went
    /// back from it.
    pub fn quarantined(&self, reference: &ImageReference, now: DateTime<Utc>) -> Option<Reason> {
        if let Some(serving) = &self.serving
            && serving.was_rolled_back_from(reference, None)
        {
            return Some(serving.rolled_back_reason(reference));
        }
        self.failed
            .iter()
            .rev()
            .filter(|rejected| rejected.runs(reference))
            .find_map(|r| r.quarantine(now))
    }
}

impl Member {
    /// Whether it is the result of a rollback from this image. By the reference alone only where that stands for one
    /// image: a mutable tag is the same reference for the image before and for the next.
    pub fn was_rolled_back_from(&self, reference: &ImageReference, id: Option<&ImageId>) -> bool {
        self.rolled_back_from.as_ref().is_some_and(|left| match id {
            Some(id) => left.id == *id,
            None => !self.runs(reference) && names(&left.reference, reference),
        })
    }

    /// Why it does not get the image it was rolled back from.
    pub fn rolled_back_reason(&self, reference: &ImageReference) -> Reason {
        Reason::RolledBack {
            image: reference.to_string(),
            to: self.image.clone(),
        }
    }

    /// For how long the image of a rejected candidate is left alone, if it still is.
    pub fn quarantine(&self, now: DateTime<Utc>) -> Option<Reason> {
        let Role::Failed { attempt } = self.role else {
            return None;
        };
        let span = TimeDelta::from_std(quarantine(attempt)).unwrap_or(TimeDelta::MAX / 4);
        let until = self.finished_at.unwrap_or(self.created_at) + span;
        (now < until || self.is_up()).then(|| Reason::Quarantined {
            image: self.image.clone(),
            attempt,
            until,
        })
    }
}

fn names(image: &str, reference: &ImageReference) -> bool {
    image
        .parse::<ImageReference>()
        .is_ok_and(|image| image == *reference)
}

fn rolled_back_from(container: &Inspected) -> Option<RolledBackImage> {
    Some(RolledBackImage {
        reference: container.label(label::ROLLED_BACK_FROM)?.to_owned(),
        id: ImageId::new(container.label(label::ROLLED_BACK_FROM_ID)?),
    })
}

/// The first wait of a quarantined image; doubled with each attempt.
const QUARANTINE: Duration = Duration::from_secs(3600);
/// The longest wait.
const QUARANTINE_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// How long an image is left alone after its `attempt`-th rejection.
pub fn quarantine(attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(16);
    QUARANTINE.saturating_mul(1 << doublings).min(QUARANTINE_LIMIT)
}
