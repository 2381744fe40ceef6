//! The subject of a run's questions: a delegate's container, the upgrader's own one, or a workload of an orchestrator.

use crate::container::ImageId;
use crate::image::ImageName;
use crate::managed::Managed;
use crate::rollout::Rollout;

/// A delegate as a run sees it.
pub(crate) trait Subject {
    /// The name that tells it apart from all others of its kind.
    fn name(&self) -> &str;

    /// Its `DELEGATE_NAME`; `None` for the upgrader itself.
    fn workload(&self) -> Option<&str>;

    /// The image that it runs, if a run may replace that, with its id on the host. Orchestrators know an image only by its name.
    fn running(&self) -> Option<(&ImageName, Option<&ImageId>)>;

    /// Whether its owner, or what it is, forbids to upgrade it.
    fn is_left_alone(&self) -> bool;
}

impl Subject for Rollout {
    fn name(&self) -> &str {
        &self.name
    }

    fn workload(&self) -> Option<&str> {
        (!self.is_upgrader()).then_some(&self.workload)
    }

    fn running(&self) -> Option<(&ImageName, Option<&ImageId>)> {
        let member = self.replaceable()?;
        Some((&member.image, Some(&member.image_id)))
    }

    fn is_left_alone(&self) -> bool {
        self.left_alone().is_some()
    }
}

impl Subject for Managed {
    fn name(&self) -> &str {
        &self.name
    }

    fn workload(&self) -> Option<&str> {
        Some(&self.workload)
    }

    fn running(&self) -> Option<(&ImageName, Option<&ImageId>)> {
        Some((&self.image, None))
    }

    fn is_left_alone(&self) -> bool {
        self.left_alone.is_some()
    }
}
