//! The steps that change an orchestrator's workload.

use chrono::{DateTime, Utc};

use super::{Attempt, Managed, Record, SettingsChange};
use crate::document::NewSettings;
use crate::image::ImageReference;
use crate::rollout::Intent;

/// The start of an orchestrator's message if it could not even create a task, which says nothing about the image.
pub const NO_TASK: &str = "nothing could be started: ";

/// The next thing to do. Each step is safe to repeat: it names the observed version of the workload, and the orchestrator
/// refuses any other version.
#[derive(Clone, Debug, PartialEq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are what they are called")]
pub enum Step {
    /// Record on the engine that an image was first seen now.
    NoteFirstSeen {
        /// The text that identifies the image.
        image: String,
    },
    /// Record the next attempt. Also do [`Step::Apply`] if [it begins at once](super::Orchestrator::begins_at_once), or if the attempt is
    /// about other settings, which no other process knows.
    Begin { to: ImageReference, intent: Intent },
    /// Give the workload the image of the recorded attempt.
    Apply { to: ImageReference },
    /// Make the orchestrator go back to the previous image, or to the former settings.
    RollBack { to: String, cause: String },
    /// Record that an image failed, after the update ended. If no task could be created ([`NO_TASK`]), forget it instead.
    Quarantine { image: String, cause: String },
    /// Record that someone else rolled an image back, so that it is not applied again.
    NoteRollback { from: String },
}

impl Step {
    /// Returns the kind of step, as one word.
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    /// Returns the text for the log. If one write both records and applies an attempt, the text describes the second part.
    pub fn words(&self, managed: &Managed) -> String {
        let attempt = managed.record.attempt.as_ref();
        let is_of_settings = attempt.is_some_and(Attempt::is_of_settings);
        match self {
            Self::Begin { intent, .. } if let Some(new) = intent.new_settings(&managed.id) => {
                format!("changing the settings {}", new.names())
            }
            Self::Begin { to, .. } if !managed.orchestrator.begins_at_once() => {
                format!("noting that {to} is about to be tried")
            }
            Self::Begin { to, .. } | Self::Apply { to } => format!("updating it to {to}"),
            Self::RollBack { cause, .. } if is_of_settings => {
                format!("taking the former settings back: {cause}")
            }
            Self::RollBack { to, cause } => format!("rolling back to {to}: {cause}"),
            Self::Quarantine { cause, .. } if is_of_settings => {
                format!("noting that the new settings failed: {cause}")
            }
            Self::Quarantine { image, cause } if cause.contains(NO_TASK) => {
                format!("giving up {image} until the next run: {cause}")
            }
            Self::Quarantine { image, cause } => format!("putting {image} in quarantine: {cause}"),
            Self::NoteFirstSeen { image } => format!("noting that {image} was first seen now"),
            Self::NoteRollback { from } => format!("noting that someone else rolled back from {from}"),
        }
    }

    /// Returns the settings to change with this step, and the mark of the change.
    pub fn new_settings(&self, managed: &Managed) -> Option<(&NewSettings, String)> {
        let Self::Begin { intent, .. } = self else {
            return None;
        };
        let new = intent.new_settings(&managed.id)?;
        let mark = SettingsChange {
            release: managed.next_release(),
            names: new.names(),
        };
        Some((new, mark.to_string()))
    }

    /// Returns the record and the image to write on the workload. A step about the engine's records leaves both as they are.
    pub fn writes(&self, managed: &Managed, now: DateTime<Utc>) -> (Record, Option<String>) {
        let applied = |record: Record| record.with_attempt(|attempt| attempt.is_applied = true);
        let record = || managed.record.clone();
        match self {
            Self::NoteFirstSeen { .. } => (record(), None),
            Self::Begin { to, intent } => {
                let begun = managed.begin(&to.to_string(), intent, now);
                if managed.orchestrator.begins_at_once() || self.new_settings(managed).is_some() {
                    (applied(begun), Some(to.to_string()))
                } else {
                    (begun, None)
                }
            }
            Self::Apply { to } => {
                let record = applied(record()).with_attempt(|attempt| attempt.since = now);
                (record, Some(to.to_string()))
            }
            Self::RollBack { to, cause } => {
                let failed = |attempt: &mut Attempt| attempt.failed = Some(cause.clone());
                (record().with_attempt(failed), Some(to.clone()))
            }
            Self::Quarantine { image, cause } => (managed.quarantined(image, cause, now), None),
            Self::NoteRollback { from } => (managed.rolled_back(from, now), None),
        }
    }
}
