//! The upgrader's own containers, if it replaces itself.

use std::collections::HashSet;

use crate::container::{ContainerId, ContainerSummary, Role, label};

/// The containers of this list that are instances of the upgrader `own`, or remains of former ones: itself, the containers
/// created for its name, and the ones that they were to replace. Empty if `own` is on another engine.
pub(super) fn family(own: &ContainerId, containers: &[ContainerSummary]) -> HashSet<ContainerId> {
    let Some(summary) = containers.iter().find(|container| container.id == *own) else {
        return HashSet::new();
    };
    let base = base(summary);
    let ours = containers.iter().filter(|container| is_made_for(container, base));
    let replaced = ours
        .clone()
        .filter_map(|container| container.labels.get(label::REPLACES))
        .map(ContainerId::new);
    let ids = ours.map(|container| container.id.clone());
    ids.chain(replaced).chain([own.clone()]).collect()
}

/// The name of an instance of the upgrader once it is in service.
fn base(summary: &ContainerSummary) -> &str {
    match Role::parse(&summary.name) {
        (base, Role::Retired | Role::Draining { .. }) => base,
        (base, _) if is_made_for(summary, base) => base,
        _ => &summary.name,
    }
}

fn is_made_for(summary: &ContainerSummary, base: &str) -> bool {
    label::are_ours(|name| summary.labels.get(name).map(String::as_str), base)
}
