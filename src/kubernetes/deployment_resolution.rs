//! Which image a Deployment should run: what the Manager publishes, by its tag. No registry is asked: the nodes pull.

use crate::image::{ImageReference, TargetSettings, resolve};
use crate::managed::Managed;
use crate::manager::{ManagerError, Query};
use crate::rollout::reason::Reason;
use crate::rollout::wanted::{Wanted, up_to_date, wanted};

/// The answer so far to which image one Deployment should run.
pub(super) type Resolution = crate::managed::Resolution<Query>;

impl Resolution {
    /// The question about a Deployment; `None` where nothing is asked about it.
    pub(super) fn of(managed: &Managed, settings: &TargetSettings) -> Option<Self> {
        let is_asked = managed.opted_out.is_none();
        is_asked.then(|| Self::first(managed, settings, |query| query))
    }

    /// Takes in an answer, if it is to the open question.
    pub(super) fn note(
        &mut self,
        managed: &Managed,
        query: &Query,
        answer: &Result<ImageReference, ManagerError>,
        settings: &TargetSettings,
    ) {
        let Some(current) = self.asked_about(managed, query) else {
            return;
        };
        self.resolve(match answer {
            Err(error) => Err(Reason::target_unknown(error)),
            Ok(published) => match wanted(resolve(published, current, settings), &managed.image) {
                Ok(Wanted::Image(reference)) => Ok(reference),
                // The same reference is the same for Kubernetes, too: it would restart nothing.
                Ok(Wanted::Digest(_)) => Err(up_to_date(&managed.image)),
                Err(reason) => Err(reason),
            },
        });
    }
}
