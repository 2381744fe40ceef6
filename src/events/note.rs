//! Hints that make an event richer: a process remembers of its containers what they do not show. An event has the same
//! id without them.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::event::{Actor, seconds};
use crate::container::{ContainerId, ImageId};
use crate::rollout::{Rollout, Step};

/// The hints for one container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Note {
    /// Why it was given up, in words.
    pub because: Option<String>,
    /// The same in one word.
    pub reason: Option<String>,
    /// The origin of the change.
    pub actor: Option<Actor>,
    /// When it took the name.
    pub promoted_at: Option<DateTime<Utc>>,
    /// Whether it was only seen to run.
    pub is_weak: bool,
    /// How many tasks it had when it said so last.
    pub tasks: Option<u64>,
}

/// The hints for all containers.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    containers: HashMap<ContainerId, Note>,
    /// How long the last pull of an image took, in seconds.
    pulls: HashMap<ImageId, f64>,
}

impl Notes {
    /// The hints for this container.
    pub(super) fn of(&self, id: &ContainerId) -> Note {
        self.containers.get(id).cloned().unwrap_or_default()
    }

    /// How long the pull of this image took, in seconds.
    pub(super) fn pull(&self, image: &ImageId) -> Option<f64> {
        self.pulls.get(image).copied()
    }

    /// Notes how long a pull took.
    pub fn note_pull(&mut self, image: &ImageId, took: Duration) {
        // A replacement in progress needs far fewer pulls than this.
        if self.pulls.len() >= 32 {
            self.pulls.clear();
        }
        let took = TimeDelta::from_std(took).unwrap_or_default();
        self.pulls.insert(image.clone(), seconds(took));
    }

    /// Notes a step that has succeeded. `actor` is who wants what this process does.
    pub(super) fn note_step(&mut self, step: &Step, actor: Actor, now: DateTime<Utc>) {
        let Some(id) = step.container() else { return };
        let note = || Note {
            actor: Some(actor),
            ..self.of(id)
        };
        let note = match step {
            Step::Promote { .. } => Note {
                promoted_at: Some(now),
                ..note()
            },
            Step::Reject { rejection, .. } => Note {
                because: Some(rejection.to_string()),
                reason: Some(rejection.cause.kind().to_owned()),
                ..note()
            },
            Step::Withdraw {
                because: Some(because),
                ..
            } => Note {
                because: Some(because.to_string()),
                reason: Some(because.kind().as_str().to_owned()),
                ..note()
            },
            _ => return,
        };
        self.containers.insert(id.clone(), note);
    }

    /// Notes how many tasks are left to those that are to stop, and forgets containers and images that are gone.
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
