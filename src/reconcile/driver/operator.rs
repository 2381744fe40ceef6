//! An operator's commands for one workload of an orchestrator.

use tracing::info;

use super::{Driver, Run, log};
use crate::events::Event;
use crate::events::history::Release;
use crate::image::ImageReference;
use crate::managed::{Managed, Orchestrate, Orchestrator};
use crate::reconcile::driver::resolution::Resolution;
use crate::reconcile::operator::{OperatorError, earlier_release};
use crate::reconcile::upgrade_run::Mode;
use crate::rollout::Intent;

/// Whether nothing is in progress there.
pub(in crate::reconcile) fn is_free(managed: &Managed) -> Result<(), OperatorError> {
    if managed.is_in_progress() {
        return Err(OperatorError::InProgress(managed.name.clone()));
    }
    Ok(())
}

/// The image before the present one.
pub(in crate::reconcile) fn image_before(managed: &Managed) -> Result<ImageReference, OperatorError> {
    is_free(managed)?;
    let name = managed.name.clone();
    if let Some(from) = &managed.record.rolled_back_from {
        let from = from.clone();
        return Err(OperatorError::RolledBack { name, from });
    }
    let before = managed.previous_image().and_then(|image| image.parse().ok());
    before.ok_or(OperatorError::NothingBefore(name))
}

/// The image of an earlier release.
pub(in crate::reconcile) fn image_of(
    managed: &Managed,
    release: u64,
    records: impl IntoIterator<Item = Event>,
) -> Result<ImageReference, OperatorError> {
    is_free(managed)?;
    let name = (managed.name.as_str(), managed.into());
    let usable = |found: &Release| found.image.parse().ok();
    earlier_release(name, release, records, usable)
}

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
