//! The engine's responses, with only the fields that this program reads.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::container::json::{list_at, text_at};
use crate::container::{ContainerId, ContainerSummary, RunState, is_listed};
use crate::engine::Volume;

/// The answer to `GET /version`.
#[derive(Deserialize)]
pub(super) struct Version {
    #[serde(rename = "ApiVersion")]
    pub(super) api: String,
    /// Empty if the engine does not report it.
    #[serde(rename = "MinAPIVersion", default)]
    pub(super) oldest_api: String,
    #[serde(rename = "Version", default)]
    pub(super) release: String,
    #[serde(rename = "Os", default)]
    pub(super) os: String,
    #[serde(rename = "Arch", default)]
    pub(super) architecture: String,
    #[serde(rename = "Components", default)]
    components: Option<Vec<Component>>,
}

#[derive(Deserialize)]
struct Component {
    #[serde(rename = "Name", default)]
    name: String,
}

impl Version {
    /// Whether the engine is Podman. Podman 5.8.6 calls itself `Podman Engine`.
    pub(super) fn is_podman(&self) -> bool {
        let mut components = self.components.iter().flatten();
        components.any(|component| component.name.starts_with("Podman"))
    }
}

/// The engine's description of its host.
#[derive(Deserialize)]
pub(super) struct HostInfo {
    #[serde(rename = "ID", default)]
    id: String,
    #[serde(rename = "Name", default)]
    name: String,
}

impl HostInfo {
    /// Combines the host's id and name, since cloned machines may share an id. Podman makes up a new id each time.
    pub(super) fn identity(&self, is_podman: bool) -> String {
        let id = if is_podman { "" } else { &self.id };
        format!("{id} {}", self.name)
    }
}

#[derive(Deserialize)]
pub(super) struct Created {
    #[serde(rename = "Id")]
    pub(super) id: String,
}

/// The answer to `GET /volumes`. An engine writes an empty list as `null`.
#[derive(Deserialize)]
pub(super) struct Volumes {
    #[serde(rename = "Volumes", default)]
    pub(super) volumes: Option<Vec<Volume>>,
}

/// A row of the container list, reduced to the fields that this program needs.
#[derive(Deserialize)]
#[serde(from = "Row")]
pub(super) struct ContainerRow(pub(super) ContainerSummary);

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Row {
    id: String,
    #[serde(default)]
    names: Option<Vec<String>>,
    #[serde(default)]
    state: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    image: String,
    #[serde(default, rename = "ImageID")]
    image_id: String,
    #[serde(default)]
    created: i64,
    #[serde(default)]
    ports: Value,
}

impl From<Row> for ContainerRow {
    fn from(row: Row) -> Self {
        let names = row.names.unwrap_or_default();
        // A link appears as `/other/alias`.
        let name = names
            .iter()
            .map(|name| name.trim_start_matches('/'))
            .find(|name| !name.contains('/'));
        let labels = row.labels.into_iter().flatten();
        let labels: BTreeMap<String, String> = labels.filter(|(label, _)| is_listed(label)).collect();
        Self(ContainerSummary {
            id: ContainerId::new(row.id),
            name: name.unwrap_or_default().to_owned(),
            state: RunState::from(row.state.as_str()),
            image: (!labels.is_empty()).then_some((row.image, row.image_id)),
            created: row.created,
            labels,
            host_ports: list_at(&row.ports, "").iter().filter_map(host_port).collect(),
        })
    }
}

/// Returns the host port in an entry of a row's `Ports`. A port that is not published has none.
fn host_port(entry: &Value) -> Option<(u16, String)> {
    let port = entry.get("PublicPort")?.as_u64()?;
    Some((port.try_into().ok()?, text_at(entry, "/Type").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{ContainerRow, Version};

    #[test]
    fn row_shows_published_ports_if_any() {
        for (ports, expected) in [
            (
                r#"[{"IP": "0.0.0.0", "PrivatePort": 3460, "PublicPort": 8080, "Type": "tcp"}, {"PrivatePort": 1, "Type": "udp"}]"#,
                vec![(8080, "tcp".to_owned())],
            ),
            ("[]", vec![]),
            ("null", vec![]),
            (r#""what""#, vec![]),
        ] {
            let row = format!(r#"{{"Id": "0", "Ports": {ports}}}"#);
            let row: ContainerRow = serde_json::from_str(&row).unwrap();
            assert_eq!(row.0.host_ports, expected, "{ports}");
        }
    }

    #[test]
    fn recognises_podman_by_its_components() {
        for (components, is_podman) in [
            (
                r#", "Components": [{"Name": "Podman Engine", "Version": "5.8.6"}, {"Name": "Conmon"}]"#,
                true,
            ),
            (
                r#", "Components": [{"Name": "Engine", "Version": "28.5.2"}, {"Name": "runc"}]"#,
                false,
            ),
            (r#", "Components": null"#, false),
            ("", false),
        ] {
            let version = format!(r#"{{"ApiVersion": "1.41"{components}}}"#);
            let version: Version = serde_json::from_str(&version).unwrap();
            assert_eq!(version.is_podman(), is_podman, "{components}");
        }
    }
}
