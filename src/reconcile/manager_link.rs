//! A controller's link to the Manager: the source of images, the open questions, and whether the Manager answers.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::info;

use super::questions::{Answer, Answered, AskRegistry, Question, Questions};
use super::reachability::Reachability;
use super::subject::Subject;
use super::upgrade_run::UpgradeRun;
use super::upgrader_check::newer_upgrader;
use crate::container::ContainerId;
use crate::engine::Engine;
use crate::image::{ImageName, TargetSettings, manager_reference};
use crate::manager::heartbeat::{Heartbeat, ManagerStatus, Queries};
use crate::manager::{ImageSource, ManagerError, ManagerRequests, Query, UpgraderImage};
use crate::rollout::Reach;
use crate::text::time;

/// The most open questions, so that a host with many workloads does not overload its Manager.
const MAX_OPEN: usize = 8;

/// How often the Manager is asked for a newer version of the upgrader.
const UPGRADER_INTERVAL: Duration = Duration::from_secs(3600);

/// The source of images, if any is configured, and when it last answered.
pub(crate) struct ManagerLink<M> {
    registry: AskRegistry,
    permits: Arc<Semaphore>,
    source: Option<Arc<M>>,
    pub(super) questions: Questions,
    reachability: Reachability,
    heartbeat: Heartbeat,
    queries: Queries,
    /// When the question about a newer version of the upgrader was last asked.
    upgrader_asked: Option<Instant>,
    /// The last answer to it.
    pub(super) upgrader: Option<UpgraderImage>,
}

impl<M: ImageSource> ManagerLink<M> {
    pub(crate) fn new(registry: AskRegistry, source: Option<M>) -> Self {
        Self {
            registry,
            permits: Arc::new(Semaphore::new(MAX_OPEN)),
            source: source.map(Arc::new),
            questions: Questions::default(),
            reachability: Reachability::default(),
            heartbeat: Heartbeat::default(),
            queries: Queries::new(),
            upgrader_asked: None,
            upgrader: None,
        }
    }

    pub(crate) fn has_source(&self) -> bool {
        self.source.is_some()
    }

