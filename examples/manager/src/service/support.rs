//! How long a delegate's version is supported, and whether it is upgraded by itself: pure.

use chrono::{DateTime, Months, NaiveDate, TimeDelta, Utc};
use delegate_upgrader::image::ImageReference;
use serde::Serialize;

const SUPPORTED_MONTHS: u32 = 6;
const ALIVE_MONTHS: u32 = 8;

/// An upgrader asks at least this often.
pub(crate) const SILENCE: TimeDelta = TimeDelta::minutes(90);

/// A tag's version: year and month of its release, and a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// `24.05.84200`, without variant.
    pub(crate) plain: String,
    released: NaiveDate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum Standing {
    Supported,
    EndOfSupport,
    EndOfLife,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum AutoUpgrade {
    On,
    Off,
    Detecting,
    Synchronizing,
}

impl Version {
    /// The version in an image's tag, `yy.mm.number` with or without a variant; `None` if it has none.
    pub(crate) fn of(image: &str) -> Option<Self> {
        let reference: ImageReference = image.parse().ok()?;
        let mut parts = reference.tag()?.splitn(3, '.');
        let (year, month, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let variant = &rest[number.len()..];
        let two_digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_version = two_digits(year)
            && two_digits(month)
            && !number.is_empty()
            && (variant.is_empty() || variant.starts_with(['.', '-']));
        if !is_version {
            return None;
        }
        Some(Self {
            released: NaiveDate::from_ymd_opt(2_000 + year.parse::<i32>().ok()?, month.parse().ok()?, 1)?,
            plain: format!("{year}.{month}.{number}"),
        })
    }

    /// The last month with support.
    pub(crate) fn end_of_support(&self) -> NaiveDate {
        self.released + Months::new(SUPPORTED_MONTHS)
    }

    /// The last month of its life.
    pub(crate) fn end_of_life(&self) -> NaiveDate {
        self.released + Months::new(ALIVE_MONTHS)
    }

    pub(crate) fn standing(&self, now: DateTime<Utc>) -> Standing {
        if now >= end_of(self.end_of_life()) {
            Standing::EndOfLife
        } else if now >= end_of(self.end_of_support()) {
            Standing::EndOfSupport
        } else {
            Standing::Supported
        }
    }

    /// The moment at which its support ends.
    pub(crate) fn expires_at(&self) -> DateTime<Utc> {
        end_of(self.end_of_support())
    }
}

fn end_of(month: NaiveDate) -> DateTime<Utc> {
    (month + Months::new(1))
        .and_time(chrono::NaiveTime::MIN)
        .and_utc()
}

/// Whether an upgrader looks after a delegate: from the time of its last question, whether it has ended a run since its first
/// one, and the time from which the delegate has been known.
pub(crate) fn auto_upgrade(
    asked: Option<DateTime<Utc>>,
    synchronized: bool,
    created: DateTime<Utc>,
    now: DateTime<Utc>,
) -> AutoUpgrade {
    if asked.is_some_and(|asked| now - asked <= SILENCE) {
        if synchronized {
            AutoUpgrade::On
        } else {
            AutoUpgrade::Synchronizing
        }
    } else if now - created <= SILENCE {
        AutoUpgrade::Detecting
    } else {
        AutoUpgrade::Off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn support_ends_six_months_after_the_month_of_the_release_and_life_eight() {
        let version = Version::of("harness/delegate:24.05.84200").unwrap();
        assert_eq!(version.end_of_support().to_string(), "2024-11-01");
        assert_eq!(version.end_of_life().to_string(), "2025-01-01");
        for (now, standing) in [
            ("2024-05-01T00:00:00Z", Standing::Supported),
            ("2024-11-30T23:59:59Z", Standing::Supported),
            ("2024-12-01T00:00:00Z", Standing::EndOfSupport),
            ("2025-01-31T23:59:59Z", Standing::EndOfSupport),
            ("2025-02-01T00:00:00Z", Standing::EndOfLife),
        ] {
            assert_eq!(version.standing(at(now)), standing, "{now}");
        }
    }

    #[test]
    fn a_version_is_read_from_the_tag_whatever_the_variant() {
        for (image, plain) in [
            ("harness/delegate:26.02.88404", Some("26.02.88404")),
            ("harness/delegate:26.02.88404.minimal", Some("26.02.88404")),
            ("r.example:5000/harness/delegate:26.12.1-fips", Some("26.12.1")),
            ("harness/delegate:26.02.88404.minimal-fips", Some("26.02.88404")),
            ("harness/delegate", None),
            ("harness/delegate:latest", None),
            ("harness/delegate:26.13.1", None),
            ("harness/delegate:26.2.1", None),
            ("harness/delegate:26.02", None),
            ("harness/delegate:26.02.x", None),
            ("harness/delegate:26.02.1x", None),
            ("no reference", None),
        ] {
            let version = Version::of(image);
            assert_eq!(version.map(|version| version.plain).as_deref(), plain, "{image}");
        }
    }

    #[test]
    fn auto_upgrade_is_on_for_ninety_minutes_after_a_question_and_found_out_for_ninety_after_the_creation() {
        let now = at("2026-11-21T12:00:00Z");
        let ago = |seconds| now - TimeDelta::seconds(seconds);
        for (asked, synchronized, created, expected) in [
            (Some(0), true, 0, AutoUpgrade::On),
            (Some(0), false, 0, AutoUpgrade::Synchronizing),
            (Some(5_400), true, 1_000_000, AutoUpgrade::On),
            (Some(5_401), true, 1_000_000, AutoUpgrade::Off),
            (Some(5_401), true, 5_400, AutoUpgrade::Detecting),
            (None, false, 0, AutoUpgrade::Detecting),
            (None, false, 5_400, AutoUpgrade::Detecting),
            (None, false, 5_401, AutoUpgrade::Off),
        ] {
            let found = auto_upgrade(asked.map(ago), synchronized, ago(created), now);
            assert_eq!(found, expected, "asked {asked:?}, created {created}");
        }
    }
}
