//! A workload whose containers an orchestrator replaces: a Swarm service or a Kubernetes Deployment.
//!
//! The rollout belongs to the orchestrator. What is added here: whether the published image is wanted here and now,
//! whether it did become healthy, the way back, and the memory of images that failed. As for a container there is no
//! state file: [`Record`] is read from the labels of the service, or the annotations of the Deployment, at every
//! observation, and [`next`] decides.

mod attempts;
pub mod label;
mod next;
mod orchestrate;
mod pinned;
mod record;
mod row;
mod step;

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

pub use attempts::{Ending, Past};
pub use next::{Decided, Decision, Facts, next};
pub use orchestrate::{Found, Object, Orchestrate, Refusal};
pub use pinned::pinned;
pub use record::{Attempt, FailedImage, Record};
pub use row::Row;
pub use step::{NO_TASK, Step};

use crate::health::HealthStatus;
use crate::image::ImageName;
use crate::rollout::reason::Reason;
use crate::rollout::{Intent, OwnerSettings};

/// The program that replaces the containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub enum Orchestrator {
    /// Docker Swarm.
    Swarm,
    /// Kubernetes.
    Kubernetes,
}

impl Orchestrator {
    /// Its name.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether one write notes what is tried and gives it to the workload, since nothing goes back there by itself.
    pub fn begins_at_once(self) -> bool {
        self == Self::Kubernetes
    }
}

/// A service or a Deployment, as it was observed.
#[derive(Clone, Debug, PartialEq)]
pub struct Managed {
    /// The program that replaces its containers.
    pub orchestrator: Orchestrator,
    /// Its id, which no other one ever has.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its `DELEGATE_NAME`.
    pub workload: String,
    /// The image that it is to run.
    pub image: ImageName,
    /// How far the orchestrator is.
    pub progress: Progress,
    /// Its tasks.
    pub tasks: Tasks,
    /// The record that earlier runs wrote there.
    pub record: Record,
    /// Why it is never upgraded, if so: its owner opted it out, its kind forbids it, or `SWARM` does not want it.
    pub left_alone: Option<Reason>,
    /// When its owner lets an upgrade begin.
    pub limits: OwnerSettings,
    /// How long the orchestrator itself waits from one task to the next.
    pub pace: Duration,
}

/// How far the orchestrator is with what it was last asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has nothing to do. If it says so, since when.
    Settled {
        /// When the last update was complete.
        completed_at: Option<DateTime<Utc>>,
    },
    /// It replaces tasks.
    Updating,
    /// It has stopped in the middle: after a failure, or because someone paused it.
    Paused {
        /// Whether a failure stopped it, and not a person.
        by_failure: bool,
        /// In its own words.
        message: String,
    },
    /// It goes back to what was before.
    RollingBack,
    /// It went back to the image before, after a failure or on request. It does not say which.
    RolledBack {
        /// In its own words.
        message: String,
    },
    /// It failed on its way back, and does nothing more.
    RollbackPaused {
        /// In its own words.
        message: String,
    },
}

/// The tasks of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    /// How many are to run.
    pub wanted: u64,
    /// How many of these run what the workload is to run.
    pub running: u64,
    /// When the last one of these began to run.
    pub last_started_at: Option<DateTime<Utc>>,
    /// The last one that failed: of the image that was tried last, where one of that did.
    pub last_failure: Option<TaskFailure>,
}

/// A task that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFailure {
    /// When.
    pub at: DateTime<Utc>,
    /// The image that it was to run.
    pub image: String,
    /// In the orchestrator's words.
    pub error: String,
    /// How long it had run, with its start, if that is known.
    pub ran_for: Option<Duration>,
}

impl Tasks {
    /// Whether all of them run.
    pub fn are_complete(&self) -> bool {
        self.running >= self.wanted
    }

    /// Since when all of them run; `None` if not all do, or none is to.
    pub fn complete_since(&self) -> Option<DateTime<Utc>> {
        self.last_started_at
            .filter(|_| self.are_complete() && self.wanted > 0)
    }
}

impl fmt::Display for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} tasks run", self.running, self.wanted)?;
        match self.last_failure.as_ref().filter(|_| !self.are_complete()) {
            Some(failure) => write!(f, "; the last one that failed: {}", failure.error),
            None => Ok(()),
        }
    }
}

impl Managed {
    /// The last attempt, if the workload's spec has its image.
    fn applied(&self) -> Option<&Attempt> {
        let attempt = self.record.attempt.as_ref();
        attempt.filter(|attempt| attempt.to == self.image.as_str())
    }

