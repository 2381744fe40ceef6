//! The upgrader's own containers, if it replaces itself.

use std::collections::HashSet;

use crate::container::{ContainerId, ContainerSummary, Role, label};

/// The containers of one list that are instances of this upgrader, or remains of former ones.
#[derive(Debug, Default)]
pub(super) struct OwnFamily(HashSet<ContainerId>);

impl OwnFamily {
    /// The family of this container: itself, the containers created for its name, and the ones that they were to replace.
    pub(super) fn of(own: &ContainerId, containers: &[ContainerSummary]) -> Self {
        let Some(summary) = containers.iter().find(|container| container.id == *own) else {
            // This program's own container is on another engine.
            return Self::default();
        };
        let base = base(summary);
        let ours = containers.iter().filter(|container| is_made_for(container, base));
        let replaced = ours
            .clone()
            .filter_map(|container| container.labels.get(label::REPLACES))
            .map(ContainerId::new);
        let ids = ours.map(|container| container.id.clone());
        Self(ids.chain(replaced).chain([own.clone()]).collect())
    }

    /// Whether this program's own container is not on this engine.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, id: &ContainerId) -> bool {
        self.0.contains(id)
    }
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
