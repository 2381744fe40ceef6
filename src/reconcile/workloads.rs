//! An orchestrator's workloads when there is no Docker host.

use chrono::{DateTime, Utc};

use super::controller::{Controller, Core, observe_with_answers};
use super::driver::Driver;
use crate::container::Request;
use crate::document::NewSettings;
use crate::events::Event;
use crate::events::history::History;
use crate::image::TargetSettings;
use crate::managed::{Managed, Orchestrate};
use crate::manager::ImageSource;
use crate::reconcile::clock::Clock;
use crate::reconcile::operator::{OperatorError, image_before};
use crate::reconcile::questions::{Answer, AskRegistry, Question};
use crate::reconcile::reconfigure::{Change, of_rollback, run_of};
use crate::reconcile::subject::Subject;
use crate::reconcile::upgrade_run::UpgradeRun;
use crate::rollout::reason::Reason;
use crate::rollout::{Intent, Policy};
use crate::status::planned::Planned;
use crate::status::report::Report;

/// Manages the workloads of one orchestrator.
pub struct Workloads<O, M> {
    pub(crate) driver: Driver<O>,
    core: Core<M>,
    clock: Clock,
}

impl<O: Orchestrate, M: ImageSource> Workloads<O, M> {
    /// Manages these, with an empty memory.
    pub fn new(
        orchestrator: O,
        registries: AskRegistry,
        source: Option<M>,
        policy: Policy,
        target: TargetSettings,
        clock: Clock,
    ) -> Self {
        Self {
            driver: Driver::new(orchestrator, policy),
            core: Core::new(registries, source, target),
            clock,
        }
    }

    /// Plans: reports the next step for each workload without taking it. Calls `waiting` with the reason for a long wait.
    ///
    /// # Errors
    /// Nothing could be observed.
    pub async fn plan(&mut self, waiting: impl FnMut(&Reason)) -> Result<Vec<Planned>, O::Error> {
        self.core.starting = Some(Intent::Upgrade);
        let now = observe_with_answers(self, waiting).await?;
        Ok(self.driver.plan(&self.core, now))
    }

    /// The releases of all workloads, and why one of them is missing. `records` come from the audit log. Changes nothing.
    ///
    /// # Errors
    /// Nothing could be observed.
    pub async fn history(
        &mut self,
        records: impl IntoIterator<Item = Event>,
    ) -> Result<(Vec<History>, Option<Reason>), O::Error> {
        self.observe().await?;
        let present = self.driver.managed();
        let present = present.map(|managed| (managed.name.clone(), managed.into()));
        let absent = self.driver.found.absent.first();
        let absent = absent.map(|(_, reason)| reason.clone());
        Ok((History::of_all(present, records), absent))
    }

    /// Starts a run that takes each workload back to its previous image, or to a release; `records` are the audit log's.
    ///
    /// # Errors
    /// One of them is missing or has nothing to go back to, or nothing could be observed.
    pub async fn start_rollback(
        &mut self,
        release: Option<&str>,
        request: Request,
        records: &[Event],
    ) -> Result<(), OperatorError> {
        self.observe_all().await?;
        let has_changed = |managed: &Managed| managed.changed_settings().is_some();
        if release.is_none() && self.driver.managed().any(has_changed) {
            return self.take_settings_back(request).await;
        }
        let before = |managed: &Managed| {
            let image = image_before(managed, release, records.iter().cloned())?;
            Ok((managed.clone(), image))
        };
        let all: Result<Vec<_>, OperatorError> = self.driver.managed().map(before).collect();
        let run = UpgradeRun::new(Intent::Rollback(request));
        self.core.run = Driver::<O>::rollback(run, all?, (self.clock)());
        Ok(())
    }

