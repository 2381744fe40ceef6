//! Sizes, given in bytes, as every log line, error and page shows them.

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// Shows a size that is needed, rounded up; otherwise like [`text()`].
pub fn needed(bytes: u64) -> String {
    let unit = if bytes >= 10 * GIB { GIB } else { MIB };
    text(bytes.saturating_add(unit - 1))
}

/// Shows a size that may be small, such as the bytes in a second: `512 KiB`, and from 1 MiB on like [`text()`].
pub fn small(bytes: u64) -> String {
    if bytes < MIB {
        format!("{} KiB", bytes / KIB)
    } else {
        text(bytes)
    }
}

/// Shows a size for people, rounded down: `512 MiB`, and from 10 GiB on `41 GiB`.
pub fn text(bytes: u64) -> String {
    if bytes >= 10 * GIB {
        format!("{} GiB", bytes / GIB)
    } else {
        format!("{} MiB", bytes / MIB)
    }
}
