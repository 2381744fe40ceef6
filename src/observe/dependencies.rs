//! What the one in service shares with other containers of the host, where that keeps it from being replaced.

use std::collections::HashMap;

use crate::container::ContainerId;
use crate::container::{ContainerSummary, RunState};
use crate::document::{Dependency, Obstacle};
use crate::rollout::Rollout;

/// Why the one in service cannot be replaced: another container has something of it, or it has something of one that
/// its successor would look for in vain.
pub(super) fn obstacle(
    rollout: &Rollout,
    dependencies: &HashMap<ContainerId, Vec<Dependency>>,
    containers: &[ContainerSummary],
) -> Option<Obstacle> {
    let serving = rollout.serving.as_ref()?;
    let strangers = containers
        .iter()
        .filter(|container| rollout.member(&container.id).is_none());
    let tied = strangers
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
                what: dependency.what,
            })
        });
    tied.or_else(|| {
        let own = dependencies.get(&serving.id).into_iter().flatten();
        own.filter(|dependency| !is_there(dependency, containers))
            .map(|dependency| Obstacle::DependencyMissing {
                container: dependency.container.clone(),
                what: dependency.what,
            })
            .next()
    })
}

/// Whether a container could be started with it. A namespace is there for as long as its holder runs, and so is a link;
/// volumes as long as there is a container of them.
fn is_there(dependency: &Dependency, containers: &[ContainerSummary]) -> bool {
    dependency.target(containers).is_some_and(|holder| {
        !dependency.needs_it_running() || matches!(holder.state, RunState::Running | RunState::Paused)
    })
}
