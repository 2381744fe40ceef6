//! Lists, creates and removes named volumes.

use hyper::Method;
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
        let request = self.request(Method::GET, &["volumes"], READ).await?;
        let request = request.at_most(MOST_OF_DOCUMENTS).query("filters", &filters);
        let found: Volumes = self.json(request).await?;
        Ok(found.volumes.unwrap_or_default())
    }

    pub(super) async fn make_volume(&self, volume: &Volume) -> Result<(), EngineError> {
        let body = json!({ "Name": volume.name, "Labels": volume.labels });
        let request = self.request(Method::POST, &["volumes", "create"], WRITE).await?;
        match self.send(request.body(&body)).await {
            // Podman reports an error for an existing volume, while other engines succeed.
            Err(EngineError::Conflict(_)) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    pub(super) async fn delete_volume(&self, name: &str) -> Result<(), EngineError> {
        let request = self.request(Method::DELETE, &["volumes", name], WRITE).await?;
        match self.send(request).await {
            Err(EngineError::NotFound(_)) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}
