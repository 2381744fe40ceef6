//! Points in time in the forms in which people write them.

use chrono::{DateTime, Datelike as _, NaiveDate, NaiveDateTime, NaiveTime, Utc};

use super::dst;
use super::zone::Zone;

/// The accepted forms, as the errors and the page describe them.
pub const ACCEPTED: &str =
    "a date such as 2026-12-01, or a time such as 2026-12-01T08:00 or 2026-12-01T08:00:00Z";

/// Reads a date, which means its first moment, or a time. Without an offset from UTC, it is local time in that zone.
/// `None` if it is neither.
pub fn parse(text: &str, zone: &Zone) -> Option<DateTime<Utc>> {
    let text = text.trim();
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.to_utc());
    }
    let date = || Some(text.parse::<NaiveDate>().ok()?.and_time(NaiveTime::MIN));
    let formats = [
        "%Y-%m-%dT%H:%M",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M:%S",
        "%Y-%m-%d %H:%M:%S",
    ];
    let mut times = formats
        .iter()
        .filter_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
    let local = date().or_else(|| times.next())?;
    // The search for a change of the clocks starts at this time and needs room after it, so refuse later years.
    let has_room = (0..=9999).contains(&local.date().year());
    if has_room {
        dst::instant_of(local, zone)
    } else {
        None
    }
}
