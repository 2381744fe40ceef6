//! Versions in tags: how they are read and compared, which bounds they meet, and how long they are supported.

use chrono::NaiveDate;
use delegate_upgrader::image::{Expiry, ImageName, ImageReference, Version, is_harness, release_day};
use serde_json::{Value, json};

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
        let pin = Version::pinned(pin).unwrap();
        assert_eq!(pin.includes(&tagged(tag)), permits, "{pin} {tag}");
    }
    for text in ["", "latest", "26", "v26.03", "26.03 or newer", "26.03@sha256:00"] {
        assert_eq!(Version::pinned(text), None, "{text}");
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
        let limit: Version = max.parse().unwrap();
        assert_eq!(limit.is_at_least(&tagged(tag)), expected, "{tag} by {max}");
    }
}

#[test]
fn counts_support_from_release_or_else_from_tag_and_warns_a_month_before_the_end() {
    let day = |text: &str| text.parse::<NaiveDate>().unwrap();
    let ends = |expiry: Expiry| format!("{} {}", expiry.support_ends, expiry.life_ends);
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
        let expiry = Expiry::of(&tagged(tag), None);
        assert_eq!(expiry.map(ends).as_deref(), expected, "{tag}");
        // Nothing is certain by a tag.
        assert!(
            !expiry.is_some_and(|expiry| expiry.is_over(day("2030-01-01"))),
            "{tag}"
        );
        let expiry = Expiry::of(&tagged(tag), Some(day("2025-08-31"))).unwrap();
        assert_eq!(ends(expiry), "2026-02-28 2026-04-30", "{tag}");
        let is_over = |text| expiry.is_over(day(text));
        assert!(!is_over("2026-04-30") && is_over("2026-05-01"), "{tag}");
    }
    for (released, last, ended, over) in [
        (
            None,
            "its support ends about 2024-11-30",
            "its support ended about 2024-11-30, its end of life is about 2025-01-31",
            "its version reached end of life about 2025-01-31",
        ),
        (
            Some(day("2024-05-30")),
            "its support ends on 2024-11-30",
            "its support ended on 2024-11-30, its end of life is 2025-01-30",
            "its version reached end of life on 2025-01-30",
        ),
    ] {
        let expiry = Expiry::of(&tagged(":24.05.84200"), released).unwrap();
        for (today, notice) in [
            ("2024-10-29", ""),
            ("2024-10-30", last),
            ("2024-11-30", last),
            ("2024-12-01", ended),
            ("2025-02-01", over),
        ] {
            assert_eq!(expiry.notice(day(today)).unwrap_or_default(), notice, "{today}");
        }
    }
}

#[test]
fn takes_release_day_only_from_credible_time_of_image() {
    let now = "2026-11-29T12:00:00Z".parse().unwrap();
    for (tag, created, expected) in [
        (
            ":24.08.83706",
            json!("2025-02-26T09:30:00.123456789Z"),
            Some("2025-02-26"),
        ),
        (
            ":24.08.83706",
            json!("2025-02-27T01:00:00+05:30"),
            Some("2025-02-26"),
        ),
        (":latest", json!("2026-11-29T11:59:59Z"), Some("2026-11-29")),
        (":26.03.88501", json!("2026-02-28T00:00:00Z"), Some("2026-02-28")),
        // No time, the epoch, one time for all builds, and a wrong clock.
        (":26.03.88501", json!("0001-01-01T00:00:00Z"), None),
        (":latest", json!("1970-01-01T00:00:00Z"), None),
        (":26.03.88501", json!("2025-01-01T00:00:00Z"), None),
        (":26.03.88501", json!("2026-11-30T00:00:00Z"), None),
        (":26.03.88501", json!("yesterday"), None),
        (":26.03.88501", Value::Null, None),
    ] {
        let day = release_day(&tagged(tag), &created, now).map(|day| day.to_string());
        assert_eq!(day.as_deref(), expected, "{tag} {created}");
    }
    for (image, expected) in [
        ("harness/delegate:26.03.1", true),
        (
            "us-docker.pkg.dev/gar-prod-setup/harness-public/harness/delegate:26.03.1",
            true,
        ),
        // It may be a build from Harness's image.
        ("registry.example/harness/delegate:26.03.1", false),
        ("acme/delegate:26.03.1", false),
    ] {
        assert_eq!(is_harness(&image.parse().unwrap()), expected, "{image}");
    }
}

/// Harness's page "Delegate image version support status", as of August 13, 2025: docs/platform/delegates/delegate-reference/
/// delegate-image-version-status.md in github.com/harness/developer-hub, commit 00909bcc. An image, its release date, and its
/// ends of support and life. Harness counts by hand: these days differ from whole months by at most three. Another revision, of
/// August 27, 2025, counts from the month in the tag to the last day of its sixth and its eighth month: earlier days throughout.
const PUBLISHED: &str = "\
25.07.86503 2025-08-13 2026-02-13 2026-04-13
25.07.86401 2025-07-31 2026-01-31 2026-03-31
25.06.86106 2025-07-15 2026-01-15 2026-03-15
25.06.86104 2025-07-01 2026-01-01 2026-03-01
25.05.85905 2025-06-03 2025-12-02 2026-02-01
25.05.85801 2025-05-08 2025-11-06 2026-01-06
25.04.85703 2025-05-02 2025-10-31 2025-12-31
25.02.85306 2025-04-10 2025-10-09 2025-12-09
25.02.85201 2025-04-01 2025-09-30 2025-11-30
25.03.85504 2025-03-27 2025-09-25 2025-11-25
24.08.83706 2025-02-26 2025-08-26 2025-10-27
24.10.84107 2025-01-31 2025-07-30 2025-09-30
24.12.84704 2025-01-06 2025-07-06 2025-09-06
24.11.84311 2024-12-19 2025-06-17 2025-08-19
24.07.83407 2024-12-04 2025-06-02 2025-08-03
24.09.83905 2024-09-30 2025-03-29 2025-05-30
24.08.83705 2024-08-31 2025-03-01 2025-05-02
24.07.83608 2024-08-14 2025-02-11 2025-04-14
24.06.83003 2024-06-03 2024-12-03 2025-02-02
24.02.82404 2024-02-29 2024-08-30 2024-10-30
23.12.81808 2023-12-26 2024-06-26 2024-08-26
";

#[test]
fn agrees_with_dates_that_harness_has_published() {
    for line in PUBLISHED.lines() {
        let (version, dates) = line.split_once(' ').unwrap();
        let dates: Vec<NaiveDate> = dates.split(' ').map(|date| date.parse().unwrap()).collect();
        let created = json!(format!("{}T10:00:00Z", dates[0]));
        let image = tagged(&format!(":{version}"));
        let released = release_day(&image, &created, "2026-11-29T12:00:00Z".parse().unwrap());
        let expiry = Expiry::of(&image, released).unwrap();
        for (ours, published) in [(expiry.support_ends, dates[1]), (expiry.life_ends, dates[2])] {
            assert!((ours - published).num_days().abs() <= 3, "{line}: {ours}");
        }
    }
}
