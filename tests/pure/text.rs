//! Sizes, times and secrets as they are shown.

use chrono::DateTime;
use delegate_upgrader::text::secret::Secret;
use delegate_upgrader::text::{size, time};

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;

#[test]
fn a_size_is_written_in_its_unit() {
    for (bytes, expected) in [
        (0, "0 MiB"),
        (MIB - 1, "0 MiB"),
        (1536 * MIB, "1536 MiB"),
        (10 * GIB - 1, "10239 MiB"),
        (42_064 * MIB, "41 GiB"),
    ] {
        assert_eq!(size::text(bytes), expected);
    }
}

#[test]
fn times_are_whole_seconds_with_their_zone() {
    let time = DateTime::parse_from_rfc3339("2026-11-22T11:05:00.519779905Z")
        .unwrap()
        .to_utc();
    assert_eq!(time::text(time), "2026-11-22T11:05:00Z");
    let berlin = time.with_timezone(&chrono_tz::Tz::Europe__Berlin);
    assert_eq!(time::text(berlin), "2026-11-22T12:05:00+01:00");
}

#[test]
fn a_secret_is_never_printed() {
    assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
}
