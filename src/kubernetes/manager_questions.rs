//! The questions to the Manager: asked in the background, each once, and heard of often enough that its UI says ON.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::image::{ImageReference, TargetSettings, manager_reference};
use crate::managed::Managed;
use crate::manager::heartbeat::{Heartbeat, Queries};
use crate::manager::{ImageSource, ManagerError, ManagerStatus, Query};

type Answer = Result<ImageReference, ManagerError>;

/// The source of images, where one is configured, with its open questions. Dropping this ends them at once.
#[derive(Debug)]
pub(super) struct ManagerQuestions<M> {
    source: Option<Arc<M>>,
    tasks: JoinSet<(Query, Answer)>,
    asked: HashMap<Query, Instant>,
    answers: VecDeque<(Query, Answer, Instant)>,
    heartbeat: Heartbeat,
    queries: Queries,
}

impl<M: ImageSource> ManagerQuestions<M> {
    pub(super) fn new(source: Option<M>) -> Self {
        Self {
            source: source.map(Arc::new),
            tasks: JoinSet::new(),
            asked: HashMap::new(),
            answers: VecDeque::new(),
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
        let Some(source) = self.source.clone() else { return };
        if self.asked.contains_key(query) {
            return;
        }
        let query = query.clone();
        self.asked.insert(query.clone(), Instant::now());
        self.tasks.spawn(async move {
            let answer = source.published(&query.image, &query.workload).await;
            (query, answer)
        });
    }

    /// Whether a question is open.
    pub(super) fn is_waiting(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Completes when there is an answer to take in; never where no question is open.
    pub(super) async fn answered(&mut self) {
        if self.answers.is_empty() {
            match self.tasks.join_next().await {
                Some(joined) => self.note(joined.ok()),
                None => std::future::pending().await,
            }
        }
    }

    /// Hands out an answer, each once.
    pub(super) fn next_answer(&mut self, now: DateTime<Utc>) -> Option<(Query, Answer)> {
        while let Some(joined) = self.tasks.try_join_next() {
            self.note(joined.ok());
        }
        let (query, answer, asked) = self.answers.pop_front()?;
        let asked_at = now - TimeDelta::from_std(asked.elapsed()).unwrap_or_default();
        self.heartbeat.note(&query, &answer, asked_at, now);
        Some((query, answer))
    }

    fn note(&mut self, joined: Option<(Query, Answer)>) {
        match joined {
            Some((query, answer)) => {
                let asked = self.asked.remove(&query).unwrap_or_else(Instant::now);
                self.answers.push_back((query, answer, asked));
            }
            // It is unknown which question it was, so all may be asked again.
            None => self.asked.clear(),
        }
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
