//! The subject of a run's questions: a delegate's container, the upgrader's own, or a workload of an orchestrator.

use crate::container::ImageId;
use crate::image::ImageName;
use crate::managed::Managed;
use crate::rollout::Rollout;

/// A delegate as a run sees it.
pub struct Subject<'a> {
    /// Its container name, or the id of an orchestrator's workload: a service may have a container's name.
    pub(super) key: &'a str,
    /// Its `DELEGATE_NAME`; `None` for the upgrader itself.
    pub(super) workload: Option<&'a str>,
    /// The image of its container, whichever that is during a replacement.
    pub(super) image: Option<&'a ImageName>,
    /// The running image, if a run may replace it, with its id on the host. Orchestrators know images only by name.
    pub(super) running: Option<(&'a ImageName, Option<&'a ImageId>)>,
    /// Whether its owner or its nature forbids upgrades.
    pub(super) is_left_alone: bool,
}

impl<'a> From<&'a Rollout> for Subject<'a> {
    fn from(rollout: &'a Rollout) -> Self {
        let member = rollout.replaceable();
        Self {
            key: &rollout.name,
            workload: (!rollout.is_upgrader()).then_some(&rollout.workload),
            image: rollout.representative().map(|member| &member.image),
            running: member.map(|member| (&member.image, Some(&member.image_id))),
            is_left_alone: rollout.owner.left_alone().is_some(),
        }
    }
}

impl<'a> From<&'a Managed> for Subject<'a> {
    fn from(managed: &'a Managed) -> Self {
        Self {
            key: &managed.id,
            workload: Some(&managed.workload),
            image: Some(&managed.image),
            running: Some((&managed.image, None)),
            is_left_alone: managed.left_alone.is_some(),
        }
    }
}
