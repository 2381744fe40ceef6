//! Pulls take minutes, so they run beside the passes: one per image, however many delegates want it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use tracing::{debug, info};

use super::{Failure, Rollout};
use crate::delegate::ImageId;
use crate::engine::{Engine, EngineError, PullProgress};
use crate::image::ImageReference;
use crate::reason::Reason;

/// The pulls under way. Dropped, they end; the engine keeps the layers it has.
#[derive(Debug, Default)]
pub struct Pulls {
    tasks: JoinSet<Pulled>,
    under_way: HashSet<String>,
}

/// A pull that ended.
#[derive(Debug)]
pub struct Pulled {
    /// The first delegate that wanted the image, as it was when the pull began.
    pub rollout: Rollout,
    /// The image.
    pub reference: ImageReference,
    /// The id behind the reference, read after the pull.
    pub outcome: Result<ImageId, Failure>,
}

impl Pulls {
    /// Begins a pull for a delegate in service, unless the image is being pulled already.
    pub fn begin<E: Engine>(&mut self, engine: &Arc<E>, rollout: &Rollout, reference: &ImageReference) {
        let Some(running) = rollout.serving.as_ref().map(|serving| serving.image_id.clone()) else {
            return;
        };
        if !self.under_way.insert(reference.normalised()) {
            return;
        }
        let (engine, rollout, reference) = (Arc::clone(engine), rollout.clone(), reference.clone());
        self.tasks.spawn(async move {
            let outcome = pull(engine.as_ref(), &running, &reference).await;
            Pulled {
                rollout,
                reference,
                outcome,
            }
        });
    }

    /// Whether this image is being pulled.
    pub fn is_under_way(&self, reference: &ImageReference) -> bool {
        self.under_way.contains(&reference.normalised())
    }

    /// A pull that has ended since the last question.
    pub fn ended(&mut self) -> Option<Pulled> {
        match self.tasks.try_join_next()? {
            Ok(pulled) => {
                self.under_way.remove(&pulled.reference.normalised());
                Some(pulled)
            }
            // Whichever it was, it is begun anew.
            Err(error) => {
                debug!(%error, "a pull was lost");
                self.under_way.clear();
                None
            }
        }
    }
}

/// The id behind the reference is read after the pull, whatever the pull said: errors arrive inside a 200 stream, and
/// some that are no errors.
async fn pull<E: Engine>(
    engine: &E,
    running: &ImageId,
    reference: &ImageReference,
) -> Result<ImageId, Failure> {
    let refused = |problem: String| {
        Failure::Refused(Reason::PullFailed {
            image: reference.to_string(),
            problem,
        })
    };
    let before = engine.inspect_image(&reference.to_string()).await.ok();
    let mut told = std::time::Instant::now();
    let progress = |progress: PullProgress| {
        if told.elapsed() >= Duration::from_secs(5) {
            told = std::time::Instant::now();
            info!(image = %reference, current_bytes = progress.current, total_bytes = progress.total, "pulling");
        }
    };
    let pulled = engine.pull(reference, None, progress).await;
    if let Err(error @ EngineError::Unreachable(_)) = pulled {
        return Err(error.into());
    }
    let image = match engine.inspect_image(&reference.to_string()).await {
        Ok(image) => image,
        Err(EngineError::NotFound(_)) => {
            let problem = pulled
                .err()
                .map_or_else(|| "no such image after the pull".to_owned(), |e| e.to_string());
            return Err(refused(problem));
        }
        Err(error) => return Err(error.into()),
    };
    if let Err(error) = pulled {
        // An image that was there before says nothing about this pull.
        if before.as_ref().map(image_id) == Some(image_id(&image)) {
            return Err(refused(error.to_string()));
        }
        debug!(image = %reference, %error, "the pull complained, yet the image is there");
    }
    let running = engine.inspect_image(running.as_str()).await?;
    let (offered, needed) = (platform(&image), platform(&running));
    if offered != needed {
        return Err(Failure::Refused(Reason::WrongPlatform {
            image: reference.to_string(),
            offered,
            needed,
        }));
    }
    image_id(&image).ok_or_else(|| refused("the engine shows an image without an id".to_owned()))
}

fn image_id(image: &Value) -> Option<ImageId> {
    image.get("Id").and_then(Value::as_str).map(ImageId::new)
}

/// `linux/arm64/v8`.
fn platform(image: &Value) -> String {
    let part = |key| image.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut platform = format!("{}/{}", part("Os"), part("Architecture"));
    if !part("Variant").is_empty() {
        platform.push('/');
        platform.push_str(part("Variant"));
    }
    platform
}
