//! The engine's responses, with only the fields that this program reads.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::container::json::{list_at, text_at};
use crate::container::{ContainerId, ContainerSummary, RunState, is_listed};
use crate::engine::Volume;

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
#[serde(rename_all = "PascalCase")]
pub(super) struct ContainerRow {
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

impl ContainerRow {
    pub(super) fn summary(self) -> ContainerSummary {
        let names = self.names.unwrap_or_default();
        // A link appears as `/other/alias`.
        let name = names
            .iter()
            .map(|name| name.trim_start_matches('/'))
            .find(|name| !name.contains('/'));
        let labels = self.labels.into_iter().flatten();
        let labels: BTreeMap<String, String> = labels.filter(|(label, _)| is_listed(label)).collect();
        ContainerSummary {
            id: ContainerId::new(self.id),
            name: name.unwrap_or_default().to_owned(),
            state: RunState::from(self.state.as_str()),
            image: (!labels.is_empty()).then_some((self.image, self.image_id)),
            created: self.created,
            labels,
            host_ports: list_at(&self.ports, "").iter().filter_map(host_port).collect(),
        }
    }
}

/// Returns the host port in an entry of a row's `Ports`. A port that is not published has none.
fn host_port(entry: &Value) -> Option<(u16, String)> {
    let port = entry.get("PublicPort")?.as_u64()?;
    Some((port.try_into().ok()?, text_at(entry, "/Type").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::ContainerRow;

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
            assert_eq!(row.summary().host_ports, expected, "{ports}");
        }
    }
}
