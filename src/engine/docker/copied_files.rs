//! Finds files that were copied into a container before its current run started. Compose copies a config or secret whose
//! content is in the compose file: right after the creation, and since version 2.38 before each start. No document lists
//! these files, so a successor would lack them.
//!
//! The files are recognised by their modification times. This also matches some other files:
//! - files that a process of an earlier run extracted from an archive that is newer than the container, or downloaded with
//!   the server's timestamp;
//! - every file that an earlier run wrote, if the engine's file system stores whole seconds only.
//!
//! A delegate with such a file is not upgraded until it is recreated. Conversely, a copied file is missed if the clocks of
//! Compose's host and the engine's host differ.

use std::collections::{BTreeSet, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use tracing::warn;

use crate::container::Inspected;

/// The header that describes a path in a container, as base64-encoded JSON.
pub(super) const STAT: &str = "X-Docker-Container-Path-Stat";
/// The most files to check. The shortest paths come first, since a person chose the path of a config. Each check is a call
/// that makes the engine mount the container's file system.
const MAX_FILES: usize = 500;
/// The precision of times in a tar archive, which stores whole seconds.
const WHOLE_SECOND: TimeDelta = TimeDelta::seconds(1);

/// A row of the answer to `GET /containers/{id}/changes`.
#[derive(Debug, Deserialize)]
pub(super) struct Change {
    #[serde(rename = "Path")]
    path: String,
    #[serde(rename = "Kind")]
    kind: u8,
}

/// The new and changed files with the shortest paths. Changed files count because a config may replace a file of the image.
/// There may be millions of them, so this keeps at most twice as many as are checked.
#[derive(Default)]
pub(super) struct ChangedFiles {
    /// Each path with its depth.
    paths: BTreeSet<(usize, String)>,
    /// The first parent directories of changed files that were seen.
    directories: HashSet<String>,
    dropped: usize,
}

impl ChangedFiles {
    pub(super) fn note(&mut self, change: Change) {
        const REMOVED: u8 = 2;
        let depth = |path: &str| path.matches('/').count();
        // The engine also lists the parent directories of each changed file, mostly before the file. They need no check. An
        // entry that turns out to be the parent of another entry is a directory, so it is dropped.
        if let Some((directory, _)) = change.path.rsplit_once('/')
            && !self.directories.contains(directory)
        {
            self.paths.remove(&(depth(directory), directory.to_owned()));
            if self.directories.len() < 10 * MAX_FILES {
                self.directories.insert(directory.to_owned());
            }
        }
        if change.kind == REMOVED || self.directories.contains(&change.path) {
            return;
        }
        self.paths.insert((depth(&change.path), change.path));
        if self.paths.len() > 2 * MAX_FILES {
            self.paths.pop_last();
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    /// Returns the files to check, shortest paths first.
    pub(super) fn files(self) -> impl Iterator<Item = String> {
        let unchecked = self
            .paths
            .len()
            .saturating_sub(MAX_FILES)
            .saturating_add(self.dropped);
        if unchecked > 0 {
            warn!(unchecked, "only the first {MAX_FILES} changed files were checked");
        }
        self.paths.into_iter().take(MAX_FILES).map(|(_, path)| path)
    }
}

#[derive(Deserialize)]
struct Stat {
    /// Go's `os.FileMode`. A regular file has none of the type bits set.
    mode: u32,
    mtime: DateTime<Utc>,
}

/// Whether the path with this header is a regular file that was copied into the container before its current run.
///
/// Compose sends a tar archive that carries the time of sending. Times in an archive have no fraction of a second, while the
/// time of a file that a process wrote has one. A file that a process extracted has no fraction either, but its time is
/// usually from before the container was created.
pub(super) fn was_copied(container: &Inspected, header: &str) -> bool {
    const NOT_REGULAR: u32 = 0x8f28_0000;
    let json = STANDARD.decode(header).unwrap_or_default();
    let (Ok(stat), Some(created)) = (serde_json::from_slice::<Stat>(&json), container.created_at()) else {
        return false;
    };
    let started = container.started_at();
    stat.mode & NOT_REGULAR == 0
        && stat.mtime.timestamp_subsec_nanos() == 0
        && stat.mtime >= created - WHOLE_SECOND
        && started.is_none_or(|started| stat.mtime <= started + WHOLE_SECOND)
}
