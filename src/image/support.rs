//! How long Harness supports a version of the delegate. A version with the tag `yy.mm.verno` is supported until six months
//! after that month, and its life ends eight months after it. Notices show these dates. With `UPGRADE_NOW_IF_EXPIRED`, a
//! delegate whose version has reached its end of life waits for neither a window nor a wave.

use chrono::{Datelike, Months, NaiveDate};
use serde::{Deserialize, Serialize};

use super::ImageReference;

const SUPPORT: Months = Months::new(6);
const LIFE: Months = Months::new(8);
/// How long before the end of support the notices start.
const NOTICE: Months = Months::new(1);

/// The last days of support and life of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expiry {
    /// The last day of support.
    pub support_ends: NaiveDate,
    /// The last day of its life.
    pub life_ends: NaiveDate,
}

impl Expiry {
    /// Returns the last days of an image whose tag is a version, or `None` for `latest` and custom tags.
    pub fn of(image: &ImageReference) -> Option<Self> {
        let mut parts = image.tag()?.splitn(3, '.');
        let (year, month, number) = (parts.next()?, parts.next()?, parts.next()?);
        let is_version =
            year.len() == 2 && month.len() == 2 && number.starts_with(|c: char| c.is_ascii_digit());
        let released = NaiveDate::from_ymd_opt(2000 + year.parse::<i32>().ok()?, month.parse().ok()?, 1)?;
        let last_day = |months: Months| last_day_of(released.checked_add_months(months)?);
        is_version.then_some(())?;
        Some(Self {
            support_ends: last_day(SUPPORT)?,
            life_ends: last_day(LIFE)?,
        })
    }

    /// Returns the notice for this day. Notices start one month before the end of support.
    pub fn notice(&self, today: NaiveDate) -> Option<String> {
        let Self {
            support_ends,
            life_ends,
        } = self;
        if today > *life_ends {
            return Some(format!("its version reached end of life on {life_ends}"));
        }
        if today > *support_ends {
            return Some(format!(
                "its support ended on {support_ends}, its end of life is {life_ends}"
            ));
        }
        let from = support_ends.checked_sub_months(NOTICE)?;
        (today >= from).then(|| format!("its support ends on {support_ends}"))
    }
}

fn last_day_of(day: NaiveDate) -> Option<NaiveDate> {
    day.with_day(1)?.checked_add_months(Months::new(1))?.pred_opt()
}
