//! Paths in a container.

use std::path::{Component, Path, PathBuf};

/// A single form for all paths that lead to the same place.
pub(super) fn clean(path: &str) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for component in Path::new(path).components() {
        match component {
            Component::Normal(part) => clean.push(part),
            Component::ParentDir => {
                clean.pop();
            }
            _ => {}
        }
    }
    clean
}

/// The mount point of a bind in `HostConfig.Binds`.
pub(super) fn bind_destination(bind: &str) -> &str {
    let mut parts = bind.split(':');
    let first = parts.next().unwrap_or_default();
    parts.next().unwrap_or(first)
}
