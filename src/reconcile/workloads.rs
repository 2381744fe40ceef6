//! The workloads of an orchestrator without a Docker host beside them.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::driver::Driver;
use crate::events::Event;
use crate::events::history::History;
use crate::events::ledger::Ledger;
use crate::image::TargetSettings;
use crate::managed::{Managed, Object, Orchestrate};
use crate::manager::{ImageSource, ManagerStatus};
use crate::reconcile::clock::Clock;
use crate::reconcile::controller::Controller;
use crate::reconcile::manager_link::ManagerLink;
use crate::reconcile::next_word;
use crate::reconcile::operator::image_before;
use crate::reconcile::questions::DirectRegistry;
use crate::reconcile::upgrade_run::Mode;
use crate::rollout::reason::{Reason, WORTH_A_WORD};
use crate::rollout::{Intent, Policy};
use crate::status::planned::Planned;
use crate::status::report::Report;

/// After this many steps a call returns, and reports that there is more to do.
const MAX_STEPS: usize = 50;

/// Manages the workloads of one orchestrator.
pub struct Workloads<O, M> {
    driver: Driver<O>,
    manager: ManagerLink<DirectRegistry, M>,
    clock: Clock,
    starting: Option<(Mode, Intent)>,
    ledger: Ledger,
}

impl<O: Orchestrate, M: ImageSource> Workloads<O, M> {
    /// Manages these, with an empty memory.
    pub fn new(
        orchestrator: O,
        source: Option<M>,
        policy: Policy,
        target: TargetSettings,
        clock: Clock,
    ) -> Self {
        Self {
            driver: Driver::new(orchestrator, policy, target),
            manager: ManagerLink::new(Arc::default(), source),
            clock,
            starting: None,
            ledger: Ledger::new(String::new(), Duration::ZERO),
        }
    }

    /// Records and reports its outcomes in this ledger.
    #[must_use]
    pub fn with_ledger(self, ledger: Ledger) -> Self {
        Self { ledger, ..self }
    }

    /// Resolves moving tags at their registries.
    #[cfg(feature = "kubernetes")]
    #[must_use]
    pub(crate) fn with_registries(mut self, ask: crate::reconcile::questions::AskRegistry) -> Self {
        self.manager.registry = Arc::new(DirectRegistry(Some(ask)));
        self
    }

    /// The objects of the last observation.
    pub fn objects(&self) -> &[Object] {
        &self.driver.found.objects
    }

    async fn observe(&mut self) -> Result<DateTime<Utc>, O::Error> {
        self.driver.observe().await?;
        let Driver { target, .. } = &self.driver;
        self.manager.note_delegates(&[], self.driver.managed(), target);
        self.manager.forget_absent();
        Ok((self.clock)())
    }

    /// Starts a due run, takes the answers that have arrived, and asks what has to be asked.
    async fn ask_and_answer(&mut self, now: DateTime<Utc>) {
        if let Some((mode, intent)) = self.starting.take() {
            self.driver.start(mode, intent, self.manager.has_source(), now);
            self.manager.ask_for(&mut self.driver.run);
            // A fixed image needs no waiting.
            tokio::task::yield_now().await;
        }
        while let Some(answered) = self.manager.next_answer(now) {
            self.driver.note(&answered, now);
        }
        self.manager.ask_for(&mut self.driver.run);
    }

    /// Plans: reports the next step for each workload without taking it. Calls `waiting` with the reason for a long wait.
    ///
    /// # Errors
    /// Nothing could be observed.
    pub async fn plan(&mut self, mut waiting: impl FnMut(&Reason)) -> Result<Vec<Planned>, O::Error> {
        let mut reported = None;
        self.start_run(Mode::Upgrade);
        loop {
            let now = self.observe().await?;
            self.ask_and_answer(now).await;
            let Some(reason) = self.driver.run.awaited() else {
                return Ok(self.driver.plan(now));
            };
            if reason.is_news(&mut reported) {
                waiting(&reason);
            }
            tokio::select! {
                () = self.manager.answered() => {}
                () = tokio::time::sleep(WORTH_A_WORD) => {}
            }
        }
    }

    /// Starts a run for an operator, regardless of earlier failures.
    pub fn start_retry(&mut self) {
        self.starting = Some((Mode::Upgrade, Intent::Retry));
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
    /// Why that is impossible, as a sentence.
    pub async fn start_rollback(&mut self, release: Option<&str>, records: &[Event]) -> Result<(), String> {
        self.observe().await.map_err(|error| error.to_string())?;
        if let Some((_, reason)) = self.driver.found.absent.first() {
            return Err(reason.to_string());
        }
        let before = |managed: &Managed| {
            let image = image_before(managed, release, records.iter().cloned());
            Ok((managed.clone(), image.map_err(|error| error.to_string())?))
        };
        let all: Result<Vec<_>, String> = self.driver.managed().map(before).collect();
        self.driver.start_rollback(all?, (self.clock)());
        Ok(())
    }
}

impl<O: Orchestrate, M: ImageSource> Controller for Workloads<O, M> {
    type Error = O::Error;

    const API: &'static str = O::API;

    fn start_run(&mut self, mode: Mode) {
        self.starting = Some((mode, Intent::Upgrade));
    }

    fn set_next_run(&mut self, next: Option<DateTime<Utc>>) {
        self.driver.next_run = next;
    }

    async fn reconcile(&mut self) -> Result<Report, O::Error> {
        for _ in 0..MAX_STEPS {
            let now = self.observe().await?;
            self.ask_and_answer(now).await;
            let (all, healthy_time) = (self.driver.managed(), self.driver.policy.healthy_time);
            self.ledger.observe(&[], all, healthy_time, now).await;
            let mut report = Report::new(now);
            let step = self.driver.step(&mut report, &mut self.ledger, None, now);
            if step.await {
                continue;
            }
            if let Some(until) = next_word(self.driver.run.longest_wait(), now) {
                report.check_by(until);
            }
            report.delegates.sort_by(|a, b| a.container.cmp(&b.container));
            return Ok(report);
        }
        let now = self.observe().await?;
        let mut report = Report::new(now);
        report.check_by(now + TimeDelta::seconds(1));
        Ok(report)
    }

    async fn answered(&mut self) {
        self.manager.answered().await;
    }

    fn check_in(&mut self) {
        self.manager.check_in();
    }

    fn next_check_in(&self) -> Duration {
        self.manager.next_check_in()
    }

    fn manager_status(&self) -> Option<ManagerStatus> {
        self.manager.status()
    }

    fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}
