//! Details for events that the containers do not show, so this process remembers them. They do not affect the id of an event.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::event::seconds;
use crate::container::{ContainerId, ImageId};
use crate::rollout::{Rollout, Step};

/// The details about one container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Note {
    /// Why it was given up, as a sentence.
    pub because: Option<String>,
    /// The same reason in one word.
    pub reason: Option<String>,
    /// When it took over the delegate's name.
    pub promoted_at: Option<DateTime<Utc>>,
    /// Whether its only health check was that it runs.
    pub is_weak: bool,
    /// How many tasks it had at its last report.
    pub tasks: Option<u64>,
}

/// The details about all containers.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    containers: HashMap<ContainerId, Note>,
    /// How long the last pull of an image took, in seconds.
    pulls: HashMap<ImageId, f64>,
}

impl Notes {
    /// The details about this container.
    pub(super) fn of(&self, id: &ContainerId) -> Note {
        self.containers.get(id).cloned().unwrap_or_default()
    }

    /// How long the pull of this image took, in seconds.
    pub(super) fn pull(&self, image: &ImageId) -> Option<f64> {
        self.pulls.get(image).copied()
    }

    /// Notes how long a pull took.
    pub fn note_pull(&mut self, image: &ImageId, took: Duration) {
        // The replacements in progress need far fewer pulls than this.
        if self.pulls.len() >= 32 {
            self.pulls.clear();
        }
        self.pulls.insert(image.clone(), seconds(took));
    }

    /// Notes a successful step.
    pub(super) fn note_step(&mut self, step: &Step, now: DateTime<Utc>) {
        let Some(id) = step.container() else { return };
        let note = self.containers.entry(id.clone()).or_default();
        match step {
            Step::Promote { .. } => note.promoted_at = Some(now),
            Step::Reject { rejection, .. } => {
                note.because = Some(rejection.to_string());
                note.reason = Some(rejection.cause.kind().to_owned());
            }
            Step::Withdraw {
                because: Some(because),
                ..
            } => {
                note.because = Some(because.to_string());
                note.reason = Some(because.kind().as_str().to_owned());
            }
            _ => {}
        }
    }

    /// Notes how many tasks the stopping containers have left, and forgets containers and images that no longer exist.
    pub(super) fn note_rollouts(&mut self, rollouts: &[Rollout]) {
        for member in rollouts.iter().flat_map(Rollout::finishing) {
            if let Some(work) = member.work {
                self.containers.entry(member.id.clone()).or_default().tasks = Some(work.tasks);
            }
        }
        for candidate in rollouts.iter().filter_map(|rollout| rollout.candidate.as_ref()) {
            self.containers.entry(candidate.id.clone()).or_default().is_weak = candidate.health.is_weak();
        }
        let is_there = |id: &ContainerId| rollouts.iter().any(|rollout| rollout.member(id).is_some());
        self.containers.retain(|id, _| is_there(id));
    }
}
