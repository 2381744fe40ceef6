//! Reading records back.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::events::event::Event;

/// A line that is longer is none of ours.
const LONGEST: u64 = 64 << 10;

/// All records that are kept, the earliest first. It skips what it cannot read: a missing file, a truncated line, a
/// note that a person added.
pub fn read(path: &Path, max_files: u32) -> impl Iterator<Item = Event> + use<> {
    let predecessors = (1..max_files).rev().map(|number| predecessor(path, number));
    let paths: Vec<_> = predecessors.chain([path.to_owned()]).collect();
    paths
        .into_iter()
        .filter_map(|path| File::open(path).ok())
        .flat_map(lines_from)
}

/// `PATH.1` and so on.
pub(super) fn predecessor(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// The records from here to the end of a file.
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
