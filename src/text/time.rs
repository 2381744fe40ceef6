//! Points in time as every log line, error, page and JSON document shows them: RFC 3339 in whole seconds.

use std::fmt::Display;

use chrono::{DateTime, SecondsFormat, TimeZone, Utc};
use serde::Serializer;
use serde_json::Value;

/// Writes a time: `2026-11-22T11:05:00Z`. Only a scheduled run carries another zone: `2026-11-22T12:05:00+01:00`.
pub fn text<Z: TimeZone<Offset: Display + Copy>>(time: DateTime<Z>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Reads a time in RFC 3339, of whichever zone. It is in the years 0 to 9999, so that no sum with a duration overflows.
pub fn parse(text: &str) -> Option<DateTime<Utc>> {
    Some(DateTime::parse_from_rfc3339(text).ok()?.to_utc())
}

/// Reads a time in a document.
pub fn of(value: &Value) -> Option<DateTime<Utc>> {
    parse(value.as_str()?)
}

/// For `#[serde(serialize_with)]`: a time as [`text`] writes it.
pub fn serialize<S: Serializer>(time: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*time))
}

/// For `#[serde(serialize_with)]`: a time as [`text`] writes it, or null.
pub fn optional<S: Serializer>(time: &Option<DateTime<Utc>>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serialize(time, serializer),
        None => serializer.serialize_none(),
    }
}
