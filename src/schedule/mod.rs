//! Cron text → validated schedule, next runs, warnings: pure.
//!
//! croner parses the text, searches and describes. Daylight saving is decided here: croner searches local
//! clock time, so in the hour that happens twice it would skip the second half hour of `*/30`, and for a
//! start in that second hour it can answer with a moment that is already over.

pub mod trigger;

use chrono::{DateTime, NaiveDateTime, Offset, SubsecRound, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

use crate::text::duration;

/// What [`Schedule::parse`] accepts, in words for people.
pub const ACCEPTED: &str = "five cron fields (minute hour day month weekday), six with seconds first, \
     @hourly, @daily, @weekly, @monthly, @yearly, or an interval such as @every 15m";

/// When to look after the delegates: a cron pattern in a time zone, or a fixed interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    text: String,
    zone: Tz,
    runs: Runs,
    quoted: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Runs {
    /// The hour field is `*` or `*/n`: elapsed time matters. Both of two equal hours count, a skipped one
    /// does not.
    Elapsed(Box<Cron>),
    /// The hour field names hours: clock time matters. Each runs once a day, a skipped one at the moment the
    /// clock was moved to.
    Clock(Box<Cron>),
    Every(TimeDelta),
}

/// Why a text is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScheduleError(String);

impl Schedule {
    /// Reads five or six cron fields, an `@` nickname or `@every <duration>`; quotes around it are dropped.
    pub fn parse(text: &str, zone: Tz) -> Result<Self, ScheduleError> {
        let trimmed = text.trim();
        let unquoted = unquoted(trimmed);
        let quoted = unquoted.len() != trimmed.len();
        let text = unquoted.split_whitespace().collect::<Vec<_>>().join(" ");
        let runs = Runs::parse(&text)?;
        let schedule = Self {
            text,
            zone,
            runs,
            quoted,
        };
        // Any date will do: a pattern that never matches, such as 30 February, does not match from there.
        if schedule.next(DateTime::UNIX_EPOCH).is_none() {
            return Err(ScheduleError("there is no such date".to_owned()));
        }
        Ok(schedule)
    }

    /// The schedule's text, quotes and superfluous blanks gone.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The time zone in which the pattern is read.
    pub fn zone(&self) -> Tz {
        self.zone
    }

    /// The first run after that moment. An interval counts from the moment itself.
    pub fn next(&self, after: DateTime<Utc>) -> Option<DateTime<Tz>> {
        // croner would carry a fraction of a second over into its answer.
        let after = after.trunc_subsecs(0);
        let next = match &self.runs {
            Runs::Elapsed(cron) => next_elapsed(cron, self.zone, after),
            Runs::Clock(cron) => next_clock(cron, self.zone, after),
            Runs::Every(interval) => after.checked_add_signed(*interval),
        };
        next.map(|next| next.with_timezone(&self.zone))
    }

    /// The next `count` runs after that moment, in order.
    pub fn next_runs(&self, after: DateTime<Utc>, count: usize) -> Vec<DateTime<Tz>> {
        let first = self.next(after);
        std::iter::successors(first, |run| self.next(run.to_utc()))
            .take(count)
            .collect()
    }

    /// What is allowed but likely not meant, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.quoted {
            warnings.push(format!(
                "the quotes around it were dropped (an env file keeps them): {}",
                self.text
            ));
        }
        warnings.extend(self.step_warning());
        warnings
    }

    /// The schedule in words, its time zone with it.
    pub fn describe(&self) -> String {
        match &self.runs {
            Runs::Elapsed(cron) | Runs::Clock(cron) => {
                format!("{} ({})", cron.describe().trim_end_matches('.'), self.zone)
            }
            Runs::Every(interval) => {
                format!("Every {}", duration::text(interval.to_std().unwrap_or_default()))
            }
        }
    }

    /// `0 */15 * * *` is the classic slip: meant is every 15 minutes, said is every 15th hour of a day. And a step
    /// that does not divide its range starts over at the end of it.
    fn step_warning(&self) -> Option<String> {
        let fields: Vec<&str> = self.text.split(' ').collect();
        let [.., minute, hour, day, month, weekday] = fields.as_slice() else {
            return None;
        };
        let uneven = |field: &str, range: usize| {
            let step: usize = field.strip_prefix("*/")?.parse().ok()?;
            (step > 0 && !range.is_multiple_of(step)).then_some(step)
        };
        let (step, reads) = if let Some(step) = uneven(minute, 60) {
            let minutes: Vec<String> = (0..60)
                .step_by(step)
                .map(|minute| format!("{minute:02}"))
                .collect();
            (step, format!("minute {} of an hour", listed(&minutes)))
        } else {
            let step = uneven(hour, 24)?;
            let minute: u32 = minute.parse().ok()?;
            let hours: Vec<String> = (0..24)
                .step_by(step)
                .map(|hour| format!("{hour:02}:{minute:02}"))
                .collect();
            (step, format!("{} of each day", listed(&hours)))
        };
        let meant = if 60 % step == 0 {
            let seconds = if fields.len() == 6 { "0 " } else { "" };
            format!("{seconds}*/{step} * {day} {month} {weekday}")
        } else {
            format!("@every {step}m")
        };
        Some(format!(
            "{:?} reads as {reads}; every {step} minutes is {meant:?}",
            self.text
        ))
    }
}

/// `a, b and c`.
fn listed(words: &[String]) -> String {
    match words {
        [init @ .., last] if !init.is_empty() => format!("{} and {last}", init.join(", ")),
        words => words.concat(),
    }
}

