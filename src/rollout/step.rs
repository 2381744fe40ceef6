//! The steps of a rollout, and how each is logged.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{Intent, Member, Rejection, RememberedImage, Rollout};
use crate::container::{ContainerId, ImageId, Role};
use crate::image::ImageReference;
use crate::rollout::reason::Reason;
use crate::text::duration;

/// The next thing to do. Each step is safe to repeat. `name` is the container's name before the step, `to` its name afterwards.
/// The sentence of each describes it while it is in progress.
#[derive(Clone, Debug, PartialEq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "most fields are what they are called")]
pub enum Step {
    #[error("noting that {image} is first seen now")]
    NoteFirstSeen { image: String },
    #[error("pulling {reference}")]
    Pull { reference: ImageReference },
    /// Create `NAME.candidate`.
    #[error("creating the candidate with {reference}")]
    Create {
        from: ContainerId,
        reference: ImageReference,
        /// The image's id, which the created container must have.
        image: ImageId,
        release: u64,
        intent: Intent,
    },
    /// Connect a candidate to its networks, and compare it with the container that it replaces.
    #[error("preparing {name}")]
    Prepare { id: ContainerId, name: String },
    /// Start and remove a container like the candidate that does nothing.
    #[error("testing whether Docker can start a container like {name}")]
    TryStart {
        id: ContainerId,
        name: String,
        trial: String,
    },
    /// Recreate `NAME`: from an old container that the engine can no longer start, or from a candidate and the previous image.
    #[error("recreating the old container from {from}{}", with(.image.as_ref()))]
    Recreate {
        from: ContainerId,
        /// The previous image; `None` for that of `from`.
        image: Option<RememberedImage>,
    },
    /// Create `NAME.helper` from the upgrader in service and the image of its candidate.
    #[error("creating the helper with {image}")]
    CreateHelper { from: ContainerId, image: String },
    /// Start a candidate, a copy, or an old container that is being restored.
    #[error("starting {name} ({id})")]
    Start { id: ContainerId, name: String },
    /// First half of the commit: the container in service gives up the name, and continues to work.
    #[error("retiring the old container ({id}) as {to}")]
    Retire { id: ContainerId, to: String },
    #[error("naming the old container ({id}) {to} before it is asked to stop")]
    Drain { id: ContainerId, to: String },
    /// Create `NAME.former`, which is never started and has these settings of the container in service, before they change.
    #[error("keeping {settings} of the container in service ({from})")]
    Keep { from: ContainerId, settings: String },
    /// Rename a candidate that is no longer wanted, before it is stopped as gently as a delegate.
    #[error("withdrawing the candidate ({id}) as {to}")]
    Withdraw {
        id: ContainerId,
        to: String,
        /// Why this run creates no other candidate, if so.
        because: Option<Reason>,
    },
    #[error("naming the candidate ({id}) {to} before the container in service is asked to stop")]
    Announce { id: ContainerId, to: String },
    /// Second half of the commit: the proven candidate takes the name.
    #[error("promoting the candidate ({id}) to {to}")]
    Promote { id: ContainerId, to: String },
    /// Rename a candidate to record that it failed.
    #[error("rejecting the candidate ({id}), kept as {to}")]
    Reject {
        id: ContainerId,
        to: String,
        image: String,
        rejection: Rejection,
    },
    /// Give the name back to the old container.
    #[error("restoring the old container ({id}) as {to}")]
    Restore { id: ContainerId, to: String },
    /// Set a restart policy, as `docker run --restart` takes it.
    #[error("setting the restart policy of {name} ({id}) to {policy}")]
    SetRestartPolicy {
        id: ContainerId,
        name: String,
        policy: String,
    },
    #[error("asking {name} ({id}) to stop within {}", duration::text(*.grace))]
    Stop {
        id: ContainerId,
        name: String,
        /// How long it has before it is killed.
        grace: Duration,
    },
    #[error("restarting {name} ({id}): its health check failed {failures} times in a row: {verdict}")]
    Restart {
        id: ContainerId,
        name: String,
        /// How long it has before it is killed.
        grace: Duration,
        failures: u64,
        verdict: String,
    },
    #[error("removing {name} ({id})")]
    Remove { id: ContainerId, name: String },
    /// Remove an image that no rollback needs.
    #[error("removing the former image {id}")]
    RemoveImage { id: ImageId },
}

impl Step {
    pub(super) fn prepare(candidate: &Member) -> Self {
        Self::Prepare {
            id: candidate.id.clone(),
            name: candidate.name.clone(),
        }
    }

    pub(super) fn try_start(rollout: &Rollout, candidate: &Member, now: DateTime<Utc>) -> Self {
        Self::TryStart {
            id: candidate.id.clone(),
            name: candidate.name.clone(),
            trial: rollout.numbered_name(round_up(now), |since| Role::Trial { since }),
        }
    }

    pub(super) fn start(member: &Member) -> Self {
        Self::Start {
            id: member.id.clone(),
            name: member.name.clone(),
        }
    }

    pub(super) fn stop(member: &Member, grace: Duration) -> Self {
        Self::Stop {
            id: member.id.clone(),
            name: member.name.clone(),
            grace,
        }
    }

    pub(super) fn restart(member: &Member) -> Self {
        Self::Restart {
            id: member.id.clone(),
            name: member.name.clone(),
            grace: member.stop_timeout,
            failures: member.history.checks.failed,
            verdict: member.health.detail.clone(),
        }
    }

    pub(super) fn keep_stopped(member: &Member) -> Self {
        Self::SetRestartPolicy {
            id: member.id.clone(),
            name: member.name.clone(),
            policy: "no".to_owned(),
        }
    }

