//! Versions in tags: how they are read and compared, which bounds they meet, and how long they are supported.

use delegate_upgrader::image::{Expiry, ImageName, ImagePolicy, ImageReference, Pin, Version, Violation};

fn tagged(tag: &str) -> ImageReference {
    format!("harness/delegate{tag}").parse().unwrap()
}

#[test]
fn a_tags_version_ignores_its_variant() {
    for (tag, expected) in [
        (":26.03.88501", Some("26.03.88501")),
        (":26.03.88501.minimal", Some("26.03.88501")),
        (":26.03.88501-fips", Some("26.03.88501")),
        (":26.03", Some("26.03")),
        (":26.03.", Some("26.03")),
        (":26.03rc1", None),
        (":26", None),
        (":26..1", None),
        (":v26.03", None),
        (":99999999999999999999.1", None),
        ("", None),
    ] {
        let version = Version::of(&tagged(tag)).map(|version| version.to_string());
        assert_eq!(version.as_deref(), expected, "{tag}");
    }
}

#[test]
fn versions_are_compared_by_their_numbers() {
    let version = |text: &str| text.parse::<Version>().unwrap();
    assert!(version("26.10.1") > version("26.9.2"));
    assert!(version("26.03.88501") > version("26.03.9999"));
    assert!(version("26.03.1") > version("25.12.99999"));
    assert!(version("26.3.1") == version("26.03.1"));
    for (tag, other, is_older) in [
        (":26.02.9", "mirror.example/harness/delegate:26.03.1", true),
        (":26.03.1", "harness/delegate:26.03.1.minimal", false),
        (":26.03.1", "harness/delegate:latest", false),
        (":26.03.1", "not an image", false),
    ] {
        let found = Version::is_older(&tagged(tag), &ImageName::from(other));
        assert_eq!(found, is_older, "{tag} {other}");
    }
}

#[test]
fn a_pin_permits_only_its_version_or_month() {
    for (pin, tag, permits) in [
        ("26.03.88501", ":26.03.88501", true),
        ("26.03.88501.minimal", ":26.03.88501", true),
        ("26.3", ":26.03.88501", true),
        (" 26.03 ", ":26.03.1-fips", true),
        ("26.03", ":26.04.1", false),
        ("26.03.88501", ":26.03.88502", false),
        ("26.03.88501", ":26.03", false),
        ("26.03", ":latest", false),
    ] {
        let pin: Pin = pin.parse().unwrap();
        assert_eq!(pin.permits(&tagged(tag)), permits, "{pin} {tag}");
    }
    for text in ["", "latest", "26", "v26.03", "26.03 or newer", "26.03@sha256:00"] {
        assert_eq!(text.parse::<Pin>(), Err(()), "{text}");
    }
}

#[test]
fn a_maximum_month_permits_its_versions_and_a_version_nothing_later() {
    for (max, tag, expected) in [
        ("26.03", ":26.03.88501", Some(true)),
        ("26.03", ":25.12.1", Some(true)),
        ("26.03", ":27.01.1", Some(false)),
        ("26.03", ":26.03", Some(true)),
        ("26.03.88501", ":26.03.88501", Some(true)),
        ("26.03.88501", ":26.03.88502", Some(false)),
        ("26.03.88501", ":26.03.88501.1", Some(true)),
        ("26.03.88501", ":26.03", None),
        ("26.03.88501", ":26.02", Some(true)),
        ("26.03.88501", ":26.04", Some(false)),
        ("26.03", ":mine", None),
    ] {
        let policy = ImagePolicy {
            require_digest: false,
            max_version: max.parse().ok(),
        };
        let permitted = match policy.check(&tagged(tag)) {
            Ok(()) => Some(true),
            Err(Violation::NewerThan(_)) => Some(false),
            Err(_) => None,
        };
        assert_eq!(permitted, expected, "{tag} by {max}");
    }
}

#[test]
fn counts_support_months_from_the_tag_and_warns_a_month_before_the_end() {
    for (tag, expected) in [
        (":24.05.84200", Some("2024-11-30 2025-01-31")),
        (":25.08.86600.minimal-fips", Some("2026-02-28 2026-04-30")),
        ("", None),
        (":latest", None),
        (":1.2.3", None),
        (":24.13.1", None),
        (":24.00.1", None),
        (":24.05", None),
        (":24.05.rc", None),
    ] {
        let ends = |expiry: Expiry| format!("{} {}", expiry.support_ends, expiry.life_ends);
        assert_eq!(Expiry::of(&tagged(tag)).map(ends).as_deref(), expected, "{tag}");
    }
    let expiry = Expiry::of(&tagged(":24.05.84200")).unwrap();
    let ended = "its support ended on 2024-11-30, its end of life is 2025-01-31";
    for (day, notice) in [
        ("2024-10-29", ""),
        ("2024-10-30", "its support ends on 2024-11-30"),
        ("2024-11-30", "its support ends on 2024-11-30"),
        ("2024-12-01", ended),
        ("2025-02-01", "its version reached end of life on 2025-01-31"),
    ] {
        let found = expiry.notice(day.parse().unwrap()).unwrap_or_default();
        assert_eq!(found, notice, "{day}");
    }
}
