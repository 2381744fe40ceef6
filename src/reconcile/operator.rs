//! What an operator asks for one delegate.

use tracing::info;

use super::Reconciler;
use crate::engine::Engine;
use crate::health::HealthEndpoint;
use crate::manager::Published;
use crate::reconcile::demand::{Refusal, find, way_back};
use crate::reconcile::upgrade_run::{Campaign, Mode};
use crate::rollout::{Demand, Rollout};

impl<E: Engine, M: Published, H: HealthEndpoint> Reconciler<E, M, H> {
    /// Begins a pass over one delegate, at an operator's word, in spite of what was rejected there before.
    ///
    /// # Errors
    /// Why there is nothing to do.
    pub async fn retry(&mut self, container: &str) -> Result<(), Refusal> {
        let (rollouts, _) = self.look().await?;
        let rollout = self.named(container, &rollouts)?;
        let name = rollout.name.clone();
        if rollout.serving.is_none() {
            return Err(Refusal::UnderWay(name));
        }
        let only: Vec<Rollout> = rollouts
            .into_iter()
            .filter(|rollout| rollout.name == name)
            .collect();
        self.begin_with(Mode::Act, Demand::Retry, &only).await;
        self.only = Some(name);
        Ok(())
    }

    /// Begins a pass that takes one delegate back to the image before, at an operator's word.
    ///
    /// # Errors
    /// Why it cannot go back.
    pub async fn rollback(&mut self, container: &str) -> Result<(), Refusal> {
        let (rollouts, _) = self.look().await?;
        let rollout = self.named(container, &rollouts)?;
        let back = way_back(self.engine.as_ref(), rollout).await?;
        let name = rollout.name.clone();
        self.forget_last_pass(std::slice::from_ref(rollout));
        info!(delegate = name, from = back.from, to = %back.reference, "rolling back");
        let now = self.now();
        self.campaign = Some(Campaign::rollback(&name, back.reference, back.image, now));
        self.only = Some(name);
        Ok(())
    }

    fn named<'a>(&self, container: &str, rollouts: &'a [Rollout]) -> Result<&'a Rollout, Refusal> {
        if self.settings.policy.health_only {
            return Err(Refusal::HealthOnly);
        }
        find(container, rollouts, &self.settings.scope.workload_names)
    }
}
