//! An operator's commands for one workload of an orchestrator.

use tracing::info;

use super::{Driver, Run, log};
use crate::image::ImageReference;
use crate::managed::{Managed, Orchestrate, Orchestrator};
use crate::reconcile::driver::resolution::Resolution;
use crate::reconcile::upgrade_run::Mode;
use crate::rollout::Intent;

impl<O: Orchestrate> Driver<O> {
    /// Starts a run that gives these workloads these images.
    pub(in crate::reconcile) fn start_rollback(&mut self, all: Vec<(Managed, ImageReference)>) {
        let resolutions = all.into_iter().map(|(managed, to)| {
            let Managed {
                name,
                workload,
                image,
                ..
            } = &managed;
            log!(info, name, workload, from = %image, %to, "rolling back");
            (name.clone(), Resolution::fixed(&managed, to))
        });
        self.run = Run {
            mode: Mode::Upgrade,
            intent: Intent::Rollback,
            resolutions: resolutions.collect(),
            ..Run::default()
        };
    }
}
