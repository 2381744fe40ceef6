//! The runs of a schedule around the changes of daylight saving time. Pure.
//!
//! croner searches local clock time. In an hour that the clock repeats, it would skip the second half hour of `*/30`,
//! and if it starts in the second of these hours, it may return a moment that has passed.

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use croner::Cron;

use super::zone::Zone;

/// Finds the next run by clock time: searches the calendar as if there were no zone, then converts the result with the zone.
pub(super) fn next_clock(cron: &Cron, zone: &Zone, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let mut local = zone.local(after).naive_local().and_utc();
    loop {
        local = cron.find_next_occurrence(&local, false).ok()?;
        let instant = instant_of(local.naive_utc(), zone)?;
        // In the second of two repeated hours, the runs of the first have passed.
        if instant > after {
            return Some(instant);
        }
    }
}

/// The first moment with that local time. If the clock skips that time, the moment at which the skipped time ends.
pub(super) fn instant_of(local: NaiveDateTime, zone: &Zone) -> Option<DateTime<Utc>> {
    // The longest jump so far was a day: Samoa skipped 30 December 2011.
    let minute = local.and_utc().timestamp().div_euclid(60) * 60;
    zone.instants(local).min().or_else(|| {
        (1..=25 * 60).find_map(|minutes| {
            let later = DateTime::from_timestamp(minute + minutes * 60, 0)?;
            zone.instants(later.naive_utc()).min()
        })
    })
}

/// Finds the next run by elapsed time: searches with each offset for as long as that offset is valid.
pub(super) fn next_elapsed(cron: &Cron, zone: &Zone, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let (mut from, mut inclusive) = (after, false);
    loop {
        let offset = zone.offset(from);
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

/// The first second in `(from, to]` whose offset differs from that of `from`.
pub(super) fn offset_change(zone: &Zone, from: DateTime<Utc>, to: DateTime<Utc>) -> Option<DateTime<Utc>> {
    // No zone has ever changed its offset twice within hours.
    const STEP: TimeDelta = TimeDelta::hours(6);
    let before = zone.offset(from);
    let (mut low, mut high) = (from, from);
    while zone.offset(high) == before {
        if high >= to {
            return None;
        }
        low = high;
        high = (high + STEP).min(to);
    }
    while high - low > TimeDelta::seconds(1) {
        let middle = low + TimeDelta::seconds((high - low).num_seconds() / 2);
        if zone.offset(middle) == before {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(high)
}
