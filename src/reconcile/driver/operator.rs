//! An operator's commands for one workload of an orchestrator.

use chrono::{DateTime, Utc};
use tracing::info;

use super::{Driver, log};
use crate::image::ImageReference;
use crate::managed::{Managed, Orchestrate, Orchestrator};
use crate::reconcile::upgrade_run::{Mode, UpgradeRun};
use crate::rollout::Intent;

impl<O: Orchestrate> Driver<O> {
    /// Starts a run that gives these workloads these images.
    pub(in crate::reconcile) fn start_rollback(
        &mut self,
        all: Vec<(Managed, ImageReference)>,
        now: DateTime<Utc>,
    ) {
        self.run = UpgradeRun::new(Mode::Upgrade, Intent::Rollback);
        for (managed, to) in all {
            let Managed {
                name,
                workload,
                image,
                ..
            } = &managed;
            log!(info, name, workload, from = %image, %to, "rolling back");
            self.run = std::mem::take(&mut self.run).taking_back(name, to, None, now);
        }
    }
}
