//! Whether a newer version of the upgrader is published: asked in the background, for reports only.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, info};

use crate::container::ContainerId;
use crate::engine::Engine;
use crate::image::{ImageReference, TargetSettings, manager_reference};
use crate::manager::{ImageSource, UpgraderImage};

/// How often the Manager is asked.
const INTERVAL: Duration = Duration::from_secs(3600);

/// The upgrader's repository at a service that publishes images.
const SERVICE: &str = "harness/upgrader";

/// The question about the image published for upgraders, and its last answer. Dropping this ends it at once.
#[derive(Debug, Default)]
pub(super) struct UpgraderCheck {
    asked: Option<Instant>,
    /// The open question; its answer is `None` if the Manager did not answer.
    task: JoinSet<Option<Answer>>,
    known: Answer,
}

/// `None` if the two images cannot be compared.
type Answer = Option<UpgraderImage>;

impl UpgraderCheck {
    /// Asks about the upgrader, in this container if any, unless that was done within the last hour.
    pub(super) fn ask<E: Engine, M: ImageSource>(
        &mut self,
        engine: &Arc<E>,
        source: &Arc<M>,
        container: Option<&ContainerId>,
        target: &TargetSettings,
    ) {
        if self.asked.is_some_and(|asked| asked.elapsed() < INTERVAL) {
            return;
        }
        self.asked = Some(Instant::now());
        let (engine, source) = (Arc::clone(engine), Arc::clone(source));
        let (container, target) = (container.cloned(), target.clone());
        self.task
            .spawn(async move { answer(engine.as_ref(), source.as_ref(), container, &target).await });
    }

    /// Records the answer, if it has arrived. Until then the last one is valid.
    pub(super) fn collect(&mut self) {
        while let Some(joined) = self.task.try_join_next() {
            let Ok(Some(answer)) = joined else { continue };
            if let Some(image) = answer.as_ref().filter(|image| image.newer_version_available)
                && answer != self.known
            {
                info!(
                    image = image.image,
                    published = image.published,
                    "a newer version of the upgrader is published"
                );
            }
            self.known = answer;
        }
    }

    /// The last answer.
    pub(super) fn known(&self) -> Option<&UpgraderImage> {
        self.known.as_ref()
    }
}

async fn answer<E: Engine, M: ImageSource>(
    engine: &E,
    source: &M,
    container: Option<ContainerId>,
    target: &TargetSettings,
) -> Option<Answer> {
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
