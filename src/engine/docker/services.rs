//! Lists and updates the services of a Swarm, as a manager reports them.

use hyper::Method;
use serde_json::{Value, json};

use super::http::MOST_OF_DOCUMENTS;
use super::messages::NO_MANAGER;
use super::{DockerEngine, READ, WRITE};
use crate::engine::{EngineError, ServiceUpdate};

/// A manager's error for an update that names an outdated version; from swarmkit's manager/state/store.
const OUT_OF_SEQUENCE: &str = "update out of sequence";

impl DockerEngine {
    pub(super) async fn list_services(&self) -> Result<Option<Vec<Value>>, EngineError> {
        let request = self.request(Method::GET, &["services"], READ).await?;
        let request = request.at_most(MOST_OF_DOCUMENTS).query("status", "true");
        match self.json(request).await {
            Ok(services) => Ok(Some(services)),
            // Podman has no services, or a proxy in between refuses the request.
            Err(
                EngineError::NotFound(_)
                | EngineError::Refused {
                    status: 401 | 403, ..
                },
            ) => Ok(None),
            Err(EngineError::Refused { message, .. }) if message.contains(NO_MANAGER) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn list_tasks(&self, services: &[&str]) -> Result<Vec<Value>, EngineError> {
        let filters = json!({ "service": services }).to_string();
        let request = self.request(Method::GET, &["tasks"], READ).await?;
        self.json(request.at_most(MOST_OF_DOCUMENTS).query("filters", &filters))
            .await
    }

    pub(super) async fn list_nodes(&self) -> Result<Vec<Value>, EngineError> {
        let request = self.request(Method::GET, &["nodes"], READ).await?;
        self.json(request.at_most(MOST_OF_DOCUMENTS)).await
    }

    pub(super) async fn change_service(&self, update: ServiceUpdate<'_>) -> Result<(), EngineError> {
        let path = ["services", update.id, "update"];
        let request = self.request(Method::POST, &path, WRITE).await?;
        let request = request.query("version", &update.version.to_string());
        let lookup = match update.image {
            Some(image) => Some(self.look_up_login(image).await),
            None => None,
        };
        let login = lookup.as_ref().and_then(|lookup| lookup.login.as_ref());
        let request = match login {
            None => request.query("registryAuthFrom", "spec"),
            login => request.with(login),
        };
        match self.send(request.body(update.spec)).await {
            Err(EngineError::Refused { message, .. }) if message.contains(OUT_OF_SEQUENCE) => {
                Err(EngineError::Conflict(message))
            }
            other => other.map(|_| ()),
        }
    }
}