    /// Whether the orchestrator is at work, or is about to be, for whomever.
    pub fn is_in_progress(&self) -> bool {
        let is_begun = |attempt: &Attempt| !attempt.is_applied && attempt.from == self.image.as_str();
        matches!(self.progress, Progress::Updating | Progress::RollingBack)
            || self.record.attempt.as_ref().is_some_and(is_begun)
    }

    /// Its health, as far as the orchestrator sees it.
    pub fn health(&self) -> HealthStatus {
        if self.tasks.are_complete() {
            HealthStatus::Healthy
        } else if self.is_in_progress() {
            HealthStatus::Starting
        } else {
            HealthStatus::Unhealthy
        }
    }

    /// The number of the release whose image it is to run; `None` if that is an image that someone else gave it.
    pub fn release(&self) -> Option<u64> {
        let runs = |past: &&Past| past.was_served() && past.image == self.image.as_str();
        match self.applied() {
            Some(_) => Some(self.record.release),
            None if self.record.release == 0 => Some(0),
            None => self.record.history.iter().rfind(runs).map(|past| past.release),
        }
    }

    /// The number of the last attempt that succeeded: all its tasks ran, for however short a time.
    pub fn successful_release(&self) -> u64 {
        let is_settled = matches!(self.progress, Progress::Settled { .. });
        match self
            .applied()
            .filter(|_| is_settled)
            .and(self.tasks.complete_since())
        {
            Some(_) => self.record.release,
            None => self
                .record
                .before(self.record.release)
                .map_or(0, |past| past.release),
        }
    }

    /// The image before the present one, if this program replaced that.
    pub fn previous_image(&self) -> Option<&str> {
        match self.applied() {
            Some(attempt) => Some(&attempt.from),
            None => self.record.previous_image.as_deref(),
        }
    }

    /// The record to write before trying this image.
    pub fn begin(&self, to: &str, intent: Intent, now: DateTime<Utc>) -> Record {
        let from = self.image.to_string();
        let over = match &self.record.attempt {
            Some(attempt) if attempt.is_applied => {
                let ending = match attempt.intent {
                    Intent::Rollback => Ending::RolledBack,
                    Intent::Upgrade | Intent::Retry => Ending::Upgraded,
                };
                Some((ending, attempt.to.clone(), attempt.since))
            }
            _ if self.record.release == 0 => Some((Ending::Original, from.clone(), now)),
            _ => None,
        };
        let history = over.map(|(ending, image, at)| self.history_with(ending, image, at));
        Record {
            release: self.record.release + 1,
            history: history.unwrap_or_else(|| self.record.history.clone()),
            previous_image: self.previous_image().map(str::to_owned),
            rolled_back_from: (intent == Intent::Rollback).then(|| from.clone()),
            attempt: Some(Attempt {
                from,
                to: to.to_owned(),
                since: now,
                intent,
                is_applied: false,
                failed: None,
            }),
            failed: self.record.failed.clone(),
        }
    }

    /// The record to write once this image has failed and nothing is updating. One of which no task could be made is not blamed.
    pub fn quarantined(&self, image: &str, cause: &str, now: DateTime<Utc>) -> Record {
        if cause.contains(NO_TASK) {
            return Record {
                attempt: None,
                ..self.record.clone()
            };
        }
        let last = self.record.failed.as_ref().filter(|failed| failed.image == image);
        // After a rollback that failed, the workload is back on the image that it was to leave.
        let left = self.record.rolled_back_from.clone();
        Record {
            attempt: None,
            rolled_back_from: left.filter(|left| *left != self.image.as_str()),
            history: self.history_with(Ending::Rejected, image.to_owned(), now),
            failed: Some(FailedImage {
                image: image.to_owned(),
                attempts: last.map_or(1, |failed| failed.attempts.saturating_add(1)),
                at: now,
                cause: cause.to_owned(),
            }),
            ..self.record.clone()
        }
    }

    /// The attempts that are over, once the last one is.
    fn history_with(&self, ending: Ending, image: String, at: DateTime<Utc>) -> Vec<Past> {
        let mut history = self.record.history.clone();
        let release = self.record.release;
        Past {
            release,
            ending,
            image,
            at,
        }
        .add(&mut history);
        history
    }

    /// The record to write once someone else went back from this image.
    pub fn rolled_back(&self, from: &str, now: DateTime<Utc>) -> Record {
        Record {
            attempt: None,
            history: self.history_with(Ending::Withdrawn, from.to_owned(), now),
            rolled_back_from: Some(from.to_owned()),
            ..self.record.clone()
        }
    }
}
