//! Cron text, next runs, clock changes, warnings.

use chrono::{DateTime, FixedOffset, TimeDelta, Utc};
use delegate_upgrader::schedule::Schedule;
use delegate_upgrader::schedule::zone::Zone;

fn schedule(text: &str, zone: &str) -> Schedule {
    Schedule::parse(text, Zone::named(zone).unwrap()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn at(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(text).unwrap().to_utc()
}

/// The runs on one line, without fractions of a second that are zero.
fn runs(text: &str, zone: &str, after: &str, count: usize) -> String {
    let runs = schedule(text, zone).next_runs(at(after), count);
    let shown = |run: &DateTime<FixedOffset>| run.format("%m-%dT%H:%M:%S%.f%:::z").to_string();
    let all: Vec<_> = runs.iter().map(shown).collect();
    all.join(" ").replace(":00+", "+")
}

#[test]
#[rustfmt::skip]
fn every_schedule_form_gives_its_next_runs() {
    for (text, expected) in [
        ("0 */1 * * *", "01-31T13:00+00 01-31T14:00+00 01-31T15:00+00"),
        ("*/15 * * * *", "01-31T12:45+00 01-31T13:00+00 01-31T13:15+00"),
        ("30 5 * * * *", "01-31T13:05:30+00 01-31T14:05:30+00 01-31T15:05:30+00"),
        ("*/2 * * * * *", "01-31T12:30:02+00 01-31T12:30:04+00 01-31T12:30:06+00"),
        ("@hourly", "01-31T13:00+00 01-31T14:00+00 01-31T15:00+00"),
        ("@Daily", "02-01T00:00+00 02-02T00:00+00 02-03T00:00+00"),
        ("@midnight", "02-01T00:00+00 02-02T00:00+00 02-03T00:00+00"),
        ("@weekly", "02-01T00:00+00 02-08T00:00+00 02-15T00:00+00"),
        ("@monthly", "02-01T00:00+00 03-01T00:00+00 04-01T00:00+00"),
        ("@yearly", "01-01T00:00+00 01-01T00:00+00 01-01T00:00+00"),
        ("@every 15m", "01-31T12:45+00 01-31T13:00+00 01-31T13:15+00"),
        ("@every 1h30m", "01-31T14:00+00 01-31T15:30+00 01-31T17:00+00"),
        ("0 22 * * mon-fri", "02-02T22:00+00 02-03T22:00+00 02-04T22:00+00"),
        ("0 0 13 * 5", "02-06T00:00+00 02-13T00:00+00 02-20T00:00+00"),
        ("  0   4 * * * ", "02-01T04:00+00 02-02T04:00+00 02-03T04:00+00"),
    ] {
        // The fraction must not return in the runs.
        let found = runs(text, "UTC", "2026-01-31T12:30:00.750Z", 3);
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn spring_change_neither_skips_nor_adds_fixed_runs() {
    // Europe/Berlin, 29 March 2026: 02:00 becomes 03:00.
    for (text, expected) in [
        ("0 * * * *", "03-29T01:00+01 03-29T03:00+02 03-29T04:00+02"),
        ("*/30 * * * *", "03-29T00:30+01 03-29T01:00+01 03-29T01:30+01"),
        ("30 2 * * *", "03-29T03:00+02 03-30T02:30+02 03-31T02:30+02"),
        ("30 2,14 * * *", "03-29T03:00+02 03-29T14:30+02 03-30T02:30+02"),
        ("*/20 2 * * *", "03-29T03:00+02 03-30T02:00+02 03-30T02:20+02"),
        ("0 2,3 * * *", "03-29T03:00+02 03-30T02:00+02 03-30T03:00+02"),
        ("@every 1h", "03-29T01:10+01 03-29T03:10+02 03-29T04:10+02"),
    ] {
        let found = runs(text, "Europe/Berlin", "2026-03-28T23:10:00Z", 3);
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn the_autumn_change_repeats_intervals_and_no_fixed_run() {
    // Europe/Berlin, 25 October 2026: 03:00 becomes 02:00.
    for (text, expected) in [
        ("0 * * * *", "10-25T02:00+02 10-25T02:00+01 10-25T03:00+01"),
        ("*/30 * * * *", "10-25T02:00+02 10-25T02:30+02 10-25T02:00+01"),
        ("30 2 * * *", "10-25T02:30+02 10-26T02:30+01 10-27T02:30+01"),
        ("30 2,14 * * *", "10-25T02:30+02 10-25T14:30+01 10-26T02:30+01"),
    ] {
        let found = runs(text, "Europe/Berlin", "2026-10-24T23:40:00Z", 3);
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn the_next_run_is_never_in_the_past_in_a_repeated_hour() {
    // 02:10 for the second time: the first 02:30 is over.
    let next = runs("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1);
    assert_eq!(next, "10-26T02:30+01");
    for (zone, from) in [
        ("Europe/Berlin", "2026-10-24T00:00:00Z"),
        ("Europe/Berlin", "2026-03-28T00:00:00Z"),
        ("America/New_York", "2026-03-07T00:00:00Z"),
        ("America/New_York", "2026-10-31T00:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T00:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T00:00:00Z"),
        ("Pacific/Apia", "2011-12-29T00:00:00Z"),
    ] {
        for text in [
            "*/7 * * * *",
            "30 2 * * *",
            "*/10 1-3 * * *",
            "0 */2 * * *",
            "15 0,23 * * *",
            "@every 7m",
        ] {
            let schedule = schedule(text, zone);
            let mut now = at(from);
            for _ in 0..900 {
                let next = schedule.next(now).unwrap().to_utc();
                assert!(next > now, "{text} in {zone} after {now}: {next}");
                // At whatever moment one asks, the answer is the same run.
                let before = next - TimeDelta::seconds(1);
                if before > now && !text.starts_with("@every") {
                    let same = schedule.next(before).unwrap().to_utc();
                    assert_eq!(same, next, "{text} in {zone} at {before}");
                }
                now = next;
                if now > at(from) + TimeDelta::days(4) {
                    break;
                }
            }
        }
    }
}

#[test]
fn runs_of_a_skipped_day_happen_when_it_would_have_ended() {
    // Pacific/Apia went from 29 to 31 December 2011.
    let next = runs("0 12 * * *", "Pacific/Apia", "2011-12-29T23:00:00Z", 2);
    assert_eq!(next, "12-31T00:00+14 12-31T12:00+14");
}

#[test]
#[rustfmt::skip]
fn the_error_of_a_schedule_locates_the_mistake() {
    for (text, expected) in [
        ("", "five or six fields, not 0"),
        ("0 *", "five or six fields, not 2"),
        ("0 0 * * * * 2027", "five or six fields, not 7"),
        ("61 * * * *", "minute \"61\", within 0-59: number out of bounds"),
        ("0 24 * * *", "hour \"24\", within 0-23"),
        ("0 0 0 * *", "day of the month \"0\", within 1-31"),
        ("0 0 * 13 *", "month \"13\""),
        ("0 0 * * 8", "weekday \"8\""),
        ("0 0 * * MO", "weekday \"MO\""),
        ("*/0 * * * *", "step cannot be zero"),
        ("75 0 * * * *", "second \"75\""),
        ("0 0 30 2 *", "no date matches it"),
        ("@reboot", "RUN_ON_START=true runs at each start"),
        ("@fortnightly", "unknown nickname"),
        ("@every", "unknown nickname"),
        ("@every soon", "\"soon\" is not an interval"),
        ("@every 0s", "less than one second"),
        ("@every 400d", "more than a year"),
        ("hourly", "write @hourly"),
        ("every 15m", "write @every 15m"),
        ("H 3 * * *", "minute \"H\", within 0-59: it has a character that cron does not take"),
    ] {
        let error = Schedule::parse(text, Zone::utc()).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
#[rustfmt::skip]
fn warns_about_likely_mistakes() {
    let warnings = |text| schedule(text, "UTC").warnings();
    for text in [
        "0 */1 * * *",
        "*/15 * * * *",
        "@every 90m",
        "0 * * * *",
        "@hourly",
        "0 */2 * * *",
        "0 22 * * 1-5",
    ] {
        assert_eq!(warnings(text), Vec::<String>::new(), "{text}");
    }

    for (text, parts) in [
        ("0 */15 * * *", ["00:00 and 15:00", "\"*/15 * * * *\""]),
        ("0 30 */10 * * *", ["00:30, 10:30 and 20:30", "\"0 */10 * * * *\""]),
        ("*/40 * * * *", ["minutes 00 and 40 of each hour; for every 40 minutes", "write \"@every 40m\""]),
        ("*/90 * * * *", ["minute 00 of each hour; for every 90 minutes", "write \"@every 90m\""]),
        ("0 */40 * * *", ["00:00 each day; for every 40 minutes", "write \"@every 40m\""]),
        ("\"0 * * * *\"", ["quotes", ""]),
    ] {
        let found = warnings(text);
        assert!(
            found.len() == 1 && parts.iter().all(|part| found[0].contains(part)),
            "{text}: {found:?}"
        );
    }
}

#[test]
fn drops_quotes_around_schedule() {
    for text in ["\"0 */1 * * *\"", "'0 */1 * * *'", " \" 0 */1 * * * \" "] {
        assert_eq!(schedule(text, "UTC").as_str(), "0 */1 * * *");
    }
}

#[test]
fn describes_schedule_with_its_zone() {
    for (text, expected) in [
        ("0 22 * * *", "At 22:00 (Europe/Berlin)"),
        ("*/15 * * * *", "At every 15 minutes (Europe/Berlin)"),
        ("@every 15m", "Every 15m"),
    ] {
        assert_eq!(schedule(text, "Europe/Berlin").describe(), expected);
    }
}

#[test]
fn the_next_run_counts_from_the_last_due_time_so_delays_do_not_add_up() {
    let every = schedule("@every 15m", "UTC");
    let next = |last, now| every.following(last, at(now)).unwrap().to_utc();
    let last = Some(at("2026-01-01T12:00:00Z"));
    assert_eq!(next(None, "2026-01-01T12:00:00.4Z"), at("2026-01-01T12:15:00Z"));
    assert_eq!(next(last, "2026-01-01T12:00:09Z"), at("2026-01-01T12:15:00Z"));
    // The host slept for an hour: one run, then the normal schedule from now on.
    assert_eq!(next(last, "2026-01-01T13:00:00Z"), at("2026-01-01T13:15:00Z"));
}

#[test]
fn runs_once_around_a_clock_change() {
    let hourly = schedule("0 * * * *", "Europe/Berlin");
    let nightly = schedule("30 2 * * *", "Europe/Berlin");
    // The scheduler is up to half a second late.
    let after = |schedule: &Schedule, last: DateTime<Utc>| {
        let late = last + TimeDelta::milliseconds(400);
        schedule.following(Some(last), late).unwrap().to_utc()
    };
    let mut last = at("2026-10-24T23:00:00Z");
    for _ in 0..5 {
        let next = after(&hourly, last);
        assert_eq!(next - last, TimeDelta::hours(1));
        last = next;
    }
    let first = nightly.following(None, at("2026-10-24T23:00:00Z"));
    let first = first.unwrap().to_utc();
    assert_eq!(after(&nightly, first) - first, TimeDelta::hours(25));
}
