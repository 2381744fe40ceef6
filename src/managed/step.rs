//! The steps that change a workload of an orchestrator.

use std::fmt;

use super::RolloutFailure;
use crate::image::ImageReference;
use crate::rollout::Intent;

/// The one thing to do next. Each is safe to repeat: it is about the version of the workload that was observed, and the
/// orchestrator refuses it for any other.
#[derive(Clone, Debug, PartialEq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are what they are called")]
pub enum Step {
    /// Have the engine remember that an image was first seen now.
    NoteFirstSeen {
        /// What tells it apart from all others.
        image: String,
    },
    /// Write what is about to be tried. In Kubernetes one patch does both, this and [`Step::Apply`].
    Begin { to: ImageReference, intent: Intent },
    /// Give the workload the image that was to be tried.
    Apply { to: ImageReference },
    /// Have the orchestrator go back to the image before.
    RollBack { to: String, cause: RolloutFailure },
    /// Write that an image failed, now that nothing is updating.
    Quarantine { image: String, cause: String },
    /// Write that somebody went back from an image, so that it is not taken up again.
    NoteRollback { from: String },
}

impl Step {
    /// The kind of step, as one word.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoteFirstSeen { image } => write!(f, "noting that {image} was first seen now"),
            Self::Begin { to, .. } => write!(f, "noting that {to} is about to be tried"),
            Self::Apply { to } => write!(f, "updating it to {to}"),
            Self::RollBack { to, cause } => write!(f, "rolling back to {to}: {cause}"),
            Self::Quarantine { image, cause } => write!(f, "putting {image} in quarantine: {cause}"),
            Self::NoteRollback { from } => write!(f, "noting that somebody rolled back from {from}"),
        }
    }
}
