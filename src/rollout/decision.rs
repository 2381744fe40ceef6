//! What [`next`](super::next()) answers.

use std::fmt;

use chrono::{DateTime, Utc};

use super::Step;
use super::reason::Reason;
use crate::container::ContainerId;
use crate::image::ImageReference;

/// What to do about one delegate now.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Take this step, and observe again.
    Act(Step),
    /// Find this out, and decide again: the decision hangs on it.
    Learn(Fact),
    /// Nothing yet: decide again at that time.
    Wait {
        /// What is waited for.
        reason: Reason,
        /// When to decide again, at the latest.
        until: DateTime<Utc>,
    },
    /// Nothing, for this reason, until something changes.
    Rest(Reason),
}

/// What takes a call to find out, and is asked for only when a decision hangs on it.
#[derive(Clone, Debug, PartialEq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Fact {
    /// Whether the host has free memory for a second container beside the one in service.
    FreeMemory,
    /// Whether something that no container document shows keeps the one in service from being recreated: files that
    /// were copied into it, or an image that is gone.
    HiddenObstacle,
    /// Who stopped a container, or asked it to stop: see [`StoppedBy`](super::StoppedBy).
    StoppedBy {
        /// The container, or the attempt marker of one that is gone.
        container: ContainerId,
    },
    /// Whether somebody changed a delegate since its candidate was created. This is found while it drains, where the end
    /// of the drain takes it away.
    ChangedSettings {
        /// The candidate.
        candidate: ContainerId,
    },
    /// Who removed the container that had the delegate's name, if somebody did: see [`StoppedBy`](super::StoppedBy).
    RemovedBy,
    /// Whether the Manager can be reached.
    ManagerReachable {
        /// The image of the candidate that failed; the question is about it.
        image: ImageReference,
    },
    /// What holds replacements back, as far as the engine remembers it: a pause, and when an image was first seen.
    Holds,
    /// Whether a container is still unhealthy.
    Health {
        /// The container.
        container: ContainerId,
    },
    /// That the failure of a container has a cause outside of it, which its history is to remember.
    CommonCause {
        /// The container that failed.
        container: ContainerId,
        /// The cause, in words.
        cause: String,
    },
}

impl Decision {
    /// The kind of decision, and of step, as one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Act(step) => step.kind(),
            Self::Learn(_) => "learn",
            Self::Wait { .. } => "wait",
            Self::Rest(_) => "rest",
        }
    }

    /// What it is about, as one word: the kind of its reason, or the fact that is missing.
    pub fn topic(&self) -> Option<&'static str> {
        match self {
            Self::Act(_) => None,
            Self::Learn(fact) => Some(fact.kind()),
            Self::Wait { reason, .. } | Self::Rest(reason) => Some(reason.kind().as_str()),
        }
    }

    /// Whether there is something to do, rather than to wait for.
    pub fn is_to_do(&self) -> bool {
        matches!(self, Self::Act(_) | Self::Learn(_))
    }

    /// Whether nothing is done until something changes.
    pub fn is_rest(&self) -> bool {
        matches!(self, Self::Rest(_))
    }

    /// Why nothing is done, where that is the decision.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Wait { reason, .. } | Self::Rest(reason) => Some(reason),
            Self::Act(_) | Self::Learn(_) => None,
        }
    }
}

impl Fact {
    /// The fact, as one word.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Act(step) => write!(f, "{step}"),
            Self::Learn(fact) => write!(f, "find out {fact}"),
            Self::Wait { reason, .. } | Self::Rest(reason) => write!(f, "{reason}"),
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FreeMemory => f.write_str("whether the host has memory for a second container"),
            Self::HiddenObstacle => f.write_str("whether it can be recreated as it is"),
            Self::StoppedBy { container } => write!(f, "whether somebody stopped {container}"),
            Self::ChangedSettings { .. } => f.write_str("whether somebody changed it meanwhile"),
            Self::RemovedBy => f.write_str("whether somebody removed it"),
            Self::ManagerReachable { .. } => f.write_str("whether the Manager can be reached"),
            Self::Holds => f.write_str("whether changes are paused on this host"),
            Self::Health { container } => write!(f, "whether {container} is still unhealthy"),
            Self::CommonCause { container, cause } => {
                write!(f, "the common cause of a failure: {cause} ({container})")
            }
        }
    }
}
