//! Resources shared with other containers of the host that prevent a delegate from being replaced.

use super::read::Identities;
use crate::container::ContainerSummary;
use crate::document::{self, Dependency, Obstacle};
use crate::rollout::{Member, Rollout};

/// Why the container in service cannot be replaced: another container uses something of it, or it uses something of a
/// container that its successor would not find. If none is in service: why the candidate cannot be started.
pub(super) fn obstacle(
    rollout: &Rollout,
    identities: &Identities,
    containers: &[ContainerSummary],
) -> Option<Obstacle> {
    let own = rollout.serving.as_ref().or(rollout.candidate.as_ref())?;
    let is_created = rollout.serving.is_none();
    let identity = identities.0.get(&own.id);
    let missing =
        identity.and_then(|own| document::missing_dependency(&own.dependencies, containers, is_created));
    missing.or_else(|| dependent(rollout, own, identities, containers))
}

fn dependent(
    rollout: &Rollout,
    own: &Member,
    identities: &Identities,
    containers: &[ContainerSummary],
) -> Option<Obstacle> {
    let is_own = |target: &ContainerSummary| target.id == own.id;
    let is_ours = |dependency: &&Dependency| dependency.target(containers).is_some_and(is_own);
    let is_stranger = |container: &&ContainerSummary| rollout.member(&container.id).is_none();
    containers.iter().filter(is_stranger).find_map(|container| {
        let identity = identities.0.get(&container.id)?;
        let dependency = identity.dependencies.iter().find(is_ours)?;
        Some(Obstacle::HasDependent {
            container: container.name.clone(),
            kind: dependency.kind,
        })
    })
}