impl Runs {
    fn parse(text: &str) -> Result<Self, ScheduleError> {
        let wrong = |why: String| Err(ScheduleError(why));
        if let Some(nickname) = text.strip_prefix('@') {
            let pattern = match nickname.to_ascii_lowercase().as_str() {
                "yearly" | "annually" => "0 0 1 1 *",
                "monthly" => "0 0 1 * *",
                "weekly" => "0 0 * * 0",
                "daily" | "midnight" => "0 0 * * *",
                "hourly" => "0 * * * *",
                other => {
                    let Some(interval) = other.strip_prefix("every ") else {
                        return wrong("no such nickname".to_owned());
                    };
                    return match duration::parse(interval).and_then(|every| TimeDelta::from_std(every).ok()) {
                        Some(every) if every > TimeDelta::days(366) => {
                            wrong("an interval is a year at most".to_owned())
                        }
                        Some(every) if every >= TimeDelta::seconds(1) => Ok(Self::Every(every)),
                        Some(_) => wrong("an interval is one second at least".to_owned()),
                        None => wrong(format!("{interval:?} is no duration such as 15m or 1h30m")),
                    };
                }
            };
            return Self::parse(pattern);
        }
        let fields: Vec<&str> = text.split(' ').filter(|field| !field.is_empty()).collect();
        let [.., hour, _day, _month, _weekday] = fields.as_slice() else {
            return wrong(format!("{} instead of five or six fields", fields.len()));
        };
        if !(5..=6).contains(&fields.len()) {
            return wrong(format!("{} instead of five or six fields", fields.len()));
        }
        match parser().parse(text) {
            Ok(cron) if hour.starts_with('*') => Ok(Self::Elapsed(Box::new(cron))),
            Ok(cron) => Ok(Self::Clock(Box::new(cron))),
            Err(error) => wrong(wrong_field(&fields).unwrap_or_else(|| error.to_string())),
        }
    }
}

fn parser() -> CronParser {
    CronParser::builder()
        .seconds(Seconds::Optional)
        .year(Year::Disallowed)
        .build()
}

/// croner says what is wrong, not where: each field is tried alone.
fn wrong_field(fields: &[&str]) -> Option<String> {
    const NAMES: [(&str, &str); 6] = [
        ("second", "0-59"),
        ("minute", "0-59"),
        ("hour", "0-23"),
        ("day of the month", "1-31, L"),
        ("month", "1-12, JAN-DEC"),
        ("weekday", "0-7, SUN-SAT"),
    ];
    let names = NAMES.get(6_usize.checked_sub(fields.len())?..)?;
    fields
        .iter()
        .zip(names)
        .enumerate()
        .find_map(|(place, (field, (name, range)))| {
            let mut alone = vec!["*"; fields.len()];
            *alone.get_mut(place)? = field;
            let error = parser().parse(&alone.join(" ")).err()?;
            let why = error.to_string();
            let why = why
                .rsplit(": ")
                .next()
                .unwrap_or(&why)
                .trim_end_matches('.')
                .to_lowercase();
            Some(format!("the {name} {field:?}, of {range}: {why}"))
        })
}

fn unquoted(text: &str) -> &str {
    ['"', '\'']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
        .map_or(text, str::trim)
}

/// Clock time: search the calendar as if it had no zone, then ask the zone when that is.
fn next_clock(cron: &Cron, zone: Tz, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let mut local = after.with_timezone(&zone).naive_local().and_utc();
    loop {
        local = cron.find_next_occurrence(&local, false).ok()?;
        let instant = instant_of(local.naive_utc(), zone)?;
        // In the second of two equal hours the first one's runs are over.
        if instant > after {
            return Some(instant);
        }
    }
}

/// The first moment with that local time; where the clock skips it, the moment the clock was moved to.
fn instant_of(local: NaiveDateTime, zone: Tz) -> Option<DateTime<Utc>> {
    // A day is the longest jump there was: Samoa, 30 December 2011.
    let minute = local.and_utc().timestamp().div_euclid(60) * 60;
    zone.from_local_datetime(&local)
        .earliest()
        .or_else(|| {
            (1..=25 * 60).find_map(|minutes| {
                let later = DateTime::from_timestamp(minute + minutes * 60, 0)?;
                zone.from_local_datetime(&later.naive_utc()).earliest()
            })
        })
        .map(|instant| instant.to_utc())
}

/// Elapsed time: search at a fixed offset as far as that offset holds, then go on at the next one.
fn next_elapsed(cron: &Cron, zone: Tz, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let (mut from, mut inclusive) = (after, false);
    loop {
        let offset = zone.offset_from_utc_datetime(&from.naive_utc()).fix();
        let found = cron
            .find_next_occurrence(&from.with_timezone(&offset), inclusive)
            .ok()?
            .to_utc();
        match offset_change(zone, from, found) {
            None => return Some(found),
            Some(change) => (from, inclusive) = (change, true),
        }
    }
}

/// The first second of `(from, to]` with another offset than `from` has.
fn offset_change(zone: Tz, from: DateTime<Utc>, to: DateTime<Utc>) -> Option<DateTime<Utc>> {
    // No zone ever changed its mind within hours.
    const STEP: TimeDelta = TimeDelta::hours(6);
    let offset = |at: DateTime<Utc>| zone.offset_from_utc_datetime(&at.naive_utc()).fix();
    let before = offset(from);
    let (mut low, mut high) = (from, from);
    while offset(high) == before {
        if high >= to {
            return None;
        }
        low = high;
        high = (high + STEP).min(to);
    }
    while high - low > TimeDelta::seconds(1) {
        let middle = low + TimeDelta::seconds((high - low).num_seconds() / 2);
        if offset(middle) == before {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(high)
}
