//! The releases of the delegates on the host.

use std::collections::BTreeMap;

use super::Reconciler;
use super::operator::{Found, OperatorError, is_here};
use crate::engine::Engine;
use crate::events::Event;
use crate::events::history::{History, Present};
use crate::health::HealthEndpoint;
use crate::manager::ImageSource;

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// The histories of all delegates, or of one. `records` come from the audit log, which may know delegates that are gone.
    ///
    /// # Errors
    /// The engine could not be observed, or there is no such delegate.
    pub async fn history(
        &mut self,
        container: Option<&str>,
        records: impl IntoIterator<Item = Event>,
    ) -> Result<Vec<History>, OperatorError> {
        let mut rollouts = self.observe_all().await?.rollouts;
        // Its service has the history of a task.
        rollouts.retain(|rollout| rollout.owner.task_of.is_none());
        self.find_services().await?;
        let services = self.services.managed();
        let services = services.map(|managed| (managed.name.clone(), Present::from(managed)));
        let containers = rollouts
            .iter()
            .map(|rollout| (rollout.name.clone(), Present::from(rollout)));
        let mut histories = History::of_all(services.chain(containers), records);
        if let Some(container) = container {
            let name = match self.find(container, &rollouts) {
                Ok(Found::Container(rollout)) => rollout.name.clone(),
                Ok(Found::Service(service)) => service.managed.name.clone(),
                Err(_) if histories.iter().any(|history| history.container == container) => {
                    container.to_owned()
                }
                Err(error) => return Err(error),
            };
            histories.retain(|history| history.container == name);
        }
        self.note_images(&mut histories).await?;
        Ok(histories)
    }

    /// Notes which images are still on the host, asking once for each.
    async fn note_images(&self, histories: &mut [History]) -> Result<(), OperatorError> {
        let mut known: BTreeMap<String, bool> = BTreeMap::new();
        let releases = histories.iter_mut().flat_map(|history| &mut history.releases);
        for release in releases {
            let Some(id) = &release.image_id else { continue };
            if !known.contains_key(id) {
                known.insert(id.clone(), is_here(self.engine.as_ref(), id).await?);
            }
            release.is_available = known.get(id).copied();
        }
        Ok(())
    }
}
