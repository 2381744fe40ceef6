//! The questions to the Manager: asked in the background, each once, and heard of often enough that its UI says ON.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::image::{ImageReference, TargetSettings, manager_reference};
use crate::managed::Managed;
use crate::manager::heartbeat::{Heartbeat, Queries};
use crate::manager::{ImageSource, ManagerError, ManagerStatus, Query};
use crate::reconcile::questions::{Answered, Questions};

type Answer = Result<ImageReference, ManagerError>;

/// The source of images, where one is configured, with its open questions. Dropping this ends them at once.
#[derive(Debug)]
pub(super) struct ManagerQuestions<M> {
    source: Option<Arc<M>>,
    questions: Questions<Query, Answer>,
    heartbeat: Heartbeat,
    queries: Queries,
}

impl<M: ImageSource> ManagerQuestions<M> {
    pub(super) fn new(source: Option<M>) -> Self {
        Self {
            source: source.map(Arc::new),
            questions: Questions::default(),
            heartbeat: Heartbeat::default(),
            queries: Queries::new(),
        }
    }

    pub(super) fn has_source(&self) -> bool {
        self.source.is_some()
    }

    /// Notes which delegates there are to check in for.
    pub(super) fn note_delegates<'a>(
        &mut self,
        all: impl Iterator<Item = &'a Managed>,
        target: &TargetSettings,
    ) {
        self.queries.clear();
        for managed in all.filter(|managed| managed.opted_out.is_none()) {
            if let Ok(image) = managed.image.reference() {
                let query = manager_reference(image, target);
                self.queries.entry(managed.workload.clone()).or_insert(query);
            }
        }
        self.heartbeat.keep(&self.queries);
    }

    /// Asks, unless the same question is open.
    pub(super) fn ask(&mut self, query: &Query) {
        if let Some(source) = self.source.clone() {
            let asked = query.clone();
            let answer = async move { source.published(&asked.image, &asked.workload).await };
            self.questions.ask_for(query, answer);
        }
    }

    /// Whether a question is open.
    pub(super) fn is_waiting(&self) -> bool {
        self.questions.is_waiting()
    }

    /// Completes when there is an answer to take in; never where no question is open.
    pub(super) async fn answered(&mut self) {
        self.questions.answered().await;
    }

    /// Hands out an answer, each once.
    pub(super) fn next_answer(&mut self, now: DateTime<Utc>) -> Option<(Query, Answer)> {
        let Answered {
            question,
            answer,
            asked,
        } = self.questions.next()?;
        let asked_at = now - TimeDelta::from_std(asked.elapsed()).unwrap_or_default();
        self.heartbeat.note(&question, &answer, asked_at, now);
        Some((question, answer))
    }

    /// Why the last attempt to get an answer failed.
    pub(super) fn last_error(&self) -> Option<ManagerError> {
        self.source.as_ref()?.last_error()
    }

    /// Asks where the last answer is long ago.
    pub(super) fn check_in(&mut self) {
        if self.has_manager() {
            for query in self.heartbeat.due(&self.queries) {
                self.ask(&query);
            }
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

    /// The Manager's last answers.
    pub(super) fn status(&self) -> Option<ManagerStatus> {
        self.has_manager().then(|| self.heartbeat.manager_status())
    }

    fn has_manager(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.needs_check_in())
    }
}
