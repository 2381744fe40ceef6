//! The documents of the images that containers run.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;
use tracing::debug;

use crate::container::Inspected;
use crate::engine::{Engine, EngineError};
use crate::image::{ImageName, ImageReference};

/// The layers are there, so no more than a few kilobytes are pulled.
const PATIENCE: Duration = Duration::from_secs(60);

/// The document of the image that a container runs. In containerd's store, a pull of a tag that has moved takes away the
/// image that it stood for (Docker 26.1); there the id is the digest by which the image is pulled again.
///
/// # Errors
/// The image is gone, or the engine did not answer.
pub async fn image_of<E: Engine>(engine: &E, container: &Inspected) -> Result<Value, EngineError> {
    let id = container.image_id();
    let gone = match engine.inspect_image(id.as_str()).await {
        Err(gone @ EngineError::NotFound(_)) => gone,
        answer => return answer,
    };
    let name = ImageName::from(container.image_reference());
    let Some(by_digest) = name.reference().ok().and_then(|reference| {
        let by_digest = format!("{}@{}", reference.repository(), id.as_str());
        by_digest.parse::<ImageReference>().ok()
    }) else {
        return Err(gone);
    };
    if !engine
        .storage()
        .await
        .is_ok_and(|storage| storage.is_containerd())
    {
        return Err(gone);
    }
    let pulled = timeout(PATIENCE, engine.pull(&by_digest, None, |_| ())).await;
    debug!(image = %by_digest, ?pulled, "pulled an image again that a container runs");
    match engine.inspect_image(id.as_str()).await {
        Err(EngineError::NotFound(_)) => Err(gone),
        answer => answer,
    }
}
