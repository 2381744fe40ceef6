//! What an operator can ask for one service.

use tracing::info;

use super::service_resolution::Resolution;
use super::{Reconciler, ServicesRun};
use crate::engine::{Engine, EngineError};
use crate::events::Event;
use crate::events::history::History;
use crate::health::HealthEndpoint;
use crate::image::ImageReference;
use crate::managed::Managed;
use crate::manager::ImageSource;
use crate::reconcile::operator::OperatorError;
use crate::reconcile::upgrade_run::{Mode, UpgradeRun};
use crate::rollout::Intent;

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// Observes the services for a command, which has no second try.
    pub(in crate::reconcile) async fn find_services(&mut self) -> Result<(), EngineError> {
        if self.settings.swarm {
            self.services.observed = self.read_services().await?.unwrap_or_default();
        }
        Ok(())
    }

    /// Starts a run for one service, which tries images again that were rejected there.
    pub(in crate::reconcile) async fn retry_service(
        &mut self,
        service: &Managed,
    ) -> Result<(), OperatorError> {
        if service.is_in_progress() {
            return Err(OperatorError::InProgress(service.name.clone()));
        }
        self.run = UpgradeRun::only(&service.name);
        self.start_services(Mode::Upgrade, Intent::Retry).await;
        Ok(())
    }

    /// Starts a run that takes one service back to its previous image.
    pub(in crate::reconcile) fn roll_back_service(&mut self, service: &Managed) -> Result<(), OperatorError> {
        let name = service.name.clone();
        if service.is_in_progress() {
            return Err(OperatorError::InProgress(name));
        }
        if let Some(from) = &service.record.rolled_back_from {
            let from = from.clone();
            return Err(OperatorError::RolledBack { name, from });
        }
        let before = service.previous_image().and_then(|image| image.parse().ok());
        let before = before.ok_or(OperatorError::NothingBefore(name))?;
        self.start_service_rollback(service, before);
        Ok(())
    }

    /// Starts a run that takes one service to the image of an earlier release.
    pub(in crate::reconcile) fn roll_back_service_to(
        &mut self,
        service: &Managed,
        release: u64,
        records: impl IntoIterator<Item = Event>,
    ) -> Result<(), OperatorError> {
        let name = service.name.clone();
        if service.is_in_progress() {
            return Err(OperatorError::InProgress(name));
        }
        if service.release() == release {
            return Err(OperatorError::AlreadyThere { name, release });
        }
        let records = records.into_iter().filter(|event| event.container == name);
        let history = History::of(&name, Some(service.into()), records.collect());
        let found = history
            .release(release)
            .and_then(|found| found.image.parse().ok());
        let Some(image) = found else {
            let mut known = history.numbers();
            known.retain(|number| *number != service.release());
            return Err(OperatorError::NoSuchRelease { name, release, known });
        };
        self.start_service_rollback(service, image);
        Ok(())
    }

    fn start_service_rollback(&mut self, service: &Managed, to: ImageReference) {
        let Managed {
            id,
            name,
            workload,
            image,
            ..
        } = service;
        info!(container = name, workload, from = %image, %to, "rolling back");
        self.forget_last_run();
        self.run = UpgradeRun::only(name);
        self.services.is_manager = true;
        self.services.run = ServicesRun {
            mode: Mode::Upgrade,
            intent: Intent::Rollback,
            resolutions: [(id.clone(), Resolution::fixed(service, to))].into(),
            ..ServicesRun::default()
        };
    }
}
