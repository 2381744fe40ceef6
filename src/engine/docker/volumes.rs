//! Lists, creates and removes named volumes.

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::http::MOST_OF_DOCUMENTS;
use super::{DockerEngine, READ, WRITE};
use crate::engine::{EngineError, Volume};

/// The answer to a list request. An engine writes an empty list as `null`.
#[derive(Deserialize)]
struct Volumes {
    #[serde(rename = "Volumes", default)]
    volumes: Option<Vec<Volume>>,
}

impl DockerEngine {
    pub(super) async fn list_volumes(&self, label: &str) -> Result<Vec<Volume>, EngineError> {
        let filters = json!({ "label": [label] }).to_string();
        let found: Volumes = self
            .json(|http, api| {
                http.request(Method::GET, Some(api), &["volumes"], READ)
                    .at_most(MOST_OF_DOCUMENTS)
                    .query("filters", &filters)
            })
            .await?;
        Ok(found.volumes.unwrap_or_default())
    }

    pub(super) async fn make_volume(&self, volume: &Volume) -> Result<(), EngineError> {
        let body = json!({ "Name": volume.name, "Labels": volume.labels });
        let created = self.send(|http, api| {
            http.request(Method::POST, Some(api), &["volumes", "create"], WRITE)
                .body(&body)
        });
        match created.await {
            // Podman reports an error for an existing volume, while other engines succeed.
            Err(EngineError::Conflict(_)) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    pub(super) async fn delete_volume(&self, name: &str) -> Result<(), EngineError> {
        let path = ["volumes", name];
        let removed = self.send(|http, api| http.request(Method::DELETE, Some(api), &path, WRITE));
        match removed.await {
            Err(EngineError::NotFound(_)) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}
