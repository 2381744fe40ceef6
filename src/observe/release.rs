//! When the image of a delegate was released.

use std::time::Duration;

use chrono::Utc;
use tokio::time::timeout;

use crate::engine::Engine;
use crate::image::{ImageName, TargetSettings, is_harness, manager_reference, release_day};
use crate::rollout::Release;

/// The time limit: nothing that is in use waits for this answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Asks the engine when an image was released, if the image can show it. `id` is the image's id or its reference.
pub(crate) async fn released<E: Engine>(
    engine: &E,
    image: &ImageName,
    id: &str,
    target: &TargetSettings,
) -> Release {
    let image = manager_reference(image.reference().ok()?, target);
    if !is_harness(&image) {
        return None;
    }
    let document = timeout(TIMEOUT, engine.inspect_image(id)).await.ok()?.ok()?;
    release_day(&image, &document["Created"], Utc::now())
}
