//! What an operator asks for: a plan, an attempt, the way back, a pause.

use std::collections::HashMap;

use tracing::info;

use super::{Deployment, Deployments, Run};
use crate::kubernetes::cluster::ClusterError;
use crate::kubernetes::deployment_resolution::Resolution;
use crate::kubernetes::patch;
use crate::managed::next;
use crate::manager::ImageSource;
use crate::reconcile::upgrade_run::Mode;
use crate::rollout::Intent;
use crate::rollout::reason::{Reason, WORTH_A_WORD};
use crate::status::report::Planned;

impl<M: ImageSource> Deployments<M> {
    /// Plans: reports the next step for each Deployment without taking it. `waiting` hears what it waits for, once that takes
    /// long.
    ///
    /// # Errors
    /// The API server cannot be reached.
    pub async fn plan(&mut self, mut waiting: impl FnMut(&Reason)) -> Result<Vec<Planned>, ClusterError> {
        let mut reported = None;
        self.starting = Some((Mode::Upgrade, Intent::Upgrade));
        let now = loop {
            let now = self.observe().await?;
            self.ask_and_answer(now).await;
            if !self.manager.is_waiting() {
                break now;
            }
            if let Some(reason) = self.awaited().filter(|reason| reason.is_news(&mut reported)) {
                waiting(&reason);
            }
            tokio::select! {
                () = self.manager.answered() => {}
                () = tokio::time::sleep(WORTH_A_WORD) => {}
            }
        };
        let plan = self.observed.iter().map(|deployment| {
            let desired = self.desired(&deployment.managed);
            let facts = self.facts(deployment, &desired, true, now);
            let policy = &self.settings.policy;
            let decided = next(&deployment.managed, &desired, policy, &facts, now);
            Planned::of_managed(&deployment.managed, &decided.decision)
        });
        let absent = self
            .absent
            .iter()
            .map(|(name, reason)| Planned::absent(name, reason));
        Ok(plan.chain(absent).collect())
    }

    /// Starts a run for these Deployments that an operator asked for, whatever failed there before.
    pub fn start_retry(&mut self) {
        self.starting = Some((Mode::Upgrade, Intent::Retry));
    }

    /// Starts a run that takes the only Deployment back to its previous image.
    ///
    /// # Errors
    /// Why that cannot be, in a sentence.
    pub async fn start_rollback(&mut self) -> Result<(), String> {
        self.observe().await.map_err(|error| error.to_string())?;
        if let Some((_, reason)) = self.absent.first() {
            return Err(reason.to_string());
        }
        let mut resolutions = HashMap::new();
        for Deployment { managed, .. } in &self.observed {
            let name = &managed.name;
            if managed.is_in_progress() {
                return Err(format!(
                    "{name}: an upgrade is in progress; try again once it is over"
                ));
            }
            if let Some(from) = &managed.record.rolled_back_from {
                return Err(format!("{name}: it was rolled back already, from {from}"));
            }
            let before = managed.previous_image().and_then(|image| image.parse().ok());
            let before =
                before.ok_or_else(|| format!("{name}: no image before this one is recorded on it"))?;
            info!(deployment = name, from = %managed.image, to = %before, "rolling back");
            resolutions.insert(name.clone(), Resolution::fixed(managed, before));
        }
        self.run = Run {
            mode: Mode::Upgrade,
            intent: Intent::Rollback,
            resolutions,
        };
        Ok(())
    }

    /// Pauses the Deployments, or ends their pause.
    ///
    /// # Errors
    /// Why that cannot be.
    pub async fn pause(&mut self, paused: Option<&str>) -> Result<(), ClusterError> {
        self.observe().await?;
        for Deployment {
            managed, document, ..
        } in self.observed.clone()
        {
            let patch = patch::pause(&document, paused.map(str::to_owned));
            self.patch(&managed.name, &patch).await?;
        }
        Ok(())
    }

    /// Those that are not there as they should be, each with the reason.
    pub fn absent(&self) -> &[(String, Reason)] {
        &self.absent
    }
}
