//! The answer of [`next`](super::next()).

use chrono::{DateTime, Utc};

use super::Step;
use super::reason::Reason;
use crate::container::ContainerId;
use crate::image::ImageReference;

/// The next thing to do about one delegate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Decision<S = Step> {
    /// Take this step, and observe again.
    #[error("{0}")]
    Act(S),
    /// Find this out, and decide again: the decision depends on it.
    #[error("find out {0}")]
    Learn(Fact),
    /// Nothing yet: decide again at that time.
    #[error("{reason}")]
    Wait {
        /// The reason to wait.
        reason: Reason,
        /// When to decide again at the latest.
        until: DateTime<Utc>,
    },
    /// Do nothing until something changes, for this reason.
    #[error("{0}")]
    Rest(Reason),
}

/// A fact that costs a call, so it is requested only when a decision depends on it.
#[derive(Clone, Debug, PartialEq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "the words of each say what it is")]
pub enum Fact {
    /// For a container beside the one in service.
    #[error("whether the host has memory for a second container")]
    FreeMemory,
    /// Something that no document shows (copied files, a deleted image) may prevent that.
    #[error("whether it can be recreated as it is")]
    HiddenObstacle,
    #[error("whether the Manager can be reached")]
    ManagerReachable {
        /// The image of the unhealthy delegate; the question is about it.
        image: ImageReference,
    },
    /// The holds in the engine's records: a pause, and when an image was first seen.
    #[error("whether upgrades are paused")]
    Holds,
    #[error("whether {container} is still unhealthy")]
    Health { container: ContainerId },
}

impl<S> Decision<S> {
    /// The wait for this reason.
    pub(crate) fn wait(reason: Reason, until: DateTime<Utc>) -> Self {
        Self::Wait { reason, until }
    }
}

impl Decision {
    /// The kind of decision or step, as one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Act(step) => step.kind(),
            Self::Learn(_) => "learn",
            Self::Wait { .. } => "wait",
            Self::Rest(_) => "rest",
        }
    }

    /// The kind of its reason, or the missing fact, as one word.
    pub fn topic(&self) -> Option<&'static str> {
        match self {
            Self::Act(_) => None,
            Self::Learn(fact) => Some(fact.kind()),
            Self::Wait { reason, .. } | Self::Rest(reason) => Some(reason.kind().as_str()),
        }
    }

    /// The subject under which its attempts are counted; `None` if there is nothing to do.
    pub(crate) fn key(&self) -> Option<String> {
        match self {
            Self::Act(step) => Some(step.key()),
            Self::Learn(fact) => Some(fact.kind().to_owned()),
            Self::Wait { .. } | Self::Rest(_) => None,
        }
    }

    /// Whether there is something to do, rather than to wait for.
    pub fn is_to_do(&self) -> bool {
        matches!(self, Self::Act(_) | Self::Learn(_))
    }

    /// The reason to rest, if this is a rest.
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