    /// Starts a run that gives all workloads other settings.
    ///
    /// # Errors
    /// One of them is missing, or its settings cannot be changed. Then none is changed. What only the API server knows comes later.
    pub async fn reconfigure(
        &mut self,
        settings: &NewSettings,
        request: Request,
    ) -> Result<Vec<Change>, OperatorError> {
        self.observe_all().await?;
        let objects = self.driver.found.objects.iter();
        let changes = objects.map(|object| self.driver.change_to(object, settings));
        let wanted: Result<Vec<_>, _> = changes.filter_map(Result::transpose).collect();
        let (run, changes) = run_of(wanted?, request, (self.clock)())?;
        self.core.run = run;
        Ok(changes)
    }

    /// Starts a run that takes the last change of settings back, for each workload whose last attempt that was.
    async fn take_settings_back(&mut self, request: Request) -> Result<(), OperatorError> {
        let objects = self.driver.found.objects.iter();
        let mut wanted = Vec::new();
        for object in objects.filter(|it| it.managed.changed_settings().is_some()) {
            wanted.extend(self.driver.change_back(object).await?);
        }
        let (run, _) = run_of(wanted, of_rollback(request), (self.clock)())?;
        self.core.run = run;
        Ok(())
    }

    /// The plan of the run that was started.
    pub fn planned(&self) -> Vec<Planned> {
        self.driver.plan(&self.core, (self.clock)())
    }

    /// Observes all workloads, and returns why one is missing.
    async fn observe_all(&mut self) -> Result<(), OperatorError> {
        let observed = self.observe().await;
        observed.map_err(|error| OperatorError::NotObserved(error.to_string()))?;
        let absent = self.driver.found.absent.first();
        let refused = |(_, reason): &(_, Reason)| Err(OperatorError::Refused(reason.to_string()));
        absent.map_or(Ok(()), refused)
    }
}

impl<O: Orchestrate, M: ImageSource> Controller for Workloads<O, M> {
    type Error = O::Error;
    type Source = M;
    /// The time.
    type Observed = DateTime<Utc>;

    const API: &'static str = O::API;

    fn core(&self) -> &Core<M> {
        &self.core
    }

    fn core_mut(&mut self) -> &mut Core<M> {
        &mut self.core
    }

    async fn observe(&mut self) -> Result<DateTime<Utc>, O::Error> {
        self.driver.observe().await?;
        let Core { manager, target, .. } = &mut self.core;
        manager.note_delegates(self.driver.managed().map(Subject::from), target);
        manager.forget_absent();
        Ok((self.clock)())
    }

    fn time(now: &DateTime<Utc>) -> DateTime<Utc> {
        *now
    }

    async fn note_observation(&mut self, now: &DateTime<Utc>) -> Option<Report> {
        let (all, healthy_time) = (self.driver.managed(), self.driver.policy.healthy_time);
        self.core.ledger.observe(&[], all, healthy_time, *now).await;
        None
    }

    fn subjects<'a>(&'a self, _: &'a DateTime<Utc>) -> impl Iterator<Item = Subject<'a>> {
        self.driver.managed().map(Subject::from)
    }

    async fn new_run(&mut self, intent: Intent, now: &DateTime<Utc>) -> UpgradeRun {
        self.driver.start_run();
        let run = self.core.run_about(intent, self.subjects(now), *now);
        // Without a source, no question is asked.
        let images = self.driver.managed().filter(|_| self.core.manager.has_source());
        run.dating(images.filter_map(|managed| managed.image.undated(&self.core.target, now.date_naive())))
    }

    fn platforms(&self) -> Option<&[String]> {
        self.driver.orchestrator.platforms()
    }

    fn note_answer(&mut self, question: &Question, answer: &Answer) {
        if let (Question::Created(image), Answer::Created(created)) = (question, answer) {
            self.driver.note_created(image, created);
        }
    }

    async fn step(&mut self, now: DateTime<Utc>) -> Option<Report> {
        let mut report = Report::new(now);
        let has_acted = self.driver.step(&mut self.core, &mut report, now).await;
        (!has_acted).then_some(report)
    }

    async fn answered(&mut self) {
        self.core.manager.questions.answered().await;
    }
}
