//! The Swarm services among the delegates of a host, driven beside the containers.

use chrono::{DateTime, Utc};

use super::Reconciler;
use super::operator::OperatorError;
use super::operator::is_free;
use super::upgrade_run::{Mode, UpgradeRun};
use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::managed::Managed;
use crate::manager::ImageSource;
use crate::rollout::Intent;
use crate::status::planned::Planned;
use crate::status::report::Report;

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// Starts a run over the services as well.
    pub(super) async fn start_services(&mut self, mode: Mode, intent: Intent) {
        self.services.orchestrator.start();
        self.observe_services().await;
        let now = self.now();
        self.services.start(mode, intent, self.manager.has_source(), now);
        self.manager.ask_for(&mut self.services.run);
    }

    /// Observes the services. The containers do not depend on the result.
    pub(super) async fn observe_services(&mut self) {
        if let Err(error) = self.services.observe().await {
            self.services.orchestrator.note_problem(&error);
        }
    }

    /// Observes the services for a command, which is not retried.
    pub(super) async fn find_services(&mut self) -> Result<(), EngineError> {
        self.services.orchestrator.start();
        self.services.observe().await
    }

    /// Takes the first step that a service needs, and returns `true`. If none needs one, the report says why.
    pub(super) async fn step_services(&mut self, report: &mut Report, now: DateTime<Utc>) -> bool {
        let only = self.run.only_about();
        self.services.step(report, &mut self.ledger, only, now).await
    }

    /// The plan of the services.
    pub(super) async fn plan_services(&mut self, now: DateTime<Utc>) -> Vec<Planned> {
        if self.services.managed().next().is_some() {
            // Without the engine's records of pauses and delays, the plan shows the rest.
            let _ = self.read_holds().await;
        }
        self.services.plan(now)
    }

    /// Starts a run for one service, which also tries images that were rejected before.
    pub(super) async fn retry_service(&mut self, service: &Managed) -> Result<(), OperatorError> {
        is_free(service)?;
        self.run = UpgradeRun::default().limited_to(&service.name);
        self.start_services(Mode::Upgrade, Intent::Retry).await;
        Ok(())
    }
}
