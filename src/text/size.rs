//! Sizes in bytes, as every log line, error and page shows them.

pub(crate) const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;

/// Writes a size for people, rounded down: `512 MiB`, from 10 GiB on `41 GiB`.
pub fn text(bytes: u64) -> String {
    if bytes >= 10 * GIB {
        format!("{} GiB", bytes / GIB)
    } else {
        format!("{} MiB", bytes / MIB)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_written_in_its_unit() {
        for (bytes, expected) in [
            (0, "0 MiB"),
            (MIB - 1, "0 MiB"),
            (1536 * MIB, "1536 MiB"),
            (10 * GIB - 1, "10239 MiB"),
            (42_064 * MIB, "41 GiB"),
        ] {
            assert_eq!(text(bytes), expected);
        }
    }
}
