//! What the container in service shares with others of the host, where that keeps it from being replaced.

use std::collections::HashMap;

use crate::container::{ContainerId, ContainerSummary, RunState};
use crate::document::{Dependency, Obstacle};
use crate::rollout::Rollout;

/// Why the container in service cannot be replaced: another container uses something of it, or it uses something of a
/// container that its successor would not find.
pub(super) fn obstacle(
    rollout: &Rollout,
    dependencies: &HashMap<ContainerId, Vec<Dependency>>,
    containers: &[ContainerSummary],
) -> Option<Obstacle> {
    let serving = rollout.serving.as_ref()?;
    let strangers = containers
        .iter()
        .filter(|container| rollout.member(&container.id).is_none());
    let dependent = strangers
        .filter_map(|container| Some((container, dependencies.get(&container.id)?)))
        .find_map(|(container, dependencies)| {
            let is_ours = |dependency: &&Dependency| {
                dependency
                    .target(containers)
                    .is_some_and(|target| target.id == serving.id)
            };
            let dependency = dependencies.iter().find(is_ours)?;
            Some(Obstacle::HasDependent {
                container: container.name.clone(),
                kind: dependency.kind,
            })
        });
    dependent.or_else(|| {
        let own = dependencies.get(&serving.id).into_iter().flatten();
        own.filter(|dependency| !is_there(dependency, containers))
            .map(|dependency| Obstacle::DependencyMissing {
                container: dependency.container.clone(),
                kind: dependency.kind,
            })
            .next()
    })
}

/// Whether a container with this dependency could be started. A namespace and a link last as long as their container
/// runs; volumes last as long as it exists.
fn is_there(dependency: &Dependency, containers: &[ContainerSummary]) -> bool {
    dependency.target(containers).is_some_and(|holder| {
        !dependency.needs_it_running() || matches!(holder.state, RunState::Running | RunState::Paused)
    })
}
