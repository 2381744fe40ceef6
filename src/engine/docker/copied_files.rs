//! Finds files that were copied into a container before its present life began. Compose does so with a config or a secret
//! whose content is in the compose file: right after the creation, and from version 2.38 on before each start. No document
//! lists them, and a successor would lack them.
//!
//! They are recognised by their modification times, so some other files are taken for them:
//! - files that a process of an earlier life extracted from an archive younger than the container, or downloaded with the
//!   server's time;
//! - every file that an earlier life wrote, where the engine's file system stores whole seconds only.
//!
//! A delegate with such a file is not upgraded until it is recreated. Conversely, a file is missed where the clocks of
//! Compose's host and of the engine's host differ.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use tracing::warn;

use crate::container::Inspected;

/// The header with which the engine describes a path in a container: base64 of JSON.
pub(super) const STAT: &str = "X-Docker-Container-Path-Stat";
/// As many files are checked, the shortest paths first, since a person chose where a config goes. Each check is a call, for
/// which the engine mounts the container's file system.
const MAX_FILES: usize = 500;
/// The error of a time in a tar archive, which stores whole seconds.
const WHOLE_SECOND: TimeDelta = TimeDelta::seconds(1);

/// A row of the answer to `GET /containers/{id}/changes`.
#[derive(Debug, Deserialize)]
pub(super) struct Change {
    #[serde(rename = "Path")]
    path: String,
    #[serde(rename = "Kind")]
    kind: u8,
}

/// The files that are new or changed, since a config may replace a file of the image. The shortest paths come first. The
/// engine answers `null` where nothing changed.
pub(super) fn changed_files(changes: Option<Vec<Change>>) -> Vec<String> {
    const REMOVED: u8 = 2;
    let changes = changes.unwrap_or_default();
    // The engine lists the directories of each file as changed, too. They need no check.
    let directories: HashSet<&str> = changes
        .iter()
        .filter_map(|change| Some(change.path.rsplit_once('/')?.0))
        .collect();
    let mut paths: Vec<String> = changes
        .iter()
        .filter(|change| change.kind != REMOVED && !directories.contains(change.path.as_str()))
        .map(|change| change.path.clone())
        .collect();
    paths.sort_by_cached_key(|path| (path.matches('/').count(), path.clone()));
    let unchecked = paths.len().saturating_sub(MAX_FILES);
    if unchecked > 0 {
        warn!(unchecked, "only the first {MAX_FILES} changed files were checked");
        paths.truncate(MAX_FILES);
    }
    paths
}

#[derive(Deserialize)]
struct Stat {
    /// Go's `os.FileMode`: no bit above the permissions is set for a regular file.
    mode: u32,
    mtime: DateTime<Utc>,
}

/// Whether the path with this header is a regular file that was copied into the container before its present life.
///
/// Compose sends a tar archive with the time of sending. A time in an archive has no fraction of a second, while the time of
/// a file that a process wrote has one. A file that a process extracted has none either, but mostly a time from before the
/// container was created.
pub(super) fn was_copied(container: &Inspected, header: &str) -> bool {
    const NOT_REGULAR: u32 = 0x8f28_0000;
    let Some(stat) = STANDARD
        .decode(header)
        .ok()
        .and_then(|json| serde_json::from_slice::<Stat>(&json).ok())
    else {
        return false;
    };
    let Some(created) = container.created_at() else {
        return false;
    };
    let started = container.started_at();
    stat.mode & NOT_REGULAR == 0
        && stat.mtime.timestamp_subsec_nanos() == 0
        && stat.mtime >= created - WHOLE_SECOND
        && started.is_none_or(|started| stat.mtime <= started + WHOLE_SECOND)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(started: &str) -> Inspected {
        let state = json!({ "Status": "running", "StartedAt": started });
        Inspected::new(json!({ "Id": "1", "Created": "2026-11-21T10:00:00.7Z", "State": state })).unwrap()
    }

    fn stat(mode: u32, mtime: &str) -> String {
        STANDARD.encode(
            json!({ "name": "x", "size": 1, "mode": mode, "mtime": mtime, "linkTarget": "" }).to_string(),
        )
    }

    #[test]
    fn a_file_with_whole_seconds_from_before_this_life_was_copied() {
        let running = container("2026-11-21T10:00:01.2Z");
        let restarted = container("2026-11-21T12:00:00Z");
        let never_started = container("0001-01-01T00:00:00Z");
        let put = |container: &Inspected, mode, mtime| was_copied(container, &stat(mode, mtime));
        assert!(put(&running, 0o444, "2026-11-21T10:00:01Z"));
        assert!(put(&running, 0o444, "2026-11-21T10:00:00Z"), "rounded down");
        for before_this_life in [
            "2026-11-21T10:00:40Z",
            "2026-11-21T10:07:00Z",
            "2026-11-21T12:00:01Z",
        ] {
            assert!(put(&restarted, 0o444, before_this_life), "{before_this_life}");
        }
        assert!(!put(&restarted, 0o444, "2026-11-21T12:00:02Z"), "in this life");
        assert!(put(&never_started, 0o444, "2026-11-21T10:07:00Z"));
        assert!(
            !put(&running, 0o644, "2026-11-21T10:00:01.123Z"),
            "a process wrote it"
        );
        assert!(!put(&running, 0o644, "2026-11-21T10:00:40Z"), "after the start");
        assert!(
            !put(&running, 0o644, "2025-01-01T00:00:00Z"),
            "from an archive of its own"
        );
        assert!(!put(&running, 0x8000_01ed, "2026-11-21T10:00:01Z"), "a directory");
        assert!(!put(&running, 0x0800_01ff, "2026-11-21T10:00:01Z"), "a link");
        assert!(!was_copied(&running, "?"));
    }

    #[test]
    fn changed_files_come_with_short_paths_first_and_without_their_directories() {
        let changes = json!([
            { "Path": "/opt/a", "Kind": 1 }, { "Path": "/opt/a/b", "Kind": 1 }, { "Path": "/opt", "Kind": 0 },
            { "Path": "/etc", "Kind": 0 }, { "Path": "/etc/of-the-image.yml", "Kind": 0 },
            { "Path": "/gone", "Kind": 2 }, { "Path": "/less", "Kind": 0 }, { "Path": "/less/gone", "Kind": 2 },
            { "Path": "/config", "Kind": 1 },
        ]);
        let changes: Option<Vec<Change>> = serde_json::from_value(changes).unwrap();
        assert_eq!(
            changed_files(changes),
            ["/config", "/etc/of-the-image.yml", "/opt/a/b"]
        );
        assert_eq!(changed_files(None), Vec::<String>::new());
    }
}
