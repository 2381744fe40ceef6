//! What the one in service shares with other containers of the host, where that keeps it from being replaced.

use std::collections::HashMap;

use crate::container::ContainerId;
use crate::container::{ContainerSummary, RunState};
use crate::document::{Obstacle, Tie};
use crate::rollout::Rollout;

/// Why the one in service cannot be replaced: another container has something of it, or it has something of one that
/// its successor would look for in vain.
pub(super) fn obstacle(
    rollout: &Rollout,
    ties: &HashMap<ContainerId, Vec<Tie>>,
    containers: &[ContainerSummary],
) -> Option<Obstacle> {
    let serving = rollout.serving.as_ref()?;
    let strangers = containers
        .iter()
        .filter(|container| rollout.member(&container.id).is_none());
    let tied = strangers
        .filter_map(|container| Some((container, ties.get(&container.id)?)))
        .find_map(|(container, ties)| {
            let is_ours = |tie: &&Tie| {
                tie.target(containers)
                    .is_some_and(|target| target.id == serving.id)
            };
            let tie = ties.iter().find(is_ours)?;
            Some(Obstacle::Tied {
                container: container.name.clone(),
                what: tie.what,
            })
        });
    tied.or_else(|| {
        let own = ties.get(&serving.id).into_iter().flatten();
        own.filter(|tie| !is_there(tie, containers))
            .map(|tie| Obstacle::Adrift {
                container: tie.container.clone(),
                what: tie.what,
            })
            .next()
    })
}

/// Whether a container could be started with it. A namespace is there for as long as its holder runs, and so is a link;
/// volumes as long as there is a container of them.
fn is_there(tie: &Tie, containers: &[ContainerSummary]) -> bool {
    tie.target(containers).is_some_and(|holder| {
        !tie.needs_it_running() || matches!(holder.state, RunState::Running | RunState::Paused)
    })
}
