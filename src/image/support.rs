//! How long Harness supports a version of the delegate: for six months after its release, and its life ends after eight. Its
//! image was built on about the day of its release. Without that day, both count from the month in the tag, which may be months
//! earlier: a fix of an old version keeps its month. Notices show these dates. With `UPGRADE_NOW_IF_EXPIRED`, a delegate that
//! certainly is past its end of life waits for neither a window nor a wave.

use chrono::{DateTime, Months, NaiveDate, Utc};
use serde::Serialize;
use serde_json::Value;

use super::ImageReference;

/// In months after the release.
const SUPPORT: u32 = 6;
const LIFE: u32 = 8;
/// How long before the end of support the notices start.
const NOTICE: Months = Months::new(1);
/// Harness has released no version by year and month before this year.
const FIRST_YEAR: i32 = 2022;

/// The last days of support and life of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Expiry {
    /// The last day of support.
    pub support_ends: NaiveDate,
    /// The last day of its life.
    pub life_ends: NaiveDate,
    /// The beginning of the count.
    pub counted_from: CountedFrom,
}

/// The beginning of the count of an [`Expiry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedFrom {
    /// The day on which Harness built the image.
    Image,
    /// The end of the month in its tag: the days are about right.
    Tag,
}

/// Returns the day of an image's release from `created`, the time in its document. Some builders set no time, or the same one for
/// each image: such a day is not the month in the tag, or later.
pub fn release_day(image: &ImageReference, created: &Value, now: DateTime<Utc>) -> Option<NaiveDate> {
    let day = DateTime::parse_from_rfc3339(created.as_str()?).ok()?;
    let day = day.to_utc().date_naive();
    (earliest(image)?..=now.date_naive())
        .contains(&day)
        .then_some(day)
}

/// The first day on which an image may have been released: a version may be built in the last days of the month before.
pub(super) fn earliest(image: &ImageReference) -> Option<NaiveDate> {
    match month(image) {
        Some(month) => month.checked_sub_months(Months::new(1)),
        None => NaiveDate::from_ymd_opt(FIRST_YEAR, 1, 1),
    }
}

/// The first day of the month in a tag `yy.mm.verno`.
fn month(image: &ImageReference) -> Option<NaiveDate> {
    let mut parts = image.tag()?.splitn(3, '.');
    let (year, month, number) = (parts.next()?, parts.next()?, parts.next()?);
    let is_version = year.len() == 2 && month.len() == 2 && number.starts_with(|c: char| c.is_ascii_digit());
    NaiveDate::from_ymd_opt(2000 + year.parse::<i32>().ok()?, month.parse().ok()?, 1).filter(|_| is_version)
}

impl Expiry {
    /// Returns the last days of a version released on this day. Without one, the tag must be a version.
    pub fn of(image: &ImageReference, released: Option<NaiveDate>) -> Option<Self> {
        let ends = |months: u32| match released {
            Some(day) => day.checked_add_months(Months::new(months)),
            None => month(image)?
                .checked_add_months(Months::new(months + 1))?
                .pred_opt(),
        };
        Some(Self {
            support_ends: ends(SUPPORT)?,
            life_ends: ends(LIFE)?,
            counted_from: released.map_or(CountedFrom::Tag, |_| CountedFrom::Image),
        })
    }

    /// Returns the notice for this day. Notices start one month before the end of support.
    pub fn notice(&self, today: NaiveDate) -> Option<String> {
        let Self {
            support_ends,
            life_ends,
            ..
        } = self;
        let about = self.about();
        let on = if about.is_empty() { "on " } else { about };
        if today > *life_ends {
            return Some(format!("its version reached end of life {on}{life_ends}"));
        }
        if today > *support_ends {
            return Some(format!(
                "its support ended {on}{support_ends}, its end of life is {about}{life_ends}"
            ));
        }
        let from = support_ends.checked_sub_months(NOTICE)?;
        (today >= from).then(|| format!("its support ends {on}{support_ends}"))
    }

    /// The word before its days if they are not exact.
    pub fn about(&self) -> &'static str {
        match self.counted_from {
            CountedFrom::Image => "",
            CountedFrom::Tag => "about ",
        }
    }

    /// Whether its life has certainly ended by this day.
    pub fn is_over(&self, today: NaiveDate) -> bool {
        self.counted_from == CountedFrom::Image && today > self.life_ends
    }
}
