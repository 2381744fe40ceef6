//! The subject of a run's questions: a delegate's container, the upgrader's own one, or a workload of an orchestrator.

use crate::container::ImageId;
use crate::image::ImageName;
use crate::managed::Managed;
use crate::rollout::Rollout;

/// A delegate as a run sees it.
pub(crate) struct Subject<'a> {
    /// The name that tells it apart from all others of its kind.
    pub(super) name: &'a str,
    /// Its `DELEGATE_NAME`; `None` for the upgrader itself.
    pub(super) workload: Option<&'a str>,
    /// The image that it runs, if a run may replace that, with its id on the host. Orchestrators know an image only by its name.
    pub(super) running: Option<(&'a ImageName, Option<&'a ImageId>)>,
    /// Whether its owner, or what it is, forbids to upgrade it.
    pub(super) is_left_alone: bool,
}

impl<'a> From<&'a Rollout> for Subject<'a> {
    fn from(rollout: &'a Rollout) -> Self {
        let member = rollout.replaceable();
        Self {
            name: &rollout.name,
            workload: (!rollout.is_upgrader()).then_some(&rollout.workload),
            running: member.map(|member| (&member.image, Some(&member.image_id))),
            is_left_alone: rollout.left_alone().is_some(),
        }
    }
}

impl<'a> From<&'a Managed> for Subject<'a> {
    fn from(managed: &'a Managed) -> Self {
        Self {
            name: &managed.name,
            workload: Some(&managed.workload),
            running: Some((&managed.image, None)),
            is_left_alone: managed.left_alone.is_some(),
        }
    }
}
