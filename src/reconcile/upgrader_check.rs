//! Whether a newer version of the upgrader is published, for reports only.

use tracing::debug;

use crate::container::ContainerId;
use crate::engine::Engine;
use crate::image::{ImageReference, TargetSettings, manager_reference};
use crate::manager::{ImageSource, UpgraderImage};

/// The upgrader's repository at a service that publishes images.
const SERVICE: &str = "harness/upgrader";

/// Compares the image of the upgrader in this container, if any, with the published one. The outer `None` if one of them is
/// unknown, the inner one if they cannot be compared.
pub(super) async fn newer_upgrader<E: Engine, M: ImageSource>(
    engine: &E,
    source: &M,
    container: Option<ContainerId>,
    target: &TargetSettings,
) -> Option<Option<UpgraderImage>> {
    let asked_about = match &container {
        Some(container) => {
            let document = engine.inspect(container).await.ok()?;
            manager_reference(&document.image_reference().parse().ok()?, target)
        }
        None => of_version(&SERVICE.parse().ok()?)?,
    };
    let published = source.published_upgrader(&asked_about).await?;
    debug!(%asked_about, ?published, "the answer for upgraders");
    let published = published.ok()?;
    let own = match container {
        Some(_) => asked_about,
        None => of_version(&published)?,
    };
    Some(match &target.self_image {
        Some(image) => Some(UpgraderImage::set(&own, image)),
        None => UpgraderImage::compare(&own, &published),
    })
}

/// The image of that repository with this program's version, for a program that does not run from an image.
fn of_version(repository: &ImageReference) -> Option<ImageReference> {
    let version = env!("CARGO_PKG_VERSION");
    format!("{}:{version}", repository.repository()).parse().ok()
}
