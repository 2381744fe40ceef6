//! What a container has of another one: a namespace, or its volumes. Nobody can take that along to the other one's
//! successor, which has another id.

use serde_json::Value;

use super::{list, text};
use crate::delegate::ContainerId;

pub(super) const VOLUMES: &str = "volumes";

/// Something of another container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tie {
    /// `network`, `pid`, `ipc` or `volumes`.
    pub what: &'static str,
    /// The other container, as the document names it: by its id, or by its name.
    pub container: String,
}

impl Tie {
    /// Whether it ends with the other one's life.
    pub fn is_namespace(&self) -> bool {
        self.what != VOLUMES
    }

    /// Whether it is to the container with this id and name.
    pub fn leads_to(&self, id: &ContainerId, name: &str) -> bool {
        let full = id.as_str();
        let by_id = self.container.len() >= 12 && full.starts_with(&self.container);
        by_id || self.container.trim_start_matches('/') == name
    }
}

/// The namespaces that a container of this document shares with others. The engine writes them as `container:<id>`.
pub(super) fn namespaces(inspect: &Value) -> impl Iterator<Item = Tie> {
    [
        ("network", "/HostConfig/NetworkMode"),
        ("pid", "/HostConfig/PidMode"),
        ("ipc", "/HostConfig/IpcMode"),
    ]
    .into_iter()
    .filter_map(|(what, pointer)| {
        let container = text(inspect, pointer).strip_prefix("container:")?;
        Some(Tie {
            what,
            container: container.to_owned(),
        })
    })
}

/// All that a container of this document has of others. `--volumes-from` is kept as it was given, with an optional mode
/// behind a colon.
pub fn ties(inspect: &Value) -> Vec<Tie> {
    let sources = list(inspect, "/HostConfig/VolumesFrom").iter();
    let volumes = sources.filter_map(|source| {
        let source = source.as_str()?;
        let container = source.split_once(':').map_or(source, |(container, _)| container);
        Some(Tie {
            what: VOLUMES,
            container: container.to_owned(),
        })
    });
    namespaces(inspect).chain(volumes).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tie_is_by_id_or_by_name() {
        let id = ContainerId::new("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
        let inspect = json!({ "HostConfig": {
            "NetworkMode": format!("container:{}", id.as_str()), "PidMode": "container:d1", "IpcMode": "shareable",
            "VolumesFrom": ["/d1:ro", "0123456789ab", "other"],
        } });
        let found: Vec<_> = ties(&inspect)
            .into_iter()
            .map(|tie| (tie.what, tie.leads_to(&id, "d1"), tie.leads_to(&id, "d2")))
            .collect();
        assert_eq!(
            found,
            [
                ("network", true, true),
                ("pid", true, false),
                ("volumes", true, false),
                ("volumes", true, true),
                ("volumes", false, false)
            ]
        );
        assert_eq!(ties(&json!({ "HostConfig": { "NetworkMode": "bridge" } })), []);
    }
}
