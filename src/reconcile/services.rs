//! The Swarm services among the delegates of a host, driven beside the containers.

use chrono::{DateTime, Utc};

use super::Reconciler;
use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::manager::ImageSource;
use crate::status::planned::Planned;

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
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

    /// The plan of the services; `None` if the engine is not a manager.
    pub(crate) async fn plan_services(&mut self, now: DateTime<Utc>) -> Option<Vec<Planned>> {
        if !self.services.orchestrator.is_manager {
            return None;
        }
        if self.services.managed().next().is_some() {
            // Without the engine's records of pauses and delays, the plan shows the rest.
            let _ = self.read_holds().await;
        }
        Some(self.services.plan(&self.core, now))
    }
}
