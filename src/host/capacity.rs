//! The memory and disk space left for delegates and their images.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::Value;

use super::proc;
use crate::container::{ContainerId, RunState};
use crate::document::SingleInstance;
use crate::engine::{Engine, Storage};

/// The memory of this machine; `None` if it cannot be read, or if the engine runs elsewhere.
pub type FreeMemory = Arc<dyn Fn() -> Option<HostMemory> + Send + Sync>;

/// The most containers that are sampled at once.
const MAX_SAMPLES: usize = 10;

/// With containerd's store, an image takes up to this many times its reported size on disk. The engine reports the compressed
/// layers (28.5: 21 MB of 73 MB) and keeps them beside the files, which are two to three times as large for a delegate.
const UNPACKED: u64 = 4;

/// The bytes left on the file system of the images of this container's engine; `None` if it is not visible from here.
pub type FreeDisk = Arc<dyn Fn(&Storage, &ContainerId) -> Option<u64> + Send + Sync>;

/// The space to leave free beside the image, in bytes: a full disk harms the delegates too.
pub(crate) const MARGIN: u64 = 64 * 1024 * 1024;

/// Finds out how much space an engine has for images.
#[derive(Clone)]
pub struct Disk {
    /// The file system, seen from here.
    pub free: FreeDisk,
    /// This program's own container, if it runs in one.
    pub own_id: Option<ContainerId>,
}

/// The disk space for another image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// As much as the running image plus a margin, in bytes: both are alike, and shared layers are unknown before the pull.
    pub needed: u64,
    /// The free space for images, in bytes.
    pub available: u64,
}

impl Disk {
    /// The space for a successor of the image that `serving` runs, whose document is `running`; `None` if unknown.
    pub async fn room<E: Engine>(&self, engine: &E, serving: &ContainerId, running: &Value) -> Option<Room> {
        let size = running.get("Size").and_then(Value::as_u64)?;
        let storage = engine.storage().await.ok()?;
        let copies = storage.snapshots().map_or(1, |_| UNPACKED);
        Some(Room {
            needed: size.saturating_mul(copies).saturating_add(MARGIN),
            available: self.available(engine, serving, &storage).await?,
        })
    }

    /// The available space, preferably as the engine itself reports it.
    async fn available<E: Engine>(
        &self,
        engine: &E,
        serving: &ContainerId,
        storage: &Storage,
    ) -> Option<u64> {
        if let Some(available) = storage.available() {
            return Some(available);
        }
        if !storage.has_files() {
            return None;
        }
        // From a container of another engine, this one's disk is not visible.
        if let Some(own) = &self.own_id {
            engine.inspect(own).await.ok()?;
        }
        (self.free)(storage, serving)
    }
}

/// The memory of a machine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostMemory {
    /// The total memory.
    pub total: u64,
    /// The memory available to new processes.
    pub available: u64,
}

/// The memory that containers other than the delegate's own take, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// The memory that unproven candidates may still take.
    pub reserved: u64,
    /// The current use of these candidates, and of containers that are about to end.
    pub in_use: u64,
}

/// Whether a second container, which may need this many bytes, has them now; if not, it waits for the other containers.
///
/// # Errors
/// It would not have them even after the other containers are done.
pub fn fits(needed: u64, available: u64, others: Others) -> Result<bool, SingleInstance> {
    if needed > available.saturating_add(others.in_use) {
        return Err(SingleInstance::TooLittleMemory { needed, available });
    }
    Ok(needed <= available.saturating_sub(others.reserved))
}

/// The memory available to new containers, in bytes; `None` if unknown. In LXC, in a virtual machine and for a remote engine,
/// /proc/meminfo is not the engine's. Then the upper limit is the engine's total minus its containers' use.
pub async fn available_memory<E: Engine>(engine: &E, here: Option<HostMemory>) -> Option<u64> {
    let total = engine.storage().await.ok().and_then(|engine| engine.memory);
    let available = here.map(|here| here.available);
    let Some(total) = total.filter(|total| here.is_none_or(|here| here.total != *total)) else {
        return available;
    };
    let containers = engine.containers().await.unwrap_or_default().into_iter();
    let running = containers.filter(|container| container.state == RunState::Running);
    let ids: Vec<ContainerId> = running.map(|container| container.id).collect();
    let used = memory_uses(engine, ids)
        .await
        .into_values()
        .fold(0, u64::saturating_add);
    let left = total.saturating_sub(used);
    Some(available.map_or(left, |available| available.min(left)))
}

/// How much memory each of these containers uses now, in bytes; 0 if unknown. The engine takes a second for each.
pub async fn memory_uses<E: Engine>(engine: &E, ids: Vec<ContainerId>) -> HashMap<ContainerId, u64> {
    let mut uses = HashMap::new();
    for some in ids.chunks(MAX_SAMPLES) {
        let samples = some
            .iter()
            .map(async |id| (id.clone(), engine.memory_usage(id).await.unwrap_or_default()));
        uses.extend(join_all(samples).await);
    }
    uses
}

/// The memory of this machine, even from inside a container.
pub fn host_memory() -> Option<HostMemory> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    Some(HostMemory {
        total: proc::memory(&meminfo, "MemTotal:")?,
        available: proc::memory(&meminfo, "MemAvailable:")?,
    })
}

/// The bytes left on the file system that holds an engine's images. From inside one of its containers, a file that the engine
/// binds shows the engine's root directory, and the container's own root shows containerd's store. From outside, the directories
/// themselves are visible.
pub fn free_disk(storage: &Storage, container: &ContainerId) -> Option<u64> {
    let root = &storage.root;
    let bound = fs::read_to_string("/proc/self/mountinfo")
        .ok()
        .and_then(|mountinfo| proc::bound_file(&mountinfo, root));
    let place = match (bound, storage.snapshots()) {
        (Some(file), None) => file,
        (Some(_), Some(_)) => PathBuf::from("/"),
        (None, snapshots) => {
            let directory = root.join("containers").join(container.as_str());
            let is_here = root.is_absolute() && directory.is_dir();
            let places = match snapshots {
                None => vec![directory],
                // Either the engine's own containerd, or the machine's.
                Some(snapshots) => vec![
                    root.join("containerd/daemon").join(&snapshots),
                    Path::new("/var/lib/containerd").join(&snapshots),
                ],
            };
            places.into_iter().find(|place| is_here && place.is_dir())?
        }
    };
    let file_system = rustix::fs::statvfs(&place).ok()?;
    file_system.f_bavail.checked_mul(file_system.f_frsize)
}
