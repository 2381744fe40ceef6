//! Sizes, times, secrets and foreign text in their printed form.

use chrono::DateTime;
use delegate_upgrader::schedule::zone::Zone;
use delegate_upgrader::text::secret::Secret;
use delegate_upgrader::text::{one_line, quoted, size, time};

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;

#[test]
fn a_size_is_formatted_with_a_suitable_unit() {
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
fn a_size_that_is_needed_is_rounded_up() {
    for (bytes, expected) in [
        (0, "0 MiB"),
        (1, "1 MiB"),
        (1536 * MIB, "1536 MiB"),
        (12 * GIB, "12 GiB"),
        (12 * GIB + 1, "13 GiB"),
        (u64::MAX, "17179869183 GiB"),
    ] {
        assert_eq!(size::needed(bytes), expected);
    }
}

#[test]
fn times_are_whole_seconds_with_their_zone() {
    let time = DateTime::parse_from_rfc3339("2026-11-22T11:05:00.519779905Z")
        .unwrap()
        .to_utc();
    assert_eq!(time::text(time), "2026-11-22T11:05:00Z");
    let berlin = Zone::named("Europe/Berlin").unwrap().local(time);
    assert_eq!(time::text(berlin), "2026-11-22T12:05:00+01:00");
}

#[test]
fn a_secret_is_never_printed() {
    assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
}

#[test]
#[rustfmt::skip]
fn control_characters_have_no_effect() {
    for (given, expected) in [
        ("\u{1b}[1;31mERROR\u{1b}[0m failed\r\n", "ERROR failed"),
        ("\u{1b}]0;title\u{7}text", "text"),
        ("\u{1b}]8;;http://x\u{1b}\\link", "link"),
        ("10%\r20%", "10% 20%"),
        ("a\u{0}b\u{8}c\u{9b}2J", "a\u{fffd}b\u{fffd}c\u{fffd}2J"),
        ("user\u{202e}gpj.exe", "user\u{fffd}gpj.exe"),
        ("ends in \u{1b}", "ends in"),
        // The rest of an unfinished sequence is shown: it must not hide the following text.
        ("a\u{1b}]0;title no space left", "a]0;title no space left"),
        ("a\u{1b}]0;title\nno space left", "a]0;title no space left"),
        ("a\u{1b}[12\nno space left", "a[12 no space left"),
        ("a\u{1b}[1;2Hb", "ab"),
        ("soft\u{ad}hyphen\u{2060}joined\u{61c}", "soft\u{fffd}hyphen\u{fffd}joined\u{fffd}"),
        ("  a\r\n\tb  c\n", "a b c"),
        ("", ""),
    ] {
        assert_eq!(one_line(given, 100), expected, "{given:?}");
    }
}

#[test]
fn a_long_text_ends_between_two_characters() {
    assert_eq!(one_line("ünü", 2), "ün…");
    assert_eq!(one_line("ünü", 3), "ünü");
    assert_eq!(one_line(&"word ".repeat(10_000), 200).chars().count(), 201);
}

#[test]
fn quoting_makes_invisible_characters_visible() {
    assert_eq!(quoted("a\r\n\u{202e}", 100), r#""a\r\n\u{202e}""#);
    assert_eq!(quoted("abc", 2), r#""ab…""#);
}
