//! Pulls take minutes, so they run in the background: one per image, however many delegates want it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::image::image_id;
use super::progress::{Meter, PullState};
use crate::container::ImageId;
use crate::document::{image_platform, is_same_image};
use crate::engine::{Engine, EngineError, EngineInfo, PullProgress};
use crate::host::capacity::{Disk, MARGIN, Room};
use crate::image::{ImageReference, Pull, is_mutable_tag};
use crate::net::retry::Retry;
use crate::rollout::Rollout;
use crate::rollout::failure::Failure;
use crate::rollout::reason::Reason;

/// How often a pull's progress is logged.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);

/// How long an image is not pulled again after the disk was full, if the free space is unknown.
const FULL_DISK_PAUSE: Duration = Duration::from_secs(3600);

/// The most simultaneous image pulls; the engine itself limits the layers.
const MAX_OPEN: usize = 10;

/// The pulls in progress. Dropping this ends them, and later ones may have to start over.
#[derive(Debug)]
pub struct Pulls {
    tasks: JoinSet<(Pulled, Option<FullDisk>)>,
    /// Further pulls wait.
    open: Arc<Semaphore>,
    /// Receives each pull that has ended.
    ending: Arc<Notify>,
    in_progress: HashMap<String, Meter>,
    /// The images whose last pull ran out of space. Only this process remembers them: the next one pulls once more, which costs
    /// traffic but no container.
    full_disks: HashMap<String, FullDisk>,
}

/// A pull that ran out of space.
#[derive(Clone, Debug)]
struct FullDisk {
    reason: Reason,
    /// The free space before it started, in bytes.
    available: Option<u64>,
    since: Instant,
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

impl Default for Pulls {
    fn default() -> Self {
        Self {
            tasks: JoinSet::new(),
            open: Arc::new(Semaphore::new(MAX_OPEN)),
            ending: Arc::default(),
            in_progress: HashMap::new(),
            full_disks: HashMap::new(),
        }
    }
}

impl Pulls {
    /// Starts a pull for a delegate in service, unless the image is being pulled already.
    pub fn start<E: Engine>(
        &mut self,
        engine: &Arc<E>,
        rollout: &Rollout,
        reference: &ImageReference,
        policy: Pull,
        disk: Disk,
    ) {
        let Some(serving) = rollout.replaceable() else {
            return;
        };
        let (serving, running) = (serving.id.clone(), serving.image_id.clone());
        let meter = match self.in_progress.entry(reference.normalised()) {
            Entry::Occupied(_) => return,
            Entry::Vacant(entry) => entry.insert(Meter::default()).clone(),
        };
        let last = self.full_disks.get(&reference.normalised()).cloned();
        let (engine, rollout, reference) = (Arc::clone(engine), rollout.clone(), reference.clone());
        let (open, ending) = (Arc::clone(&self.open), Arc::clone(&self.ending));
        self.tasks.spawn(async move {
            // It is never closed.
            let _permit = open.acquire().await;
            let begun = Instant::now();
            let engine = engine.as_ref();
            let before = Before {
                running: engine.inspect_image(running.as_str()).await,
                wanted: engine.inspect_image(&reference.to_string()).await,
            };
            let is_there = before.is_there(&running);
            let room = match &before.running {
                Ok(running) if !is_there => disk.room(engine, &serving, running).await,
                _ => None,
            };
            let last = last.filter(|_| !is_there);
            let refusal = too_little_disk(room, last.as_ref(), &reference);
            let (outcome, full_disk) = if let Some(reason) = refusal {
                (Err(Failure::Refused(reason)), last)
            } else {
                let mut is_full = false;
                let outcome = pull(engine, before, &reference, policy, &meter, &mut is_full).await;
                let full_disk = match &outcome {
                    Err(Failure::Refused(reason)) if is_full => Some(FullDisk {
                        reason: reason.clone(),
                        available: room.map(|room| room.available),
                        since: Instant::now(),
                    }),
                    _ => None,
                };
                (outcome, full_disk)
            };
            let pulled = Pulled {
                rollout,
                reference,
                outcome,
                took: begun.elapsed(),
            };
            // This task ends before the receiver continues.
            ending.notify_one();
            (pulled, full_disk)
        });
    }

    /// Completes when a pull ends, or if one has ended since the last call; never without a pull.
    pub async fn changed(&self) {
        self.ending.notified().await;
    }

    /// Whether this image is being pulled.
    pub fn is_in_progress(&self, reference: &ImageReference) -> bool {
        self.in_progress.contains_key(&reference.normalised())
    }

    /// The progress of this image's pull, as far as the engine reports it.
    pub fn progress(&self, image: &str) -> Option<PullState> {
        let reference: ImageReference = image.parse().ok()?;
        self.in_progress.get(&reference.normalised())?.state(image)
    }

