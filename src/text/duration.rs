//! Durations as people write them (`3600`, `45m`, `1h30m`), and as every log line, error and page shows them (`1h30m`).

use std::str::FromStr;
use std::time::Duration;

use chrono::TimeDelta;

/// The longest time that a setting, a label or a container asks for. What is longer is a slip of a unit or a digit, and a sum
/// of such times with a time that an engine or a server wrote stays within what `chrono` can hold.
pub const LONGEST: Duration = Duration::from_secs(30 * 86_400);

const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Reads a duration: a bare number is seconds; else numbers with the units `d`, `h`, `m`, `s`, largest first.
///
/// `None` for anything else, and for more seconds than `u64` holds.
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

/// A duration that another wrote, such as an owner on a label: more than nothing, and [`LONGEST`] at most.
pub fn foreign(text: &str) -> Option<Duration> {
    let given = parse(text).filter(|given| !given.is_zero())?;
    Some(given.min(LONGEST))
}

/// A duration as a distance between two times. It ends after a century, so that no sum overflows.
pub fn span(duration: Duration) -> TimeDelta {
    const CENTURY: TimeDelta = TimeDelta::days(36_525);
    TimeDelta::from_std(duration).map_or(CENTURY, |span| span.min(CENTURY))
}

/// How to write a duration such as `1 h`, `1.5h` or `3 days` for [`parse`].
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
/// It rounds to the nearest second, since what is left of a time-out is a little less than what was set. Only a
/// duration below one second is in milliseconds (`250ms`). [`parse`] reads whole seconds back.
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

/// A number of digits only: `from_str` alone would take a leading `+`.
pub(crate) fn digits<T: FromStr>(text: &str) -> Option<T> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}
