//! Sizes in bytes, as every log line, error and page shows them.

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// Writes a size that is needed, rounded up; otherwise as [`text()`].
pub fn needed(bytes: u64) -> String {
    let unit = if bytes >= 10 * GIB { GIB } else { MIB };
    text(bytes.saturating_add(unit - 1))
}

/// Writes a size that may be small, as of a second: `512 KiB`, from 1 MiB on as [`text()`].
pub fn small(bytes: u64) -> String {
    if bytes < MIB {
        format!("{} KiB", bytes / KIB)
    } else {
        text(bytes)
    }
}

/// Writes a size for people, rounded down: `512 MiB`, from 10 GiB on `41 GiB`.
pub fn text(bytes: u64) -> String {
    if bytes >= 10 * GIB {
        format!("{} GiB", bytes / GIB)
    } else {
        format!("{} MiB", bytes / MIB)
    }
}
