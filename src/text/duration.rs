//! Durations as people write them (`3600`, `45m`, `1h30m`) and as every log line, error and page shows them (`1h30m`).

use std::str::FromStr;
use std::time::Duration;

use chrono::TimeDelta;

/// The longest duration that a setting, a label or a container may have. A longer one is a mistake in a unit or a
/// digit. Below this limit, `chrono` can add such durations to any time that an engine or a server reports.
pub const LONGEST: Duration = Duration::from_secs(30 * 86_400);

const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Reads a duration: a bare number means seconds; otherwise numbers with the units `d`, `h`, `m`, `s`, the largest first.
///
/// `None` for anything else, and for more seconds than a `u64` can hold.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Some(seconds) = digits(text) {
        return Some(Duration::from_secs(seconds));
    }
    let mut rest = text;
    let mut total = 0_u64;
    for (unit, seconds) in UNITS {
        let Some((number, after)) = rest.split_once([unit, unit.to_ascii_uppercase()]) else {
            continue;
        };
        total = total.checked_add(digits::<u64>(number)?.checked_mul(seconds)?)?;
        rest = after;
    }
    (rest.is_empty() && !text.is_empty()).then_some(Duration::from_secs(total))
}

/// A duration that someone else set, for example the owner on a label: more than zero, and at most [`LONGEST`].
pub fn foreign(text: &str) -> Option<Duration> {
    let given = parse(text).filter(|given| !given.is_zero())?;
    Some(given.min(LONGEST))
}

/// Converts a duration to the difference of two times. It is at most a century, so that no sum overflows.
pub fn span(duration: Duration) -> TimeDelta {
    const CENTURY: TimeDelta = TimeDelta::days(36_525);
    TimeDelta::from_std(duration).map_or(CENTURY, |span| span.min(CENTURY))
}

/// The form that [`parse`] accepts of a duration such as `1 h`, `1.5h` or `3 days`.
pub fn meant(given: &str) -> Option<String> {
    let given = given.to_ascii_lowercase().replace(' ', "");
    if parse(&given).is_some() {
        return Some(given);
    }
    let (number, unit) = given.split_at(given.find(|letter: char| letter.is_ascii_alphabetic())?);
    let seconds = match unit {
        "w" | "week" | "weeks" => 604_800.0,
        "d" | "day" | "days" => 86_400.0,
        "h" | "hour" | "hours" => 3_600.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "s" | "sec" | "second" | "seconds" => 1.0,
        _ => return None,
    };
    let duration = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
    Some(text(duration)).filter(|text| parse(text).is_some())
}

/// Writes a duration for people: `1h30m`, `45s`, `0s`.
///
/// It rounds to the nearest second, since the rest of a time-out is a little less than the time that was set. Only a
/// duration below one second is shown in milliseconds (`250ms`). [`parse`] accepts whole seconds in this form.
pub fn text(duration: Duration) -> String {
    if duration.as_secs() == 0 && !duration.is_zero() {
        return format!("{}ms", duration.as_millis());
    }
    let mut rest = duration.saturating_add(Duration::from_millis(500)).as_secs();
    let mut text = String::new();
    for (unit, seconds) in UNITS {
        let count = rest / seconds;
        rest %= seconds;
        if count > 0 {
            text.push_str(&count.to_string());
            text.push(unit);
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Reads a number that consists of digits only: `from_str` alone would accept a leading `+`.
pub(crate) fn digits<T: FromStr>(text: &str) -> Option<T> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}
