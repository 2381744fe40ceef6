//! What a container has of another one: a namespace, its volumes, or a link to it. Nobody can take that along to the
//! other one's successor, which has another id.

use serde_json::Value;

use super::{list, text};
use crate::container::ContainerSummary;

pub(super) const VOLUMES: &str = "volumes";
pub(super) const LINK: &str = "link";

/// Something of another container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// `network`, `pid`, `ipc`, `volumes` or `link`.
    pub what: &'static str,
    /// The other container, as the document names it: by its id, or by its name.
    pub container: String,
}

impl Dependency {
    /// Whether nothing can be started with it unless the other one runs. A namespace ends with its holder's life, and the
    /// engine refuses a link to what does not run.
    pub fn needs_it_running(&self) -> bool {
        self.what != VOLUMES
    }

    /// Whether the name in it is that of now: of a link the engine keeps the container, and shows what that one is called.
    pub fn tracks_renames(&self) -> bool {
        self.what == LINK
    }

    /// Which of all containers it is to: the one of that name, else the only one whose id begins so. The engine takes as
    /// few digits as tell one, and keeps what it was given.
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

/// The namespaces that a container of this document shares with others. The engine writes them as `container:<id>`.
pub(super) fn namespaces(inspect: &Value) -> impl Iterator<Item = Dependency> {
    [
        ("network", "/HostConfig/NetworkMode"),
        ("pid", "/HostConfig/PidMode"),
        ("ipc", "/HostConfig/IpcMode"),
    ]
    .into_iter()
    .filter_map(|(what, pointer)| {
        let container = text(inspect, pointer).strip_prefix("container:")?;
        Some(Dependency {
            what,
            container: container.to_owned(),
        })
    })
}

/// All that a container of this document has of others. `--volumes-from` is kept as it was given, with an optional mode
/// behind a colon. A link is shown as `/name:/own-name/alias`; in networks that a person made there are none of these.
pub fn dependencies(inspect: &Value) -> Vec<Dependency> {
    let sources = list(inspect, "/HostConfig/VolumesFrom").iter();
    let volumes = sources.filter_map(|source| {
        let source = source.as_str()?;
        let container = source.split_once(':').map_or(source, |(container, _)| container);
        Some(Dependency {
            what: VOLUMES,
            container: container.to_owned(),
        })
    });
    let links = list(inspect, "/HostConfig/Links").iter().filter_map(|link| {
        let link = link.as_str()?;
        let container = link.split_once(':').map_or(link, |(container, _)| container);
        Some(Dependency {
            what: LINK,
            container: container.trim_start_matches('/').to_owned(),
        })
    });
    namespaces(inspect).chain(volumes).chain(links).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::container::ContainerId;
    use crate::container::RunState;

    #[test]
    fn a_tie_is_by_id_or_by_name() {
        let container = |id: &str, name: &str| ContainerSummary {
            id: ContainerId::new(format!("{id:0<64}")),
            name: name.to_owned(),
            state: RunState::Running,
            labels: BTreeMap::new(),
        };
        let all = [
            container("0123456789abcdef", "d1"),
            container("0124", "d2"),
            container("f", "01234"),
        ];
        let inspect = json!({ "HostConfig": {
            "NetworkMode": format!("container:{}", all[1].id.as_str()), "PidMode": "container:d1", "IpcMode": "shareable",
            "VolumesFrom": ["/d1:ro", "0123456789ab", "0124", "012", "01234", "f", "other", ""],
            "Links": ["/d2:/own/db", "/gone:/own/d1"],
        } });
        let found: Vec<_> = dependencies(&inspect)
            .into_iter()
            .map(|dependency| {
                (
                    dependency.what,
                    dependency.target(&all).map_or("none", |target| &target.name),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("network", "d2"),
                ("pid", "d1"),
                ("volumes", "d1"),
                ("volumes", "d1"),
                ("volumes", "d2"),
                ("volumes", "none"),
                ("volumes", "01234"),
                ("volumes", "01234"),
                ("volumes", "none"),
                ("volumes", "none"),
                ("link", "d2"),
                ("link", "none"),
            ]
        );
        assert_eq!(
            dependencies(&json!({ "HostConfig": { "NetworkMode": "bridge" } })),
            []
        );
    }
}
