//! The memory and the disk space that are left for delegates and their images.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::proc;
use crate::container::ContainerId;
use crate::engine::Engine;

/// The memory available to new processes on the engine's host, in bytes; `None` where it cannot be read.
pub type FreeMemory = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// The bytes left on the file system of an engine's root directory; `None` where it cannot be seen from here. The
/// container is one of that engine's.
pub type FreeDisk = Arc<dyn Fn(&Path, &ContainerId) -> Option<u64> + Send + Sync>;

/// Beyond the image itself, in bytes: an engine with a full disk is of no use to the delegates either.
pub(crate) const MARGIN: u64 = 64 * 1024 * 1024;

/// How to find out how much room an engine has for images.
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
    /// As much as the image that runs, and a margin, in bytes: the two are alike, and what they share is not known
    /// before the pull.
    pub needed: u64,
    /// The free space for images, in bytes.
    pub available: u64,
}

impl Disk {
    /// The room for the successor of `running`, the document of the image of the container `serving`; `None` where it cannot be
    /// known before the pull.
    pub async fn room<E: Engine>(&self, engine: &E, serving: &ContainerId, running: &Value) -> Option<Room> {
        let size = running.get("Size").and_then(Value::as_u64)?;
        Some(Room {
            needed: size.saturating_add(MARGIN),
            available: self.available(engine, serving).await?,
        })
    }

    /// The engine's own figure comes first.
    async fn available<E: Engine>(&self, engine: &E, serving: &ContainerId) -> Option<u64> {
        let storage = engine.storage().await.ok()?;
        if let Some(available) = storage.available() {
            return Some(available);
        }
        if !storage.is_below_root() {
            return None;
        }
        // From a container of another engine's, this one's disk is not seen.
        if let Some(own) = &self.own_id {
            engine.inspect(own).await.ok()?;
        }
        (self.free)(&storage.root, serving)
    }
}

/// The memory available to new processes on this host, in bytes, also from inside a container.
pub fn free_memory() -> Option<u64> {
    proc::available_memory(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// The bytes left on the file system of an engine's root directory. From inside a container of that engine it is seen
/// through a file that the engine binds; from outside, through the container's directory below the root.
pub fn free_disk(root: &Path, container: &ContainerId) -> Option<u64> {
    let bound = fs::read_to_string("/proc/self/mountinfo")
        .ok()
        .and_then(|mountinfo| proc::bound_file(&mountinfo, root));
    let place = bound.or_else(|| {
        let directory = root.join("containers").join(container.as_str());
        (root.is_absolute() && directory.is_dir()).then_some(directory)
    })?;
    let file_system = rustix::fs::statvfs(&place).ok()?;
    file_system.f_bavail.checked_mul(file_system.f_frsize)
}
