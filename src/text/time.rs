//! Points in time as every log line, error, page and JSON document shows them: RFC 3339 in whole seconds.

use std::fmt::Display;

use chrono::{DateTime, SecondsFormat, TimeZone, Utc};
use serde::Serializer;
use serde_json::Value;

/// Shows a time: `2026-11-22T11:05:00Z`. Only the times of scheduled runs have another zone: `2026-11-22T12:05:00+01:00`.
pub fn text<Z: TimeZone<Offset: Display + Copy>>(time: DateTime<Z>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Reads a time in RFC 3339, in any zone. Its year is from 0 to 9999, so that adding a duration cannot overflow.
pub fn parse(text: &str) -> Option<DateTime<Utc>> {
    Some(DateTime::parse_from_rfc3339(text).ok()?.to_utc())
}

/// Reads a time in a JSON document.
pub fn of(value: &Value) -> Option<DateTime<Utc>> {
    parse(value.as_str()?)
}

/// For `#[serde(serialize_with)]`: writes a time like [`text`].
pub fn serialize<S: Serializer>(time: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*time))
}

/// For `#[serde(serialize_with)]`: writes a time like [`text`], or null.
pub fn optional<S: Serializer>(time: &Option<DateTime<Utc>>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serialize(time, serializer),
        None => serializer.serialize_none(),
    }
}
