//! The steps of a rollout: what the executor can be asked to do, and how each is logged.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{FailureCause, Intent, Member, Rollout};
use crate::container::{ContainerId, ImageId, Role};
use crate::image::ImageReference;
use crate::rollout::reason::Reason;
use crate::text::duration;

/// The one thing to do next. Each is safe to repeat. A container has its id, and the name that it has before the step;
/// `to` is the name that it gets.
#[derive(Clone, Debug, PartialEq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "most fields are what they are called")]
pub enum Step {
    /// Have the engine remember that an image was first seen now.
    NoteFirstSeen {
        /// What tells it apart from all others.
        image: String,
    },
    /// Pull the image, and learn which id the reference stands for.
    Pull { reference: ImageReference },
    /// Create `NAME.candidate`.
    Create {
        from: ContainerId,
        reference: ImageReference,
        /// The image's id, which the created container must have.
        image: ImageId,
        release: u64,
        intent: Intent,
    },
    /// Make `NAME.standby`, a copy of an `--rm` delegate that stays when the original vanishes.
    CreateStandby { from: ContainerId },
    /// Make `NAME.candidate` from the standby, or from an old one that the engine cannot start any more: the delegate
    /// as it was.
    Recreate { from: ContainerId },
    /// Make `NAME.attempt`, a container of the candidate's image that is never started, since the candidate itself
    /// vanishes by stopping.
    CreateAttemptMarker { candidate: ContainerId, image: String },
    /// Make `NAME.helper` from the upgrader in service and the image of its candidate.
    CreateHelper { from: ContainerId, image: String },
    /// Start a candidate, or an old one that is restored.
    Start { id: ContainerId, name: String },
    /// Half of the commit: the old one gives up the name. In a stop-first replacement, its beginning.
    Retire { id: ContainerId, to: String },
    /// A candidate that is not wanted any more gets another name, before it is stopped as gently as a delegate.
    Withdraw {
        id: ContainerId,
        to: String,
        /// Why, where its image is not to be tried again for now.
        because: Option<Reason>,
    },
    /// A candidate gets the name back that somebody took from it.
    Rename { id: ContainerId, to: String },
    /// The other half: the proven candidate takes the name.
    Promote { id: ContainerId, to: String },
    /// The candidate failed: its name says so from now on, or that of its attempt marker.
    Reject {
        id: ContainerId,
        to: String,
        image: String,
        cause: FailureCause,
    },
    /// The candidate failed while others did no better: its name says so from now on, or that of its attempt marker.
    SetAside {
        id: ContainerId,
        to: String,
        /// What was seen.
        because: Reason,
    },
    /// The old one takes its name back.
    Restore { id: ContainerId, to: String },
    /// Set a restart policy, in the words of `docker run --restart`.
    SetRestartPolicy {
        id: ContainerId,
        name: String,
        policy: String,
    },
    /// Ask a container to stop.
    Stop {
        id: ContainerId,
        name: String,
        /// How long it has before it is killed.
        grace: Duration,
    },
    /// Stop and start a delegate that has failed its health checks.
    Restart {
        id: ContainerId,
        name: String,
        /// How long it has before it is killed.
        grace: Duration,
        /// How many checks in a row it has failed.
        failures: u64,
        /// What the last one found.
        verdict: String,
    },
    /// Remove a stopped container.
    Remove { id: ContainerId, name: String },
    /// Remove an image that no rollback goes back to.
    RemoveImage { id: ImageId },
}