    /// Hands out each pull that has ended, once.
    pub fn ended(&mut self) -> Option<Pulled> {
        match self.tasks.try_join_next()? {
            Ok((pulled, full_disk)) => {
                let image = pulled.reference.normalised();
                self.in_progress.remove(&image);
                match full_disk {
                    Some(full_disk) => self.full_disks.insert(image, full_disk),
                    None => self.full_disks.remove(&image),
                };
                Some(pulled)
            }
            // The failed pull is unknown, so all may be started again.
            Err(error) => {
                debug!(%error, "internal error: a pull ended without a result");
                self.in_progress.clear();
                None
            }
        }
    }
}

/// The engine's answers before a pull.
struct Before {
    /// The image that runs now.
    running: Result<Value, EngineError>,
    /// The image that the reference stands for.
    wanted: Result<Value, EngineError>,
}

impl Before {
    /// Whether the image is already there and needs no space. The running image does not count, since its tag may have moved.
    fn is_there(&self, running: &ImageId) -> bool {
        let there = self.wanted.as_ref().ok();
        there.and_then(image_id).is_some_and(|id| id != *running)
    }
}

/// Whether the image may not fit, judged by the free space and by its last pull if that filled the disk.
fn too_little_disk(
    room: Option<Room>,
    last: Option<&FullDisk>,
    reference: &ImageReference,
) -> Option<Reason> {
    let known = last.and_then(|last| last.available);
    if let Some(last) = last
        && (room.is_none() || known.is_none())
    {
        return (last.since.elapsed() < FULL_DISK_PAUSE).then(|| last.reason.clone());
    }
    let Room { needed, available } = room?;
    // The space before the pull was not enough.
    let needed = needed.max(known.map_or(0, |known| known.saturating_add(MARGIN)));
    debug!(image = %reference, needed, available, "free space on the engine's disk, in bytes");
    (needed > available).then(|| Reason::TooLittleDisk {
        image: reference.to_string(),
        needed,
        available,
    })
}

/// Pulls an image and reads its id, whatever the pull's outcome: errors arrive inside a 200 stream, and some are not errors.
/// Reports whether the disk was full.
async fn pull<E: Engine>(
    engine: &E,
    before: Before,
    reference: &ImageReference,
    policy: Pull,
    meter: &Meter,
    is_full: &mut bool,
) -> Result<ImageId, Failure> {
    let refused = |problem: String, retry: Retry| {
        Failure::Refused(Reason::PullFailed {
            image: reference.to_string(),
            problem,
            retry,
        })
    };
    let failed = |error: &EngineError| refused(error.explain(reference.registry()), error.retry());
    let known = |image: Result<Value, EngineError>| match image {
        Err(error) if matches!(error, EngineError::NotFound(_)) || error.is_not_permitted() => Ok(None),
        image => image.map(Some),
    };
    let running = known(before.running)?.unwrap_or_default();
    let needed = image_platform(&running);
    let checked_id = |image: &Value| {
        if let (Some(offered), Some(needed)) = (image_platform(image), needed.clone())
            && offered != needed
        {
            return Err(Failure::Refused(Reason::WrongPlatform {
                image: reference.to_string(),
                offered,
                needed,
            }));
        }
        if is_same_image(&running, image) && image_id(&running) != image_id(image) {
            return Err(Failure::Refused(Reason::SameImage {
                image: reference.to_string(),
            }));
        }
        let problem = || refused("the engine shows an image without an id".to_owned(), Retry::Never);
        image_id(image).ok_or_else(problem)
    };
    let EngineInfo { os, architecture, .. } = engine.info().await?;
    // The platform is named only if it is emulated; the engine pulls for its own by default.
    let platform = needed
        .as_deref()
        .filter(|needed| *needed != format!("{os}/{architecture}"));
    let before = known(before.wanted)?;
    let local = before
        .as_ref()
        .filter(|_| policy == Pull::Never || !is_mutable_tag(reference));
    match (policy, local) {
        (Pull::Missing | Pull::Never, Some(image)) => return checked_id(image),
        (Pull::Never, None) => {
            let problem = "it is not on this host, and PULL=never: load it with docker load";
            return Err(refused(problem.to_owned(), Retry::Never));
        }
        (Pull::Always | Pull::Missing, _) => {}
    }
    let mut logged_at = Instant::now();
    let image = reference.to_string();
    let progress = |progress: PullProgress| {
        meter.note(progress);
        if logged_at.elapsed() >= PROGRESS_INTERVAL
            && let Some(state) = meter.state(&image)
        {
            logged_at = Instant::now();
            let (current_bytes, total_bytes) = (state.current, state.total);
            info!(image, current_bytes, total_bytes, "pulling: {state}");
        }
    };
    let pulled = engine.pull(reference, platform, progress).await;
    *is_full = pulled.as_ref().is_err_and(EngineError::is_disk_full);
    if let Err(error @ EngineError::Unreachable(_)) = pulled {
        return Err(error.into());
    }
    let image = match engine.inspect_image(&reference.to_string()).await {
        Ok(image) => image,
        Err(EngineError::NotFound(_)) => {
            let nothing = || refused("no such image after the pull".to_owned(), Retry::Never);
            return Err(pulled.as_ref().err().map_or_else(nothing, failed));
        }
        Err(error) if error.is_not_permitted() => {
            let error = pulled.err().unwrap_or(error);
            return Err(failed(&error));
        }
        Err(error) => return Err(error.into()),
    };
    if let Err(error) = pulled {
        // An image that was there before does not prove that this pull succeeded.
        if before.as_ref().map(image_id) == Some(image_id(&image)) {
            if local.is_none() || !error.is_registry_unreachable() {
                return Err(failed(&error));
            }
            let problem = error.explain(reference.registry());
            warn!(
                problem,
                "cannot reach the registry; using the {reference} that is on this host"
            );
        }
        debug!(image = %reference, %error, "the pull reported an error, but the image is there");
    }
    checked_id(&image)
}
