//! The dependencies of a container on another one: a namespace, volumes, or a link. They do not move to the other
//! container's successor, which has a different id.

use serde_json::Value;

use super::obstacle::{DependencyKind, Obstacle};
use crate::container::{ContainerSummary, Inspected, RunState};

/// The dependency of a container on another container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The kind of the dependency.
    pub kind: DependencyKind,
    /// The other container, by id or by name, as the document writes it.
    pub container: String,
}

impl Dependency {
    /// Whether the other container must run for this container to start. A namespace ends when its holder stops, and the
    /// engine refuses a link to a container that does not run.
    pub fn needs_it_running(&self) -> bool {
        self.kind != DependencyKind::Volumes
    }

    /// Whether the dependency survives a rename of the other container. Docker stores links by id and shows current names.
    pub fn tracks_renames(&self) -> bool {
        self.kind == DependencyKind::Link
    }

    /// Finds the other container: the one with this name, or else the only one whose id starts with the given text. The
    /// engine accepts any unique beginning of an id, and stores it as it was given.
    pub fn target<'a>(&self, containers: &'a [ContainerSummary]) -> Option<&'a ContainerSummary> {
        let wanted = self.container.trim_start_matches('/');
        if wanted.is_empty() {
            return None;
        }
        let by_name = containers.iter().find(|container| container.name == wanted);
        by_name.or_else(|| {
            let mut by_id = containers
                .iter()
                .filter(|container| container.id.as_str().starts_with(wanted));
            by_id.next().filter(|_| by_id.next().is_none())
        })
    }
}

/// Returns the first dependency that prevents the start of a container, and its creation unless it `is_created`. A namespace
/// or link requires that the other container runs. Volumes require that it exists, but a created container has them already.
pub fn missing_dependency(
    dependencies: &[Dependency],
    containers: &[ContainerSummary],
    is_created: bool,
) -> Option<Obstacle> {
    let is_missing = |dependency: &&Dependency| match dependency.target(containers) {
        holder if dependency.needs_it_running() => {
            !holder.is_some_and(|holder| matches!(holder.state, RunState::Running | RunState::Paused))
        }
        holder => holder.is_none() && !is_created,
    };
    let missing = dependencies.iter().find(is_missing)?;
    Some(Obstacle::DependencyMissing {
        container: missing.container.clone(),
        kind: missing.kind,
    })
}

/// Returns the namespaces that the container shares with others. The engine writes them as `container:<id>`.
pub(super) fn namespaces(container: &Inspected) -> impl Iterator<Item = Dependency> {
    [
        (DependencyKind::Network, "/HostConfig/NetworkMode"),
        (DependencyKind::Pid, "/HostConfig/PidMode"),
        (DependencyKind::Ipc, "/HostConfig/IpcMode"),
    ]
    .into_iter()
    .filter_map(|(kind, pointer)| {
        let container = container.text(pointer).strip_prefix("container:")?.to_owned();
        Some(Dependency { kind, container })
    })
}

/// Returns all dependencies of the container on others. `--volumes-from` is stored as it was given, with an optional mode
/// after a colon. A link appears as `/name:/own-name/alias`; user-defined networks store no links here.
pub fn dependencies(container: &Inspected) -> Vec<Dependency> {
    let before_colon = |entry: &str| entry.split(':').next().unwrap_or_default().to_owned();
    let entries = |pointer| container.list(pointer).iter().filter_map(Value::as_str);
    let volumes = entries("/HostConfig/VolumesFrom").map(|source| Dependency {
        kind: DependencyKind::Volumes,
        container: before_colon(source),
    });
    let links = entries("/HostConfig/Links").map(|link| Dependency {
        kind: DependencyKind::Link,
        container: before_colon(link).trim_start_matches('/').to_owned(),
    });
    namespaces(container).chain(volumes).chain(links).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::container::ContainerId;

    fn inspected(document: serde_json::Value) -> Inspected {
        Inspected::new(document).unwrap()
    }

    #[test]
    fn a_dependency_is_found_by_id_or_by_name() {
        let container = |id: &str, name: &str| ContainerSummary {
            id: ContainerId::new(format!("{id:0<64}")),
            name: name.to_owned(),
            state: RunState::Running,
            labels: BTreeMap::new(),
            image: None,
            created: 0,
            host_ports: Vec::new(),
        };
        let all = [
            container("0123456789abcdef", "d1"),
            container("0124", "d2"),
            container("f", "01234"),
        ];
        let container = inspected(json!({ "Id": "0", "HostConfig": {
            "NetworkMode": format!("container:{}", all[1].id.as_str()), "PidMode": "container:d1", "IpcMode": "shareable",
            "VolumesFrom": ["/d1:ro", "0123456789ab", "0124", "012", "01234", "f", "other", ""],
            "Links": ["/d2:/own/db", "/gone:/own/d1"],
        } }));
        let found: Vec<_> = dependencies(&container)
            .into_iter()
            .map(|dependency| {
                (
                    dependency.kind,
                    dependency.target(&all).map_or("none", |target| &target.name),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                (DependencyKind::Network, "d2"),
                (DependencyKind::Pid, "d1"),
                (DependencyKind::Volumes, "d1"),
                (DependencyKind::Volumes, "d1"),
                (DependencyKind::Volumes, "d2"),
                (DependencyKind::Volumes, "none"),
                (DependencyKind::Volumes, "01234"),
                (DependencyKind::Volumes, "01234"),
                (DependencyKind::Volumes, "none"),
                (DependencyKind::Volumes, "none"),
                (DependencyKind::Link, "d2"),
                (DependencyKind::Link, "none"),
            ]
        );
        let alone = inspected(json!({ "Id": "0", "HostConfig": { "NetworkMode": "bridge" } }));
        assert_eq!(dependencies(&alone), []);
    }
}
