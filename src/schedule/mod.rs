//! Turns cron text into a validated schedule, its next runs and its warnings. Pure, except for the [`trigger`].
//!
//! croner parses the text, finds the runs and describes them; `dst.rs` handles the changes of daylight saving time.

mod advice;
mod dst;
pub mod trigger;
pub mod until;
pub mod wave;
pub mod window;
pub mod zone;

use std::time::Duration;

use chrono::{DateTime, FixedOffset, SubsecRound, TimeDelta, Utc};
use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};

use self::zone::Zone;
use crate::text::duration;

/// The forms that [`Schedule::parse`] accepts, in words for people.
pub const ACCEPTED: &str =
    "five cron fields such as 0 3 * * *, six with seconds first, a nickname such as @daily, or @every 15m";

/// The times of the scheduled runs: a cron pattern in a time zone, or a fixed interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    text: String,
    zone: Zone,
    runs: Runs,
    quoted: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Runs {
    /// The hour field is `*` or `*/n`, so elapsed time matters: an hour that the clock repeats counts twice, and an
    /// hour that it skips does not count.
    Elapsed(Box<Cron>),
    /// The hour field names hours, so clock time matters: each runs once a day, and an hour that the clock skips runs
    /// as soon as the skip is over.
    Clock(Box<Cron>),
    Every(TimeDelta),
}

impl Schedule {
    /// Reads five or six cron fields, an `@` nickname or `@every <duration>`. Quotes around the text are ignored.
    ///
    /// # Errors
    /// Why it is not a schedule, in a few words. A pattern that matches no date, such as 30 February, is an error.
    pub fn parse(text: &str, zone: Zone) -> Result<Self, String> {
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
        if schedule.next(DateTime::UNIX_EPOCH).is_none() {
            return Err("no date matches it".to_owned());
        }
        Ok(schedule)
    }

    /// The schedule's text, without quotes and superfluous blanks.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The time zone of the pattern.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// The first run after that moment, in whole seconds; `None` if there is none. An interval starts at that moment.
    pub fn next(&self, after: DateTime<Utc>) -> Option<DateTime<FixedOffset>> {
        // croner would carry a fraction of a second over to its result.
        let after = after.trunc_subsecs(0);
        let next = match &self.runs {
            Runs::Elapsed(cron) => dst::next_elapsed(cron, &self.zone, after),
            Runs::Clock(cron) => dst::next_clock(cron, &self.zone, after),
            Runs::Every(interval) => after.checked_add_signed(*interval),
        };
        next.map(|next| self.zone.local(next))
    }

    /// The run after `last`, which is the last run that was due, so that delays do not add up. Runs that were missed
    /// before `now` are skipped.
    pub fn following(
        &self,
        last: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) -> Option<DateTime<FixedOffset>> {
        last.and_then(|last| self.next(last))
            .filter(|next| *next > now)
            .or_else(|| self.next(now))
    }

    /// The next `count` runs after that moment, in order; fewer if the schedule ends.
    pub fn next_runs(&self, after: DateTime<Utc>, count: usize) -> Vec<DateTime<FixedOffset>> {
        let first = self.next(after);
        std::iter::successors(first, |run| self.next(run.to_utc()))
            .take(count)
            .collect()
    }

    /// The shortest time between two runs, of the first hundred.
    pub fn shortest_gap(&self) -> Duration {
        let runs = self.next_runs(DateTime::UNIX_EPOCH, 100);
        let gaps = runs
            .windows(2)
            .filter_map(|pair| (*pair.last()? - pair.first()?).to_std().ok());
        gaps.min().unwrap_or_default()
    }

    /// Warnings about settings that are allowed but probably not intended, one sentence each, for the log.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.quoted {
            warnings.push(format!(
                "ignoring the quotes around it (an env file keeps them): {}",
                self.text
            ));
        }
        warnings.extend(advice::uneven_step(&self.text));
        warnings
    }

    /// The schedule in words, with its time zone.
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
}

impl Runs {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(nickname) = text.strip_prefix('@') {
            let pattern = match nickname.to_ascii_lowercase().as_str() {
                "yearly" | "annually" => "0 0 1 1 *",
                "monthly" => "0 0 1 * *",
                "weekly" => "0 0 * * 0",
                "daily" | "midnight" => "0 0 * * *",
                "hourly" => "0 * * * *",
                other => {
                    let Some(interval) = other.strip_prefix("every ") else {
                        return Err(match other {
                            "reboot" => "RUN_ON_START=true runs at each start".to_owned(),
                            _ => "unknown nickname".to_owned(),
                        });
                    };
                    return match duration::parse(interval).and_then(|every| TimeDelta::from_std(every).ok()) {
                        Some(every) if every > TimeDelta::days(366) => {
                            Err("an interval of more than a year".to_owned())
                        }
                        Some(every) if every >= TimeDelta::seconds(1) => Ok(Self::Every(every)),
                        Some(_) => Err("an interval of less than one second".to_owned()),
                        None => Err(format!("{interval:?} is not an interval such as 15m or 1h30m")),
                    };
                }
            };
            return Self::parse(pattern);
        }
        let fields: Vec<&str> = text.split(' ').filter(|field| !field.is_empty()).collect();
        let ([_, hour, _, _, _] | [_, _, hour, _, _, _]) = fields.as_slice() else {
            let nickname = format!("@{text}");
            return Err(match Self::parse(&nickname) {
                Ok(_) => format!("write {nickname}"),
                Err(_) => format!("it needs five or six fields, not {}", fields.len()),
            });
        };
        match parser().parse(text) {
            Ok(cron) if hour.starts_with('*') => Ok(Self::Elapsed(Box::new(cron))),
            Ok(cron) => Ok(Self::Clock(Box::new(cron))),
            Err(error) => Err(wrong_field(&fields).unwrap_or_else(|| error.to_string())),
        }
    }
}

fn parser() -> CronParser {
    CronParser::builder()
        .seconds(Seconds::Optional)
        .year(Year::Disallowed)
        .build()
}

/// Names the wrong field. croner reports the problem but not the field, so each field is tried alone.
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
            let why = match parser().parse(&alone.join(" ")).err()? {
                CronError::ComponentError(why) => why.trim_end_matches('.').to_lowercase(),
                _ => "it has a character that cron does not take".to_owned(),
            };
            Some(format!("{name} {field:?}, within {range}: {why}"))
        })
}

fn unquoted(text: &str) -> &str {
    ['"', '\'']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
        .map_or(text, str::trim)
}
