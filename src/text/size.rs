//! Sizes in bytes, as every log line, error and page shows them.

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;

/// Writes a size that is needed, rounded up; otherwise as [`text()`].
pub fn needed(bytes: u64) -> String {
    let unit = if bytes >= 10 * GIB { GIB } else { MIB };
    text(bytes.saturating_add(unit - 1))
}

/// Writes a size for people, rounded down: `512 MiB`, from 10 GiB on `41 GiB`.
pub fn text(bytes: u64) -> String {
    if bytes >= 10 * GIB {
        format!("{} GiB", bytes / GIB)
    } else {
        format!("{} MiB", bytes / MIB)
    }
}
