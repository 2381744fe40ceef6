//! The documents of the images that containers run.

use serde_json::Value;

use crate::container::{ImageId, Inspected};
use crate::engine::{Engine, EngineError};
use crate::image::{ImageName, ImageReference};
use crate::rollout::failure::Failure;

/// The document of the image that a container runs.
///
/// # Errors
/// The image is gone, and [`Failure::ImageRemoved`] says how to pull it again if that is known; or the engine did not answer.
pub async fn image_of<E: Engine>(engine: &E, container: &Inspected) -> Result<Value, Failure> {
    let id = container.image_id();
    let gone = match engine.inspect_image(id.as_str()).await {
        Err(gone @ EngineError::NotFound(_)) => gone,
        answer => return Ok(answer?),
    };
    let name = ImageName::from(container.image_reference());
    Err(by_digest(engine, &name, &id)
        .await
        .map_or(gone.into(), Failure::ImageRemoved))
}

/// How to pull exactly this image again. In containerd's store a pull of a tag that has moved takes away the image that it stood
/// for (Docker 26.1); there the id is the digest at the registry.
pub(super) async fn by_digest<E: Engine>(
    engine: &E,
    name: &ImageName,
    id: &ImageId,
) -> Option<ImageReference> {
    let repository = name.reference().ok()?.repository();
    let by_digest = format!("{repository}@{id}").parse().ok()?;
    engine.storage().await.ok()?.is_containerd().then_some(by_digest)
}