    pub(super) fn retire(rollout: &Rollout, serving: &Member) -> Self {
        Self::Retire {
            id: serving.id.clone(),
            to: rollout.free_name(Role::Retired),
        }
    }

    /// The new name has the current second, rounded up. After a clock was set back, that could precede the life that must end.
    pub(super) fn drain(rollout: &Rollout, old: &Member, now: DateTime<Utc>) -> Self {
        // A clock that was set back is behind the start of a life that it showed before.
        let since = Some(now).max(old.life.started_at.filter(|_| old.is_up()));
        Self::Drain {
            id: old.id.clone(),
            to: rollout.numbered_name(round_up(since.unwrap_or(now)), |since| Role::Draining { since }),
        }
    }

    pub(super) fn keep(old: &Member, settings: &str) -> Self {
        Self::Keep {
            from: old.id.clone(),
            settings: settings.to_owned(),
        }
    }

    pub(super) fn withdraw(
        rollout: &Rollout,
        candidate: &Member,
        because: Option<Reason>,
        now: DateTime<Utc>,
    ) -> Self {
        Self::Withdraw {
            id: candidate.id.clone(),
            to: rollout.numbered_name(round_up(now), |since| Role::Withdrawn { since }),
            because,
        }
    }

    pub(super) fn reject(rollout: &Rollout, candidate: &Member, rejection: Rejection) -> Self {
        Self::Reject {
            id: candidate.id.clone(),
            to: rollout.next_failed_name(&candidate.image_id),
            image: candidate.tried(),
            rejection,
        }
    }

    pub(super) fn announce(rollout: &Rollout, candidate: &Member) -> Self {
        Self::Announce {
            id: candidate.id.clone(),
            to: Role::Next.name(&rollout.name),
        }
    }

    pub(super) fn promote(rollout: &Rollout, candidate: &Member) -> Self {
        Self::Promote {
            id: candidate.id.clone(),
            to: rollout.name.clone(),
        }
    }

    pub(super) fn restore(rollout: &Rollout, old: &Member) -> Self {
        Self::Restore {
            id: old.id.clone(),
            to: rollout.name.clone(),
        }
    }

    /// Recreates the delegate from this container.
    pub(super) fn recreate(old: &Member) -> Self {
        let (from, image) = (old.id.clone(), None);
        Self::Recreate { from, image }
    }

    pub(super) fn remove(member: &Member) -> Self {
        Self::Remove {
            id: member.id.clone(),
            name: member.name.clone(),
        }
    }

    /// The subject under which its attempts are counted: the kind of step and the container, whatever its name or grace.
    pub(crate) fn key(&self) -> String {
        let id = self.container().map(ContainerId::as_str);
        format!("{} {}", self.kind(), id.unwrap_or_default())
    }

    /// The metric label: one word per kind of step.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

impl Step {
    /// Describes the result of the step once it has succeeded.
    pub(crate) fn result(&self) -> String {
        match self {
            Self::NoteFirstSeen { image } => format!("noted when {image} was first seen"),
            Self::Pull { reference } => format!("pulled {reference}"),
            Self::Create { .. } => "created the candidate".to_owned(),
            Self::Prepare { name, .. } => format!("prepared {name}"),
            Self::TryStart { name, .. } => format!("Docker can start a container like {name}"),
            Self::Recreate { .. } => "recreated the old container".to_owned(),
            Self::CreateHelper { .. } => "created the helper".to_owned(),
            Self::Keep { .. } => "kept the former settings".to_owned(),
            Self::Start { name, .. } => format!("started {name}"),
            Self::Retire { to, .. } | Self::Drain { to, .. } | Self::Restore { to, .. } => {
                format!("renamed the old container to {to}")
            }
            Self::Withdraw { to, .. } | Self::Announce { to, .. } | Self::Promote { to, .. } => {
                format!("renamed the candidate to {to}")
            }
            Self::Reject { to, .. } => format!("kept as {to}"),
            Self::SetRestartPolicy { name, policy, .. } => {
                format!("set the restart policy of {name} to {policy}")
            }
            Self::Stop { name, .. } => format!("asked {name} to stop"),
            Self::Restart { name, .. } => format!("asked Docker to restart {name}"),
            Self::Remove { name, .. } => format!("removed {name}"),
            Self::RemoveImage { id } => format!("removed the former image {id}"),
        }
    }

    /// The container that it changes; `None` for one that it creates, and for steps about images.
    pub(crate) fn container(&self) -> Option<&ContainerId> {
        match self {
            Self::Prepare { id, .. }
            | Self::TryStart { id, .. }
            | Self::Start { id, .. }
            | Self::Retire { id, .. }
            | Self::Drain { id, .. }
            | Self::Withdraw { id, .. }
            | Self::Announce { id, .. }
            | Self::Promote { id, .. }
            | Self::Reject { id, .. }
            | Self::Restore { id, .. }
            | Self::SetRestartPolicy { id, .. }
            | Self::Stop { id, .. }
            | Self::Restart { id, .. }
            | Self::Remove { id, .. } => Some(id),
            _ => None,
        }
    }
}

fn with(image: Option<&RememberedImage>) -> String {
    image.map_or_else(String::new, |image| format!(" with {}", image.reference))
}

/// Rounds up to a second, so that nothing starts before the second in its name.
fn round_up(moment: DateTime<Utc>) -> i64 {
    moment.timestamp() + i64::from(moment.timestamp_subsec_nanos() > 0)
}
