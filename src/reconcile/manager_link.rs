//! The reconciler's side of the Manager: the source of images, and what is known of whether it answers.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::reachability::Reachability;
use crate::image::{TargetSettings, manager_reference};
use crate::manager::heartbeat::{Heartbeat, ManagerStatus, Queries};
use crate::manager::{Answers, ImageSource, Query};
use crate::rollout::{Reach, Rollout};

/// The source of images, where one is configured, and when it was last heard of.
#[derive(Debug)]
pub(super) struct ManagerLink<M> {
    source: Option<Arc<M>>,
    reachability: Reachability,
    heartbeat: Heartbeat,
    queries: Queries,
}

impl<M: ImageSource> ManagerLink<M> {
    pub(super) fn new(source: Option<M>) -> Self {
        Self {
            source: source.map(Arc::new),
            reachability: Reachability::default(),
            heartbeat: Heartbeat::default(),
            queries: Queries::new(),
        }
    }

    pub(super) fn source(&self) -> Option<&M> {
        self.source.as_deref()
    }

    /// Notes which delegates there are to check in for, each with the image to ask about.
    pub(super) fn note_delegates(&mut self, rollouts: &[Rollout], target: &TargetSettings) {
        self.queries.clear();
        for rollout in rollouts.iter().filter(|rollout| !rollout.opted_out) {
            // In the middle of a replacement, too: a delegate is there all the time, whichever container serves.
            if let Some(Ok(image)) = rollout.representative().map(|member| member.image.reference()) {
                self.queries
                    .entry(rollout.workload.clone())
                    .or_insert_with(|| manager_reference(image, target));
            }
        }
    }

    /// Notes what the Manager answered when a run asked it.
    pub(super) fn note_answers(&mut self, answers: &Answers, now: DateTime<Utc>) {
        self.heartbeat.keep(&self.queries);
        self.heartbeat.note(answers, now);
    }

    /// Takes in the answer to [`Self::ask`], if there is one by now.
    pub(super) fn collect_answer(&mut self, now: DateTime<Utc>) {
        self.reachability.collect(now);
    }

    /// Whether the Manager can be reached, if that is known. Without a source there is nothing to reach.
    pub(super) fn reach(&self, now: DateTime<Utc>) -> Option<Reach> {
        match self.source {
            Some(_) => self.reachability.known(now),
            None => Some(Reach::Reachable),
        }
    }

    /// Starts to ask whether the Manager can be reached, in the background.
    pub(super) fn ask(&mut self, query: Query) {
        if let Some(source) = &self.source {
            self.reachability.ask(source, query);
        }
    }

    /// Checks in with the Manager where the last answer is long ago.
    pub(super) fn check_in(&mut self, now: DateTime<Utc>) {
        if let Some(source) = &self.source
            && source.needs_check_in()
        {
            self.heartbeat.check_in(source, &self.queries, now);
        }
    }

    /// How long until [`Self::check_in`] has something to do.
    pub(super) fn next_check_in(&self) -> Duration {
        if self.has_manager() {
            self.heartbeat.wait(&self.queries)
        } else {
            Duration::MAX
        }
    }

    /// The Manager's last answers; `None` where the image is fixed or there is no source.
    pub(super) fn status(&self) -> Option<ManagerStatus> {
        self.has_manager().then(|| self.heartbeat.manager_status())
    }

    fn has_manager(&self) -> bool {
        self.source().is_some_and(ImageSource::needs_check_in)
    }
}
