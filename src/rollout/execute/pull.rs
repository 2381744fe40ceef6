//! Pulls take minutes, so they run beside the passes: one per image, however many delegates want it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use tracing::{debug, info};

use super::Failure;
use crate::container::{ContainerId, ImageId};
use crate::document::image_platform;
use crate::engine::{Engine, EngineError, EngineInfo, PullProgress, is_auth_error};
use crate::host::capacity::{Disk, Room};
use crate::image::ImageReference;
use crate::rollout::Rollout;
use crate::rollout::reason::Reason;

/// The pulls under way. Dropped, they end, and the next one may have to begin anew.
#[derive(Debug, Default)]
pub struct Pulls {
    tasks: JoinSet<Pulled>,
    in_progress: HashSet<String>,
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
    pub fn begin<E: Engine>(
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
            let engine = engine.as_ref();
            let outcome = match too_little_disk(engine, &disk, &serving, &running, &reference).await {
                Some(reason) => Err(Failure::Refused(reason)),
                None => pull(engine, &running, &reference).await,
            };
            Pulled {
                rollout,
                reference,
                outcome,
            }
        });
    }

    /// Whether this image is being pulled.
    pub fn is_in_progress(&self, reference: &ImageReference) -> bool {
        self.in_progress.contains(&reference.normalised())
    }

    /// A pull that has ended since the last question.
    pub fn ended(&mut self) -> Option<Pulled> {
        match self.tasks.try_join_next()? {
            Ok(pulled) => {
                self.in_progress.remove(&pulled.reference.normalised());
                Some(pulled)
            }
            // Whichever it was, it is begun anew.
            Err(error) => {
                debug!(%error, "a pull was lost");
                self.in_progress.clear();
                None
            }
        }
    }
}

/// Whether the image may not fit. One that is there already, under a tag that has not just moved, needs no room.
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
    debug!(image = %reference, needed, available, "room on the engine's disk, in bytes");
    (needed > available).then(|| Reason::TooLittleDisk {
        image: reference.to_string(),
        needed,
        available,
    })
}

/// What a question to a registry failed of, and what to do.
pub(crate) fn problem(error: &EngineError, registry: &str) -> String {
    let words = error.words();
    if words.contains("no space left on device") {
        format!("the engine's disk is full: {words}")
    } else if is_auth_error(&words) && !matches!(error, EngineError::Unauthorized(_)) {
        format!(
            "{words}; a login for {registry} belongs in REGISTRY_USERNAME and REGISTRY_PASSWORD, or in the config.json of \
             DOCKER_CONFIG"
        )
    } else {
        words
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
    let needed = match engine.inspect_image(running.as_str()).await {
        Ok(running) => image_platform(&running),
        Err(error) if is_refused_for_good(&error) => None,
        Err(error) => return Err(error.into()),
    };
    let EngineInfo { os, architecture, .. } = engine.info().await?;
    // One that is emulated here; the engine's own is what it takes anyway.
    let name_conflict = needed
        .as_deref()
        .filter(|needed| *needed != format!("{os}/{architecture}"));
    let before = engine.inspect_image(&reference.to_string()).await.ok();
    let mut told = std::time::Instant::now();
    let progress = |progress: PullProgress| {
        if told.elapsed() >= Duration::from_secs(5) {
            told = std::time::Instant::now();
            info!(image = %reference, current_bytes = progress.current, total_bytes = progress.total, "pulling");
        }
    };
    let pulled = engine.pull(reference, name_conflict, progress).await;
    if let Err(error @ EngineError::Unreachable(_)) = pulled {
        return Err(error.into());
    }
    let image = match engine.inspect_image(&reference.to_string()).await {
        Ok(image) => image,
        Err(EngineError::NotFound(_)) => {
            let problem = pulled.err().map_or_else(
                || "no such image after the pull".to_owned(),
                |e| problem(&e, reference.registry()),
            );
            return Err(refused(problem));
        }
        Err(error) if is_refused_for_good(&error) => {
            return Err(refused(problem(
                &pulled.err().unwrap_or(error),
                reference.registry(),
            )));
        }
        Err(error) => return Err(error.into()),
    };
    if let Err(error) = pulled {
        // An image that was there before says nothing about this pull.
        if before.as_ref().map(image_id) == Some(image_id(&image)) {
            return Err(refused(problem(&error, reference.registry())));
        }
        debug!(image = %reference, %error, "the pull complained, yet the image is there");
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

/// A socket proxy that does not let this through will not do so in a second look either.
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
