//! What a registry says, asked through the engine.

use reqwest::Method;
use serde_json::Value;

use super::{DockerEngine, REGISTRY, reference_path};
use crate::engine::{EngineError, auth};
use crate::image::ImageReference;

impl DockerEngine {
    /// What the registry says of a reference, asked through the engine: its digest, and the platforms it is for.
    pub async fn distribution(&self, reference: &ImageReference) -> Result<Value, EngineError> {
        let name = reference.to_string();
        let login = self.login(reference).await?;
        self.json(|raw, api| {
            let call = raw.call(
                Method::GET,
                Some(api),
                &reference_path("distribution", &name),
                REGISTRY,
            );
            match &login {
                Some(login) => call.header(auth::HEADER, login.header()),
                None => call,
            }
        })
        .await
    }

    pub(super) async fn login(&self, reference: &ImageReference) -> Result<Option<auth::Login>, EngineError> {
        let login = self.shared.logins.of(reference.registry()).await;
        login.map_err(EngineError::NoLogin)
    }
}
