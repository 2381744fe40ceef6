//! Durations as people write them, and as the program prints them for people.

use std::time::Duration;

use delegate_upgrader::text::duration::{meant, parse, text};

#[test]
fn durations_are_read_as_people_write_them() {
    for (given, seconds) in [
        ("0", 0),
        ("3600", 3_600),
        (" 45m ", 2_700),
        ("1h30m", 5_400),
        ("2D", 172_800),
        ("1d1h1m1s", 90_061),
        ("90s", 90),
    ] {
        assert_eq!(parse(given), Some(Duration::from_secs(seconds)), "{given}");
    }
}

#[test]
fn anything_else_is_refused() {
    for given in [
        "",
        " ",
        "m",
        "1.5h",
        "-1",
        "+1",
        "1h-5m",
        "30m1h",
        "1m1m",
        "1 h",
        "5min",
        "500ms",
        "1h30",
        "99999999999999999999",
        "999999999999999999d",
    ] {
        assert_eq!(parse(given), None, "{given}");
    }
}

#[test]
fn suggests_the_equivalent_valid_form() {
    for (given, expected) in [
        ("1.5h", Some("1h30m")),
        ("1 h", Some("1h")),
        ("1h 30m", Some("1h30m")),
        ("3 Days", Some("3d")),
        ("2 weeks", Some("14d")),
        ("0.5s", None),
        ("500ms", None),
        ("-5m", None),
        ("two days", None),
        ("", None),
    ] {
        assert_eq!(meant(given).as_deref(), expected, "{given}");
    }
}

#[test]
fn reads_written_duration_back() {
    for seconds in [0, 1, 59, 60, 3_600, 5_400, 86_399, 90_061] {
        let duration = Duration::from_secs(seconds);
        assert_eq!(parse(&text(duration)), Some(duration), "{}", text(duration));
    }
    assert_eq!(text(Duration::from_secs(5_400)), "1h30m");
}

#[test]
fn fractions_of_a_second_are_rounded() {
    for (milliseconds, expected) in [
        (0, "0s"),
        (250, "250ms"),
        (1_499, "1s"),
        (29_999, "30s"),
        (3_605_000, "1h5s"),
    ] {
        assert_eq!(text(Duration::from_millis(milliseconds)), expected);
    }
}
