//! Workloads whose containers an orchestrator replaces: Swarm services and Kubernetes Deployments.
//!
//! The orchestrator carries out the rollout. This module decides whether the published image is wanted now, checks whether
//! it became healthy, goes back if not, and remembers images that failed. As with containers, there is no state file: each
//! observation reads the [`Record`] from the labels of the service or the annotations of the Deployment, and [`next`]
//! decides.

mod attempts;
pub mod label;
mod next;
mod orchestrate;
mod pinned;
mod record;
mod row;
mod settings;
mod step;

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

pub use attempts::{Ending, Past};
pub use next::{Decided, Decision, Facts, is_undecided, next};
pub use orchestrate::{Found, Object, Orchestrate, Refusal};
pub use pinned::pinned;
pub use record::{Attempt, FailedImage, Record};
pub use row::Row;
pub use settings::SettingsChange;
pub use step::{NO_TASK, Step};

use crate::health::HealthStatus;
use crate::image::ImageName;
use crate::rollout::reason::{Reason, next_step};
use crate::rollout::{Intent, OwnerSettings, RejectedImage};

/// The program that replaces the containers of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
pub enum Orchestrator {
    /// Docker Swarm.
    Swarm,
    /// Kubernetes.
    Kubernetes,
}

impl Orchestrator {
    /// Whether one write both records an attempt and applies its image, since this orchestrator never rolls back by itself.
    pub fn begins_at_once(self) -> bool {
        self == Self::Kubernetes
    }
}

/// The observed state of a service or Deployment.
#[derive(Clone, Debug, PartialEq)]
pub struct Managed {
    /// The program that replaces its containers.
    pub orchestrator: Orchestrator,
    /// Its id, which is never reused.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its `DELEGATE_NAME`.
    pub workload: String,
    /// The image in its spec.
    pub image: ImageName,
    /// The last change of the settings in its spec.
    pub settings: SettingsChange,
    /// The number of the last change of its tasks' spec, where Kubernetes counts them.
    pub revision: Option<u64>,
    /// When the update that `progress` is about began, where Swarm says so.
    pub updated_at: Option<DateTime<Utc>>,
    /// The progress of the orchestrator's last change.
    pub progress: Progress,
    /// Its tasks.
    pub tasks: Tasks,
    /// The record that earlier runs stored on it.
    pub record: Record,
    /// Why it is never upgraded, if so: its owner opted it out, its kind prevents it, or `SWARM` is off.
    pub left_alone: Option<Reason>,
    /// The owner's settings for when an upgrade may start.
    pub limits: OwnerSettings,
    /// How long the orchestrator itself waits between two tasks.
    pub pace: Duration,
}

/// The progress of the orchestrator's last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The orchestrator has nothing to do.
    Settled {
        /// When the last update was complete, if the orchestrator reports it.
        completed_at: Option<DateTime<Utc>>,
    },
    /// The orchestrator is replacing tasks.
    Updating,
    /// The orchestrator stopped in the middle of an update, after a failure or because someone paused it.
    Paused {
        /// Whether a failure stopped it, rather than a person.
        by_failure: bool,
        /// The orchestrator's message.
        message: String,
    },
    /// The orchestrator is going back to the previous image.
    RollingBack,
    /// The orchestrator went back to the previous image, after a failure or on request. It does not report which.
    RolledBack {
        /// The orchestrator's message.
        message: String,
    },
    /// The orchestrator failed to go back, and has given up.
    RollbackPaused {
        /// The orchestrator's message.
        message: String,
    },
}

/// The tasks of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    /// The wanted number of tasks.
    pub wanted: u64,
    /// The number of running tasks that match the current spec.
    pub running: u64,
    /// When the last of these tasks started to run.
    pub last_started_at: Option<DateTime<Utc>>,
    /// The last failure of a task. Failures of the image that was tried last take precedence.
    pub last_failure: Option<TaskFailure>,
}