    /// Notes the delegates to check in for, with the images to ask about.
    pub(super) fn note_delegates<'a>(
        &mut self,
        delegates: impl Iterator<Item = Subject<'a>>,
        target: &TargetSettings,
    ) {
        self.queries.clear();
        for delegate in delegates.filter(|delegate| !delegate.is_left_alone) {
            if let (Some(workload), Some(Ok(image))) =
                (delegate.workload, delegate.image.map(ImageName::reference))
            {
                let image = manager_reference(image, target);
                let images = self.queries.entry(workload.to_owned()).or_default();
                if !images.contains(&image) {
                    images.push(image);
                }
            }
        }
    }

    /// Asks in the background, unless the same question is open. Returns since when it has been open; `None` without a source.
    pub(crate) fn ask(&mut self, question: &Question) -> Option<Instant> {
        let (source, permits) = (Arc::clone(self.source.as_ref()?), Arc::clone(&self.permits));
        let (registry, asked) = (Arc::clone(&self.registry), question.clone());
        let answer = async move || {
            let _permit = permits.acquire_owned().await;
            match asked {
                Question::Published(query) => {
                    Answer::Published(source.published(&query.image, &query.workload).await)
                }
                Question::Upgrader(current) => Answer::Upgrader(source.published_upgrader(&current).await),
                asked => registry(asked).await,
            }
        };
        Some(self.questions.ask(question, answer))
    }

    /// Asks the open questions of a run.
    pub(super) fn ask_for(&mut self, run: &mut UpgradeRun) {
        for open in run.open_mut() {
            if let Some(since) = self.ask(&open.question) {
                open.since = since;
            }
        }
        run.last_error = self.last_error().map(|error| error.to_string());
    }

    /// Asks whether the Manager can be reached.
    pub(super) fn ask_whether_reachable(&mut self, query: Query) {
        // The same question may have been open for long; the Manager has its time from here on.
        self.reachability.asked = Some(Instant::now());
        self.ask(&Question::Published(query));
    }

    /// Records and returns each answer once.
    pub(super) fn next_answer(&mut self, now: DateTime<Utc>) -> Option<Answered> {
        let answered = self.questions.next()?;
        match (&answered.question, &answered.answer) {
            (Question::Published(query), Answer::Published(answer)) => {
                let asked_at = now - TimeDelta::from_std(answered.asked.elapsed()).unwrap_or_default();
                self.reachability.note_answer(answer, now);
                self.heartbeat.note(query, answer, asked_at, now);
            }
            (_, Answer::NewerUpgrader(Some(known))) => {
                if let Some(UpgraderImage { image, published, .. }) =
                    known.as_ref().filter(|it| it.newer_version_available)
                    && *known != self.upgrader
                {
                    info!(image, published, "a newer version of the upgrader is published");
                }
                self.upgrader.clone_from(known);
            }
            _ => {}
        }
        Some(answered)
    }

    /// Why the Manager's last attempt to answer an open question failed.
    pub(crate) fn last_error(&self) -> Option<ManagerError> {
        self.source.as_ref()?.last_error()
    }

    /// Whether the Manager can be reached, if known. Without a source there is nothing to reach.
    pub(super) fn reach(&self, now: DateTime<Utc>) -> Option<Reach> {
        match self.source {
            Some(_) => self.reachability.known(self.last_error(), now),
            None => Some(Reach::Reachable),
        }
    }

    /// Since when and why the Manager has not answered, for messages; `None` if it answers.
    pub(super) fn problem(&self) -> Option<String> {
        let ManagerStatus {
            problem, answered_at, ..
        } = self.status()?;
        let problem = problem?;
        Some(match answered_at {
            Some(at) => format!("the Manager had not answered since {}: {problem}", time::text(at)),
            None => format!("the Manager had not answered: {problem}"),
        })
    }

    /// Forgets the workloads without a delegate.
    pub(crate) fn forget_absent(&mut self) {
        self.heartbeat.keep(&self.queries);
    }

    /// Checks in with the Manager if its last answer is too old.
    pub(crate) fn check_in(&mut self) {
        if self.has_manager() {
            for query in self.heartbeat.due(&self.queries) {
                self.ask(&Question::Published(query));
            }
        }
    }

    /// How long until [`Self::check_in`] has something to do.
    pub(crate) fn next_check_in(&self) -> Duration {
        if self.has_manager() {
            self.heartbeat.wait(&self.queries)
        } else {
            Duration::MAX
        }
    }

    /// The Manager's last answers; `None` if the image is fixed or there is no source.
    pub(crate) fn status(&self) -> Option<ManagerStatus> {
        self.has_manager().then(|| self.heartbeat.manager_status())
    }

    /// The requests to the Manager so far.
    pub(crate) fn requests(&self) -> ManagerRequests {
        let source = self.source.as_ref();
        source.map_or_else(ManagerRequests::default, |source| source.requests())
    }

    fn has_manager(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.needs_check_in())
    }

    /// Asks whether a newer version of the upgrader, in this container of the engine if any, is published, unless that was done
    /// within the last hour.
    pub(super) fn ask_about_upgrader<E: Engine>(
        &mut self,
        engine: &Arc<E>,
        own: Option<&ContainerId>,
        target: &TargetSettings,
    ) {
        let is_young = |asked: Instant| asked.elapsed() < UPGRADER_INTERVAL;
        if let Some(source) = &self.source
            && !self.upgrader_asked.is_some_and(is_young)
        {
            let (engine, source) = (Arc::clone(engine), Arc::clone(source));
            let (own, target) = (own.cloned(), target.clone());
            let answer = async move || {
                Answer::NewerUpgrader(newer_upgrader(engine.as_ref(), source.as_ref(), own, &target).await)
            };
            self.upgrader_asked = Some(self.questions.ask(&Question::NewerUpgrader, answer));
        }
    }
}
