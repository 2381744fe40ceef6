//! The steps that change a workload of an orchestrator.

use std::fmt;

use chrono::{DateTime, Utc};

use super::{Attempt, Managed, Orchestrator, Record};
use crate::image::ImageReference;
use crate::rollout::Intent;

/// The beginning of the words of an orchestrator that could not even make a task. They say nothing of its image.
pub const NO_TASK: &str = "nothing could be started: ";

/// The one thing to do next. Each is safe to repeat: it is about the version of the workload that was observed, and the
/// orchestrator refuses it for any other.
#[derive(Clone, Debug, PartialEq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are what they are called")]
pub enum Step {
    /// Have the engine remember that an image was first seen now.
    NoteFirstSeen {
        /// The text that tells it apart from all others.
        image: String,
    },
    /// Write what is about to be tried; where [`Orchestrator::begins_at_once`], [`Step::Apply`] with it.
    Begin { to: ImageReference, intent: Intent },
    /// Give the workload the image that was to be tried.
    Apply { to: ImageReference },
    /// Have the orchestrator go back to the image before.
    RollBack { to: String, cause: String },
    /// Write that an image failed, now that nothing is updating; or forget it, where no task of it could be made ([`NO_TASK`]).
    Quarantine { image: String, cause: String },
    /// Write that someone else went back from an image, so that it is not taken up again.
    NoteRollback { from: String },
}

impl Step {
    /// The kind of step, as one word.
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    /// The step as it is logged: where one write does both, to note what is tried is to try it.
    pub fn words(&self, orchestrator: Orchestrator) -> String {
        match self {
            Self::Begin { to, .. } if orchestrator.begins_at_once() => {
                Self::Apply { to: to.clone() }.to_string()
            }
            step => step.to_string(),
        }
    }

    /// The record to write on the workload, and the image to give it; `None` for what is not written there as a record.
    pub fn writes(&self, managed: &Managed, now: DateTime<Utc>) -> Option<(Record, Option<String>)> {
        let applied = |record: Record| record.with_attempt(|attempt| attempt.is_applied = true);
        let record = || managed.record.clone();
        Some(match self {
            Self::NoteFirstSeen { .. } => return None,
            Self::Begin { to, intent } => {
                let begun = managed.begin(&to.to_string(), *intent, now);
                if managed.orchestrator.begins_at_once() {
                    (applied(begun), Some(to.to_string()))
                } else {
                    (begun, None)
                }
            }
            Self::Apply { to } => (applied(record()), Some(to.to_string())),
            Self::RollBack { to, cause } => {
                let failed = |attempt: &mut Attempt| attempt.failed = Some(cause.clone());
                (record().with_attempt(failed), Some(to.clone()))
            }
            Self::Quarantine { image, cause } => (managed.quarantined(image, cause, now), None),
            Self::NoteRollback { from } => (managed.rolled_back(from, now), None),
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoteFirstSeen { image } => write!(f, "noting that {image} was first seen now"),
            Self::Begin { to, .. } => write!(f, "noting that {to} is about to be tried"),
            Self::Apply { to } => write!(f, "updating it to {to}"),
            Self::RollBack { to, cause } => write!(f, "rolling back to {to}: {cause}"),
            Self::Quarantine { image, cause } if cause.contains(NO_TASK) => {
                write!(f, "giving up {image} until the next run: {cause}")
            }
            Self::Quarantine { image, cause } => write!(f, "putting {image} in quarantine: {cause}"),
            Self::NoteRollback { from } => write!(f, "noting that someone else rolled back from {from}"),
        }
    }
}
