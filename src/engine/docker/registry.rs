//! What a registry says, asked through the engine.

use reqwest::Method;
use serde_json::Value;
use tracing::debug;

use super::{DockerEngine, REGISTRY, reference_path};
use crate::engine::EngineError;
use crate::engine::credentials::Found;
use crate::engine::credentials::header;
use crate::image::ImageReference;

impl DockerEngine {
    /// What the registry says of a reference, asked through the engine: its digest, and the platforms it is for.
    pub async fn distribution(&self, reference: &ImageReference) -> Result<Value, EngineError> {
        let name = reference.to_string();
        let found = self.login(reference).await;
        let answer = self
            .json(|raw, api| {
                let call = raw.call(
                    Method::GET,
                    Some(api),
                    &reference_path("distribution", &name),
                    REGISTRY,
                );
                match &found.login {
                    Some(login) => call.header(header::HEADER, login.header()),
                    None => call,
                }
            })
            .await;
        found.explain(answer)
    }

    pub(super) async fn login(&self, reference: &ImageReference) -> Found {
        let registry = reference.registry();
        let found = self.shared.logins.of(registry).await;
        if let Some(problem) = &found.problem {
            debug!(registry, problem, "the registry logins are not in order");
        }
        found
    }
}
