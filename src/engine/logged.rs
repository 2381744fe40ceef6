//! An engine whose every call is told at `LOG_LEVEL=debug`: what was asked, what came of it, how long it took. What
//! documents and environments hold is never told.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tracing::debug;

use super::{Engine, EngineError, EngineInfo, PullProgress, Storage};
use crate::container::{ContainerId, ContainerSummary, ImageId, Inspected};
use crate::image::ImageReference;
use crate::text::duration;

/// Tells every call to the engine within.
#[derive(Clone, Debug)]
pub struct Logged<E>(pub E);

async fn told<T>(
    call: &'static str,
    about: impl fmt::Display,
    outcome: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let begun = Instant::now();
    let outcome = outcome.await;
    let ms = begun.elapsed().as_millis();
    match &outcome {
        Ok(_) => debug!(call, %about, ms, "engine"),
        Err(error) => debug!(call, %about, ms, %error, "engine"),
    }
    outcome
}

impl<E: Engine> Engine for Logged<E> {
    async fn info(&self) -> Result<EngineInfo, EngineError> {
        told("info", "", self.0.info()).await
    }

    async fn storage(&self) -> Result<Storage, EngineError> {
        told("storage", "", self.0.storage()).await
    }

    async fn containers(&self) -> Result<Vec<ContainerSummary>, EngineError> {
        told("containers", "", self.0.containers()).await
    }

    async fn inspect(&self, id: &ContainerId) -> Result<Inspected, EngineError> {
        told("inspect", id, self.0.inspect(id)).await
    }

    async fn inspect_image(&self, reference_or_id: &str) -> Result<Value, EngineError> {
        told(
            "inspect_image",
            reference_or_id,
            self.0.inspect_image(reference_or_id),
        )
        .await
    }

    async fn pull(
        &self,
        reference: &ImageReference,
        platform: Option<&str>,
        progress: impl FnMut(PullProgress) + Send,
    ) -> Result<(), EngineError> {
        told("pull", reference, self.0.pull(reference, platform, progress)).await
    }

    async fn create(
        &self,
        name: &str,
        platform: Option<&str>,
        body: &Value,
    ) -> Result<ContainerId, EngineError> {
        told("create", name, self.0.create(name, platform, body)).await
    }

    async fn connect(&self, network: &str, id: &ContainerId, endpoint: &Value) -> Result<(), EngineError> {
        let about = format!("{id} to {network}");
        told("connect", about, self.0.connect(network, id, endpoint)).await
    }

    async fn start(&self, id: &ContainerId) -> Result<(), EngineError> {
        told("start", id, self.0.start(id)).await
    }

    async fn stop(&self, id: &ContainerId, grace: Duration) -> Result<(), EngineError> {
        let about = format!("{id} within {}", duration::text(grace));
        told("stop", about, self.0.stop(id, grace)).await
    }

    async fn rename(&self, id: &ContainerId, name: &str) -> Result<(), EngineError> {
        told("rename", format!("{id} to {name}"), self.0.rename(id, name)).await
    }

    async fn set_restart_policy(&self, id: &ContainerId, policy: &Value) -> Result<(), EngineError> {
        let about = format!("{id} to {policy}");
        told("set_restart_policy", about, self.0.set_restart_policy(id, policy)).await
    }

    async fn remove(&self, id: &ContainerId) -> Result<(), EngineError> {
        told("remove", id, self.0.remove(id)).await
    }

    async fn remove_image(&self, id: &ImageId) -> Result<(), EngineError> {
        told("remove_image", id, self.0.remove_image(id)).await
    }

    async fn logs(&self, id: &ContainerId, lines: usize) -> Result<String, EngineError> {
        told("logs", id, self.0.logs(id, lines)).await
    }

    async fn copied_files(&self, id: &ContainerId) -> Result<Vec<String>, EngineError> {
        told("copied_files", id, self.0.copied_files(id)).await
    }

    async fn memory_usage(&self, id: &ContainerId) -> Result<u64, EngineError> {
        told("memory_usage", id, self.0.memory_usage(id)).await
    }

    async fn registry_digest(&self, reference: &ImageReference) -> Result<String, EngineError> {
        told("registry_digest", reference, self.0.registry_digest(reference)).await
    }
}
