//! Dependencies of a container on another one: a namespace, volumes, or a link. None of them follows to the other one's
//! successor, which has another id.

use serde_json::Value;

use super::Obstacle;
use crate::container::{ContainerSummary, Inspected, RunState};

/// The part of a container that another container shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub enum DependencyKind {
    /// Its network namespace.
    #[strum(to_string = "network")]
    Network,
    /// Its PID namespace.
    #[strum(to_string = "PID namespace")]
    Pid,
    /// Its IPC namespace.
    #[strum(to_string = "IPC namespace")]
    Ipc,
    /// Its volumes (`--volumes-from`).
    #[strum(to_string = "volumes")]
    Volumes,
    /// A link to it.
    #[strum(to_string = "link")]
    Link,
}

/// Something that a container has of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// A namespace, the volumes, or a link.
    pub kind: DependencyKind,
    /// The other container, as the document names it: by its id, or by its name.
    pub container: String,
}

impl Dependency {
    /// Whether nothing can be started with it unless the other one runs. A namespace ends with its holder's life, and
    /// the engine refuses a link to what does not run.
    pub fn needs_it_running(&self) -> bool {
        self.kind != DependencyKind::Volumes
    }

    /// Whether it survives a rename of the other container. Docker stores a link by id and shows the current name.
    pub fn tracks_renames(&self) -> bool {
        self.kind == DependencyKind::Link
    }

    /// The container that it is on: the one of that name, else the only one whose id starts so. The engine takes as
    /// few digits of an id as are unique, and keeps what it was given.
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

/// The first of these without which no container can be created and started: a namespace and a link last as long as
/// their container runs, volumes as long as it exists.
pub fn missing_for_create(dependencies: &[Dependency], containers: &[ContainerSummary]) -> Option<Obstacle> {
    missing(dependencies.iter(), containers)
}

/// The first of these without which a created container cannot be started: it has its volumes already.
pub fn missing_for_start(dependencies: &[Dependency], containers: &[ContainerSummary]) -> Option<Obstacle> {
    missing(dependencies.iter().filter(|it| it.needs_it_running()), containers)
}

fn missing<'a>(
    mut dependencies: impl Iterator<Item = &'a Dependency>,
    containers: &[ContainerSummary],
) -> Option<Obstacle> {
    let is_there = |dependency: &Dependency| {
        dependency.target(containers).is_some_and(|holder| {
            !dependency.needs_it_running() || matches!(holder.state, RunState::Running | RunState::Paused)
        })
    };
    let missing = dependencies.find(|dependency| !is_there(dependency))?;
    Some(Obstacle::DependencyMissing {
        container: missing.container.clone(),
        kind: missing.kind,
    })
}

/// The namespaces that the container shares with others. The engine writes them as `container:<id>`.
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

/// All that the container has of others. `--volumes-from` is kept as it was given, with an optional mode behind a
/// colon. A link is shown as `/name:/own-name/alias`; in networks that a person made there are none of these.
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