impl Step {
    pub(super) fn pull(reference: &ImageReference) -> Self {
        Self::Pull {
            reference: reference.clone(),
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

    pub(super) fn set_policy(member: &Member, policy: &str) -> Self {
        Self::SetRestartPolicy {
            id: member.id.clone(),
            name: member.name.clone(),
            policy: policy.to_owned(),
        }
    }

    /// The old one gives up the name. Its new name has the second, or the next one that is free. By a clock that was
    /// set back it would be older than the life that ends here.
    pub(super) fn retire(rollout: &Rollout, old: &Member, now: DateTime<Utc>) -> Self {
        let begun = old.started_at.map_or(0, |started| started.timestamp() + 1);
        let since = now.timestamp().max(begun);
        Self::Retire {
            id: old.id.clone(),
            to: rollout.dated_name(since, |since| Role::Draining { since }),
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
            to: rollout.dated_name(now.timestamp(), |since| Role::Withdrawn { since }),
            because,
        }
    }

    pub(super) fn rename(member: &Member, to: String) -> Self {
        Self::Rename {
            id: member.id.clone(),
            to,
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

    pub(super) fn remove(member: &Member) -> Self {
        Self::Remove {
            id: member.id.clone(),
            name: member.name.clone(),
        }
    }

    /// The metric label: one word per kind of step.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

/// What is being done.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoteFirstSeen { image } => write!(f, "noting that {image} is first seen now"),
            Self::Pull { reference } => write!(f, "pulling {reference}"),
            Self::Create { reference, .. } => write!(f, "creating the candidate with {reference}"),
            Self::CreateStandby { from } => write!(f, "creating a standby copy of {from}"),
            Self::Recreate { from } => write!(f, "recreating the old container from {from}"),
            Self::CreateAttemptMarker { candidate, image } => {
                write!(
                    f,
                    "marking {image} as tried before starting the candidate ({candidate})"
                )
            }
            Self::CreateHelper { image, .. } => {
                write!(f, "creating the helper with {image}")
            }
            Self::Start { id, name } => write!(f, "starting {name} ({id})"),
            Self::Retire { id, to } => write!(f, "retiring the old container ({id}) as {to}"),
            Self::Withdraw { id, to, .. } => write!(f, "withdrawing the candidate ({id}) as {to}"),
            Self::Rename { id, to } => write!(f, "renaming the candidate ({id}) back to {to}"),
            Self::Promote { id, to } => write!(f, "promoting the candidate ({id}) to {to}"),
            Self::Reject { id, to, .. } => write!(f, "rejecting the candidate ({id}), kept as {to}"),
            Self::SetAside { id, to, .. } => write!(f, "setting the candidate ({id}) aside, kept as {to}"),
            Self::Restore { id, to } => write!(f, "restoring the old container ({id}) as {to}"),
            Self::SetRestartPolicy { id, name, policy } => {
                write!(f, "setting the restart policy of {name} ({id}) to {policy}")
            }
            Self::Stop { id, name, grace } => {
                let grace = duration::text(*grace);
                write!(f, "asking {name} ({id}) to stop within {grace}")
            }
            Self::Restart {
                id,
                name,
                failures,
                verdict,
                ..
            } => write!(
                f,
                "restarting {name} ({id}): its health check failed {failures} times in a row: {verdict}"
            ),
            Self::Remove { id, name } => write!(f, "removing {name} ({id})"),
            Self::RemoveImage { id } => write!(f, "removing the image {id}, two releases old"),
        }
    }
}

impl Step {
    /// What has been done once the step has succeeded, in words.
    pub(crate) fn result(&self) -> String {
        match self {
            Self::NoteFirstSeen { image } => format!("noted when {image} was first seen"),
            Self::Pull { reference } => format!("pulled {reference}"),
            Self::Create { .. } => "created the candidate".to_owned(),
            Self::CreateStandby { .. } => "created the standby copy".to_owned(),
            Self::Recreate { .. } => "recreated the old container".to_owned(),
            Self::CreateAttemptMarker { .. } => "created the attempt marker".to_owned(),
            Self::CreateHelper { .. } => "created the helper".to_owned(),
            Self::Start { name, .. } => format!("started {name}"),
            Self::Retire { to, .. } | Self::Restore { to, .. } => {
                format!("renamed the old container to {to}")
            }
            Self::Withdraw { to, .. } | Self::Rename { to, .. } | Self::Promote { to, .. } => {
                format!("renamed the candidate to {to}")
            }
            Self::Reject { to, .. } | Self::SetAside { to, .. } => format!("kept as {to}"),
            Self::SetRestartPolicy { name, policy, .. } => {
                format!("set the restart policy of {name} to {policy}")
            }
            Self::Stop { name, .. } => format!("asked {name} to stop"),
            Self::Restart { name, .. } => format!("asked Docker to restart {name}"),
            Self::Remove { name, .. } => format!("removed {name}"),
            Self::RemoveImage { id } => format!("removed the image {id}"),
        }
    }

    /// The container that it changes; `None` for one that it creates, and for steps about images.
    pub(crate) fn container(&self) -> Option<&ContainerId> {
        match self {
            Self::Start { id, .. }
            | Self::Retire { id, .. }
            | Self::Withdraw { id, .. }
            | Self::Rename { id, .. }
            | Self::Promote { id, .. }
            | Self::Reject { id, .. }
            | Self::SetAside { id, .. }
            | Self::Restore { id, .. }
            | Self::SetRestartPolicy { id, .. }
            | Self::Stop { id, .. }
            | Self::Restart { id, .. }
            | Self::Remove { id, .. } => Some(id),
            _ => None,
        }
    }
}