/// The failure of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFailure {
    /// When the task failed.
    pub at: DateTime<Utc>,
    /// The image of the task.
    pub image: String,
    /// The release that last changed the settings of the task, as in [`SettingsChange`].
    pub settings: u64,
    /// The orchestrator's message.
    pub error: String,
    /// How long the task had existed, including its start, if that is known.
    pub ran_for: Option<Duration>,
}

impl Tasks {
    /// Whether all wanted tasks run.
    pub fn are_complete(&self) -> bool {
        self.running >= self.wanted
    }

    /// Returns since when all wanted tasks have been running. `None` if some do not run, or none is wanted.
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
    /// Returns the last attempt if its image, or the settings that it changed, are those in the workload's spec.
    pub(crate) fn applied(&self) -> Option<&Attempt> {
        let attempt = self.record.attempt.as_ref();
        attempt.filter(|attempt| {
            let has_settings = self.settings.release == self.record.release;
            attempt.to == self.image.as_str() && (has_settings || !attempt.is_of_settings())
        })
    }

    /// Returns the last attempt if the image and the settings before it are in use: it was not applied yet, or was taken back.
    fn behind(&self) -> Option<&Attempt> {
        let attempt = self.record.attempt.as_ref();
        attempt.filter(|it| it.from == self.image.as_str() && self.applied() != Some(it))
    }

    /// The same, unless its outcome is recorded: settings that failed stay in the record.
    pub(crate) fn taken_back(&self) -> Option<&Attempt> {
        let is_open = |attempt: &&Attempt| !attempt.is_of_settings() || attempt.failed.is_none();
        self.behind().filter(is_open)
    }

    /// Returns the last attempt if it changed the settings that its tasks have now.
    pub fn changed_settings(&self) -> Option<&Attempt> {
        self.applied().filter(|attempt| attempt.is_of_settings())
    }

    /// Returns the number of the next attempt. The mark on the tasks outlives a record that someone removed.
    pub(crate) fn next_release(&self) -> u64 {
        self.record.release.max(self.settings.release) + 1
    }

    /// Whether the orchestrator is working on a change, or is about to, no matter who requested it.
    pub fn is_in_progress(&self) -> bool {
        matches!(self.progress, Progress::Updating | Progress::RollingBack) || self.is_noted()
    }

    /// Whether an attempt is recorded whose image the workload does not have yet.
    pub(crate) fn is_noted(&self) -> bool {
        self.behind().is_some_and(|attempt| !attempt.is_applied)
    }

    /// Returns its health as the orchestrator reports it.
    pub fn health(&self) -> HealthStatus {
        if self.tasks.are_complete() {
            HealthStatus::Healthy
        } else if self.is_in_progress() {
            HealthStatus::Starting
        } else {
            HealthStatus::Unhealthy
        }
    }

    /// Returns the number of the release whose image it should run. `None` if someone else set another image.
    pub fn release(&self) -> Option<u64> {
        let runs = |past: &&Past| past.was_served() && past.image == self.image.as_str();
        match self.applied() {
            Some(_) => Some(self.record.release),
            None if self.record.release == 0 => Some(0),
            None => self.record.history.iter().rfind(runs).map(|past| past.release),
        }
    }

    /// Returns the images that failed here, or that someone rolled back, each with the time.
    pub(crate) fn rejected_images(&self) -> impl Iterator<Item = RejectedImage> {
        let record = &self.record;
        let failed = record.failed.iter();
        let failed = failed.map(|it| RejectedImage::new("rejected", &it.image, it.at));
        let left = record.rolled_back_from.iter().zip(&record.attempt);
        failed.chain(left.map(|(image, attempt)| RejectedImage::new("rolled_back", image, attempt.since)))
    }

    /// Returns the number of the last successful attempt, in which all tasks ran, even for a short time.
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

    /// The next step for a person if it is unhealthy. A rollback cannot itself be rolled back.
    pub fn next_step(&self) -> String {
        let name = &self.name;
        let logs = match self.orchestrator {
            Orchestrator::Swarm => format!("docker service logs {name}"),
            Orchestrator::Kubernetes => format!("kubectl logs deployment/{name}"),
        };
        let before = match self.applied() {
            Some(attempt) if attempt.is_of_settings() => Some("its former settings"),
            _ => self
                .previous_image()
                .filter(|_| self.record.rolled_back_from.is_none()),
        };
        next_step(&logs, name, before)
    }

