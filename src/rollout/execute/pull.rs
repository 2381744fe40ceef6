//! Pulls take minutes, so they run in the background: one per image, however many delegates want it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, info};

use crate::container::{ContainerId, ImageId};
use crate::document::image_platform;
use crate::engine::{Engine, EngineError, EngineInfo, PullProgress};
use crate::host::capacity::{Disk, Room};
use crate::image::ImageReference;
use crate::rollout::Rollout;
use crate::rollout::failure::Failure;
use crate::rollout::reason::Reason;

/// How often a pull's progress is logged.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// The pulls in progress. They end when this is dropped, and the next ones may have to start over.
#[derive(Debug, Default)]
pub struct Pulls {
    tasks: JoinSet<Pulled>,
    in_progress: HashSet<String>,
}

/// A pull that ended.
#[derive(Debug)]
pub struct Pulled {
    /// The first delegate that wanted the image, as it was when the pull started.
    pub rollout: Rollout,
    /// The image.
    pub reference: ImageReference,
    /// The id behind the reference, read after the pull.
    pub outcome: Result<ImageId, Failure>,
    /// How long it took.
    pub took: Duration,
}

impl Pulls {
    /// Starts a pull for a delegate in service, unless the image is being pulled already.
    pub fn start<E: Engine>(
        &mut self,
        engine: &Arc<E>,
        rollout: &Rollout,
        reference: &ImageReference,
        disk: Disk,
    ) {
        let Some(serving) = rollout.replaceable() else {
            return;
        };
        let (serving, running) = (serving.id.clone(), serving.image_id.clone());
        if !self.in_progress.insert(reference.normalised()) {
            return;
        }
        let (engine, rollout, reference) = (Arc::clone(engine), rollout.clone(), reference.clone());
        self.tasks.spawn(async move {
            let begun = Instant::now();
            let engine = engine.as_ref();
            let outcome = match too_little_disk(engine, &disk, &serving, &running, &reference).await {
                Some(reason) => Err(Failure::Refused(reason)),
                None => pull(engine, &running, &reference).await,
            };
            Pulled {
                rollout,
                reference,
                outcome,
                took: begun.elapsed(),
            }
        });
    }

    /// Whether this image is being pulled.
    pub fn is_in_progress(&self, reference: &ImageReference) -> bool {
        self.in_progress.contains(&reference.normalised())
    }

    /// Hands out a pull that has ended, each once.
    pub fn ended(&mut self) -> Option<Pulled> {
        match self.tasks.try_join_next()? {
            Ok(pulled) => {
                self.in_progress.remove(&pulled.reference.normalised());
                Some(pulled)
            }
            // It is unknown which pull it was, so all may be started again.
            Err(error) => {
                debug!(%error, "the task of a pull failed");
                self.in_progress.clear();
                None
            }
        }
    }
}

/// Whether the image may not fit. One that is there already needs no space, unless it is what runs now under a tag
/// that may have moved.
async fn too_little_disk<E: Engine>(
    engine: &E,
    disk: &Disk,
    serving: &ContainerId,
    running: &ImageId,
    reference: &ImageReference,
) -> Option<Reason> {
    let there = engine.inspect_image(&reference.to_string()).await.ok();
    if there.as_ref().and_then(image_id).is_some_and(|id| id != *running) {
        return None;
    }
    let Room { needed, available } = disk.room(engine, serving, running).await?;
    debug!(image = %reference, needed, available, "free space on the engine's disk, in bytes");
    (needed > available).then(|| Reason::TooLittleDisk {
        image: reference.to_string(),
        needed,
        available,
    })
}

/// Pulls an image and returns its id, which is read after the pull whatever its outcome was: errors arrive inside a 200
/// stream, and some of them are not errors.
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
    let needed = match engine.inspect_image(running.as_str()).await {
        Ok(running) => image_platform(&running),
        Err(error) if is_refused_for_good(&error) => None,
        Err(error) => return Err(error.into()),
    };
    let EngineInfo { os, architecture, .. } = engine.info().await?;
    // Only an emulated platform is named; the engine pulls for its own anyway.
    let platform = needed
        .as_deref()
        .filter(|needed| *needed != format!("{os}/{architecture}"));
    let before = engine.inspect_image(&reference.to_string()).await.ok();
    let mut logged_at = std::time::Instant::now();
    let progress = |progress: PullProgress| {
        if logged_at.elapsed() >= PROGRESS_INTERVAL {
            logged_at = std::time::Instant::now();
            info!(image = %reference, current_bytes = progress.current, total_bytes = progress.total, "pulling");
        }
    };
    let pulled = engine.pull(reference, platform, progress).await;
    if let Err(error @ EngineError::Unreachable(_)) = pulled {
        return Err(error.into());
    }
    let image = match engine.inspect_image(&reference.to_string()).await {
        Ok(image) => image,
        Err(EngineError::NotFound(_)) => {
            let problem = pulled.err().map_or_else(
                || "no such image after the pull".to_owned(),
                |error| error.explain(reference.registry()),
            );
            return Err(refused(problem));
        }
        Err(error) if is_refused_for_good(&error) => {
            let error = pulled.err().unwrap_or(error);
            return Err(refused(error.explain(reference.registry())));
        }
        Err(error) => return Err(error.into()),
    };
    if let Err(error) = pulled {
        // An image that was there before says nothing about this pull.
        if before.as_ref().map(image_id) == Some(image_id(&image)) {
            return Err(refused(error.explain(reference.registry())));
        }
        debug!(image = %reference, %error, "the pull reported an error, but the image is there");
    }
    if let (Some(offered), Some(needed)) = (image_platform(&image), needed)
        && offered != needed
    {
        return Err(Failure::Refused(Reason::WrongPlatform {
            image: reference.to_string(),
            offered,
            needed,
        }));
    }
    image_id(&image).ok_or_else(|| refused("the engine shows an image without an id".to_owned()))
}

/// Whether a socket proxy refused the call: repeating it would not help.
fn is_refused_for_good(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Refused {
            status: 401 | 403 | 405,
            ..
        }
    )
}

fn image_id(image: &Value) -> Option<ImageId> {
    image.get("Id").and_then(Value::as_str).map(ImageId::new)
}
