//! Whether another image fits on the engine's disk, as far as anybody can tell before it is pulled.

use std::path::Path;
use std::sync::Arc;

use crate::container::ContainerId;
use crate::engine::Engine;

/// What is left, in bytes, on the file system of an engine's root directory, where that can be seen from here. The
/// container is one of that engine's.
pub type FreeDisk = Arc<dyn Fn(&Path, &ContainerId) -> Option<u64> + Send + Sync>;

/// Beyond the image itself: an engine that has no byte left is of no use to the delegates either.
const MARGIN: u64 = 64 * 1024 * 1024;

/// What a new image may need where the one before it has this size: the two are alike, and what they share is not
/// known before the pull.
pub fn needed(size_before: u64) -> u64 {
    size_before.saturating_add(MARGIN)
}

/// The way to know how much room an engine has for images.
#[derive(Clone)]
pub struct Disk {
    /// The file system, seen from here.
    pub free: FreeDisk,
    /// This program's own container, if it runs in one.
    pub own_id: Option<ContainerId>,
}

impl Disk {
    /// The room for images, in bytes; `None` where nobody can tell. The engine's own word comes first.
    pub async fn available<E: Engine>(&self, engine: &E, serving: &ContainerId) -> Option<u64> {
        let storage = engine.storage().await.ok()?;
        if let Some(available) = storage.available() {
            return Some(available);
        }
        if !storage.is_below_root() {
            return None;
        }
        // In a container of another engine's, this one's disk is not seen.
        if let Some(own) = &self.own_id {
            engine.inspect(own).await.ok()?;
        }
        (self.free)(&storage.root, serving)
    }
}
