//! Questions to a registry, asked through the engine.

use reqwest::Method;
use serde_json::Value;
use tracing::debug;

use super::{DockerEngine, REGISTRY, reference_path};
use crate::engine::EngineError;
use crate::engine::credentials::{Lookup, header};
use crate::image::ImageReference;

impl DockerEngine {
    /// What the registry has for a reference: its digest, and the platforms it is for.
    pub(super) async fn ask_distribution(&self, reference: &ImageReference) -> Result<Value, EngineError> {
        let name = reference.to_string();
        let lookup = self.look_up_login(reference).await;
        let answer = self
            .json(|http, api| {
                let request = http.request(
                    Method::GET,
                    Some(api),
                    &reference_path("distribution", &name),
                    REGISTRY,
                );
                match &lookup.login {
                    Some(login) => request.header(header::HEADER, login.header()),
                    None => request,
                }
            })
            .await;
        lookup.complete(answer)
    }

    pub(super) async fn look_up_login(&self, reference: &ImageReference) -> Lookup {
        let registry = reference.registry();
        let lookup = self.shared.credentials.look_up(registry).await;
        if let Some(problem) = &lookup.problem {
            debug!(registry, problem, "cannot use a registry login");
        }
        lookup
    }
}
