//! Reads records back.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::events::event::Event;

/// The longest line that can be a record, in bytes.
const LONGEST: u64 = 64 << 10;

/// All records that are kept uncompressed, the earliest first. It skips everything else: missing files, truncated
/// lines, and notes that people added.
pub fn read(path: &Path) -> impl Iterator<Item = Event> + use<> {
    read_all(&paths(path))
}

pub(super) fn read_all(paths: &[PathBuf]) -> impl Iterator<Item = Event> + use<> {
    let files: Vec<_> = paths.iter().filter_map(|path| File::open(path).ok()).collect();
    files.into_iter().flat_map(lines_from)
}

/// The file and its predecessors `PATH.1`, `PATH.2`, …, as logrotate names them; the earliest first.
pub(super) fn paths(path: &Path) -> Vec<PathBuf> {
    let predecessor = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let predecessors = (1..).map(predecessor).take_while(|path| path.exists());
    let mut paths: Vec<_> = std::iter::once(path.to_owned()).chain(predecessors).collect();
    paths.reverse();
    paths
}

/// The records from the current position to the end of a file.
pub(super) fn lines_from(file: impl Read) -> impl Iterator<Item = Event> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    std::iter::from_fn(move || {
        loop {
            line.clear();
            let read = reader.by_ref().take(LONGEST).read_until(b'\n', &mut line).ok()?;
            if read == 0 {
                return None;
            }
            if let Ok(event) = serde_json::from_slice(&line) {
                return Some(event);
            }
        }
    })
}
