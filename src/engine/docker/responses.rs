//! The engine's responses, as far as they are read.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::container::{ContainerId, ContainerSummary, RunState};

/// The answer to `GET /version`.
#[derive(Deserialize)]
pub(super) struct Version {
    #[serde(rename = "ApiVersion")]
    pub(super) api: String,
    #[serde(rename = "Version", default)]
    pub(super) release: String,
    #[serde(rename = "Os", default)]
    pub(super) os: String,
    #[serde(rename = "Arch", default)]
    pub(super) architecture: String,
}

/// The answer to a create.
#[derive(Deserialize)]
pub(super) struct Created {
    #[serde(rename = "Id")]
    pub(super) id: String,
}

/// A row of the container list.
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
}

impl From<ContainerRow> for ContainerSummary {
    fn from(row: ContainerRow) -> Self {
        let names = row.names.unwrap_or_default();
        // A link shows as `/other/alias`.
        let name = names
            .iter()
            .map(|name| name.trim_start_matches('/'))
            .find(|name| !name.contains('/'));
        Self {
            id: ContainerId::new(row.id),
            name: name.unwrap_or_default().to_owned(),
            state: RunState::from(row.state.as_str()),
            labels: row.labels.unwrap_or_default(),
        }
    }
}
