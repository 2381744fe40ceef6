//! Queries registries through the engine.

use hyper::Method;
use serde_json::Value;
use tracing::debug;

use super::{DockerEngine, REGISTRY, reference_path};
use crate::engine::EngineError;
use crate::engine::credentials::Lookup;
use crate::engine::credentials::header::Account;
use crate::image::ImageReference;

impl DockerEngine {
    /// Asks the registry with this login for the digest of a reference and the platforms that it supports.
    pub(super) async fn ask_with(
        &self,
        reference: &ImageReference,
        login: Option<&Account>,
    ) -> Result<Value, EngineError> {
        let path = reference.to_string();
        let path = reference_path("distribution", &path);
        let request = self.request(Method::GET, &path, REGISTRY).await?;
        self.json(request.with(login, reference.registry())).await
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
