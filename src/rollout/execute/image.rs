//! The documents of the images of containers.

use serde_json::Value;

use crate::container::{ImageId, Inspected};
use crate::engine::{Engine, EngineError};
use crate::image::{ImageName, ImageReference};
use crate::rollout::failure::Failure;

/// The document of a container's image.
///
/// # Errors
/// The engine did not answer, or the image is gone: [`Failure::ImageRemoved`] says how to pull it again, if known.
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

/// The id in an image's document.
pub(super) fn image_id(image: &Value) -> Option<ImageId> {
    image.get("Id").and_then(Value::as_str).map(ImageId::new)
}

/// How to pull exactly this image again. In containerd's store, pulling a moved tag deletes its previous image (Docker 26.1), but
/// there the image id is the registry's digest.
pub(super) async fn by_digest<E: Engine>(
    engine: &E,
    name: &ImageName,
    id: &ImageId,
) -> Option<ImageReference> {
    let repository = name.reference().ok()?.repository();
    let by_digest = format!("{repository}@{id}").parse().ok()?;
    engine.storage().await.ok()?.is_containerd().then_some(by_digest)
}
