//! When changes may start: windows in the week, by the wall clock. Pure.

use std::fmt;

use chrono::{DateTime, Datelike, Days, NaiveDate, NaiveTime, TimeDelta, Timelike, Utc, Weekday, WeekdaySet};

use super::dst;
use super::zone::Zone;

/// The accepted forms of a window, for error messages and the documentation.
pub const ACCEPTED: &str = "a window such as Mon-Fri 02:00-05:00, or several separated by commas";

const DAY: u32 = 24 * 60;

/// `UPGRADE_WINDOW`: one or more windows in the week, in a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpgradeWindow {
    text: String,
    ranges: Vec<Range>,
    zone: Zone,
}

/// A range of time on certain weekdays.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    /// The days on which it starts.
    days: WeekdaySet,
    /// The minute of the day at which it starts.
    from: u32,
    /// The minute of the day at which it ends, exclusive. If it is not later than `from`, the window ends on the next day.
    to: u32,
}

impl UpgradeWindow {
    /// Reads windows such as `Mon-Fri 02:00-05:00, Sun 22:00-06:00`. A window without days applies to every day, and
    /// one that ends before it starts ends on the next day.
    ///
    /// # Errors
    /// The first part that is not a window, and why.
    pub fn parse(text: &str, zone: Zone) -> Result<Self, String> {
        let ranges = text.split(',').map(|part| Range::parse(part.trim()));
        Ok(Self {
            text: text.trim().to_owned(),
            ranges: ranges.collect::<Result<_, _>>()?,
            zone,
        })
    }

    /// Whether changes may start at that moment.
    pub fn is_open(&self, at: DateTime<Utc>) -> bool {
        let local = self.zone.local(at);
        let minute = local.hour() * 60 + local.minute();
        let today = local.weekday();
        self.ranges.iter().any(|range| range.contains(today, minute))
    }

    /// The first moment, from `at` on, at which it is open. If daylight saving time skips the start of a window, the
    /// window opens right after the change; in an hour that the clock repeats, it opens twice.
    pub fn next_opening(&self, at: DateTime<Utc>) -> DateTime<Utc> {
        if self.is_open(at) {
            return at;
        }
        let today = self.zone.local(at).date_naive();
        // A weekly window may have just started, and the clock may skip the next one, so look two weeks ahead.
        let days = (0..=14).filter_map(|days| today.checked_add_days(Days::new(days)));
        let begins = days.flat_map(|day| self.beginnings(day));
        let changed = dst::offset_change(&self.zone, at, at + TimeDelta::days(8));
        begins
            .chain(changed)
            .filter(|begins| *begins > at && self.is_open(*begins))
            .min()
            .unwrap_or(at)
    }

    fn beginnings(&self, day: NaiveDate) -> impl Iterator<Item = DateTime<Utc>> {
        let of_day = self
            .ranges
            .iter()
            .filter(move |range| range.days.contains(day.weekday()));
        of_day.flat_map(move |range| {
            let time = NaiveTime::from_num_seconds_from_midnight_opt(range.from * 60, 0);
            self.zone.instants(day.and_time(time.unwrap_or_default()))
        })
    }
}

/// Shows the text as it was given.
impl fmt::Display for UpgradeWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Range {
    fn parse(text: &str) -> Result<Self, String> {
        let (days, hours) = match text.rsplit_once(char::is_whitespace) {
            Some((days, hours)) => (parse_days(days.trim())?, hours),
            None => (WeekdaySet::ALL, text),
        };
        let no_hours = || format!("{text:?} has no hours such as 02:00-05:00");
        let (from, to) = hours.split_once('-').ok_or_else(no_hours)?;
        if !from.contains(':') && !to.contains(':') {
            return Err(no_hours());
        }
        let (begin, end) = (minute_of_day(from)?, minute_of_day(to)?);
        if begin == DAY {
            return Err(no_time(from));
        }
        if begin == end {
            return Err(format!(
                "{hours:?} ends when it starts; the whole day is 00:00-24:00"
            ));
        }
        Ok(Self {
            days,
            from: begin,
            to: end,
        })
    }

    fn contains(&self, today: Weekday, minute: u32) -> bool {
        if self.from < self.to {
            self.days.contains(today) && (self.from..self.to).contains(&minute)
        } else {
            let since_today = self.days.contains(today) && minute >= self.from;
            since_today || self.days.contains(today.pred()) && minute < self.to
        }
    }
}

fn parse_days(text: &str) -> Result<WeekdaySet, String> {
    let day = |name: &str| {
        let day: Result<Weekday, _> = name.trim().parse();
        day.map_err(|_| format!("{text:?} is not a weekday such as Mon or a range such as Mon-Fri"))
    };
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (day(first)?, day(last)?),
        None => (day(text)?, day(text)?),
    };
    let mut days = WeekdaySet::EMPTY;
    let mut next = first;
    loop {
        days.insert(next);
        if next == last {
            return Ok(days);
        }
        next = next.succ();
    }
}

/// Reads a time of day such as `02:00`, or `24:00` for the end of the day.
fn minute_of_day(text: &str) -> Result<u32, String> {
    // chrono would also take signs, blanks, and minutes of one digit.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
        && text.rsplit_once(':').is_some_and(|(_, minute)| minute.len() == 2);
    let time = NaiveTime::parse_from_str(text, "%H:%M").ok().filter(|_| is_plain);
    let minute = time.map(|time| time.hour() * 60 + time.minute());
    let minute = if text == "24:00" { Some(DAY) } else { minute };
    minute.ok_or_else(|| no_time(text))
}

fn no_time(text: &str) -> String {
    format!("{text:?} is not a time of day such as 02:00")
}