    /// Returns the image before the present one, if this program replaced that image.
    pub fn previous_image(&self) -> Option<&str> {
        match self.applied() {
            Some(attempt) if !attempt.is_of_settings() => Some(&attempt.from),
            _ => self.record.previous_image.as_deref(),
        }
    }

    /// Returns the reason to keep the image to which an operator's rollback led.
    pub(crate) fn went_back(&self, to: String) -> Reason {
        let delegate = self.name.clone();
        match &self.record.attempt {
            Some(Attempt { from: image, .. }) => Reason::RolledBack {
                delegate,
                image: image.clone(),
                to,
            },
            None => Reason::UpToDate { image: to },
        }
    }

    /// Returns the record to write before trying this image.
    pub fn begin(&self, to: &str, intent: &Intent, now: DateTime<Utc>) -> Record {
        let from = self.image.to_string();
        let over = match &self.record.attempt {
            Some(attempt) if attempt.is_applied => {
                let ending = match attempt.intent {
                    _ if attempt.failed.is_some() => Ending::Rejected,
                    Intent::Rollback(_) => Ending::RolledBack,
                    Intent::Reconfigure(..) => Ending::Reconfigured,
                    _ => Ending::Upgraded,
                };
                Some((ending, attempt.to.clone(), attempt.since))
            }
            _ if self.record.release == 0 => Some((Ending::Original, from.clone(), now)),
            _ => None,
        };
        let record = self.record.clone();
        let record = match over {
            Some((ending, image, at)) => record.with_past(ending, image, at),
            None => record,
        };
        Record {
            release: self.next_release(),
            previous_image: self.previous_image().map(str::to_owned),
            rolled_back_from: match intent {
                Intent::Rollback(_) => {
                    // A second rollback still counts as a rollback from the first image, which is the published one.
                    let first = self.record.rolled_back_from.clone();
                    first.filter(|first| first != to).or_else(|| Some(from.clone()))
                }
                Intent::Reconfigure(..) => self.record.rolled_back_from.clone(),
                _ => None,
            },
            attempt: Some(Attempt {
                from,
                to: to.to_owned(),
                since: now,
                revision: self.revision,
                intent: intent.clone(),
                is_applied: false,
                failed: None,
            }),
            ..record
        }
    }

    /// Returns the record to write after this image failed and the update ended. If no task could start, or if the settings failed,
    /// no image is blamed.
    pub fn quarantined(&self, image: &str, cause: &str, now: DateTime<Utc>) -> Record {
        if self.record.attempt.as_ref().is_some_and(Attempt::is_of_settings) {
            let failed = |attempt: &mut Attempt| attempt.failed = Some(cause.to_owned());
            return self.record.clone().with_attempt(failed);
        }
        if cause.contains(NO_TASK) {
            return Record {
                attempt: None,
                ..self.record.clone()
            };
        }
        let last = self.record.failed.as_ref().filter(|failed| failed.image == image);
        // After a failed rollback, the workload is back on the image that it was meant to leave.
        let left = self.record.rolled_back_from.clone();
        Record {
            attempt: None,
            rolled_back_from: left.filter(|left| *left != self.image.as_str()),
            failed: Some(FailedImage {
                image: image.to_owned(),
                attempts: last.map_or(1, |failed| failed.attempts.saturating_add(1)),
                at: now,
                cause: cause.to_owned(),
            }),
            ..self
                .record
                .clone()
                .with_past(Ending::Rejected, image.to_owned(), now)
        }
    }

    /// Returns the record to write after someone else rolled this image back.
    pub fn rolled_back(&self, from: &str, now: DateTime<Utc>) -> Record {
        Record {
            attempt: None,
            rolled_back_from: Some(from.to_owned())
                .filter(|from| from != self.image.as_str())
                .or_else(|| self.record.rolled_back_from.clone()),
            ..self
                .record
                .clone()
                .with_past(Ending::Withdrawn, from.to_owned(), now)
        }
    }
}
