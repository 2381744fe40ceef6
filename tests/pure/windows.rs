//! Upgrade windows and points in time, across clock changes.

use chrono::{DateTime, TimeDelta, Utc};
use delegate_upgrader::schedule::until;
use delegate_upgrader::schedule::window::UpgradeWindow;
use delegate_upgrader::schedule::zone::Zone;

fn zone(name: &str) -> Zone {
    Zone::named(name).unwrap()
}

fn window(text: &str, name: &str) -> UpgradeWindow {
    UpgradeWindow::parse(text, zone(name)).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn at(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(text).unwrap().to_utc()
}

#[test]
#[rustfmt::skip]
fn a_window_follows_local_wall_clock_time() {
    // 2026-11-23 is a Monday. Clocks in Berlin go back on 2026-10-25 and forward on 2026-03-29, both Sundays.
    for (text, time, opens) in [
        ("Mon-Fri 02:00-05:00", "11-23T02:00+01", None),
        ("Mon-Fri 02:00-05:00", "11-23T04:59+01", None),
        ("Mon-Fri 02:00-05:00", "11-23T05:00+01", Some("11-24T02:00+01")),
        ("Mon-Fri 02:00-05:00", "11-27T05:00+01", Some("11-30T02:00+01")),
        ("mon-fri 2:00-5:00", "11-28T03:00+01", Some("11-30T02:00+01")),
        ("Monday 02:00-05:00", "11-23T05:00+01", Some("11-30T02:00+01")),
        ("02:00-05:00", "11-28T12:00+01", Some("11-29T02:00+01")),
        ("Fri-Mon 02:00-05:00", "11-24T02:00+01", Some("11-27T02:00+01")),
        // Over midnight: the day is the one on which the window begins.
        ("Fri 22:00-06:00", "11-28T05:59+01", None),
        ("Fri 22:00-06:00", "11-28T06:00+01", Some("12-04T22:00+01")),
        ("Fri 22:00-06:00", "11-27T05:00+01", Some("11-27T22:00+01")),
        ("Sun 22:00-06:00", "11-23T03:00+01", None),
        ("Sat-Sun 00:00-24:00", "11-28T00:00+01", None),
        ("Sat-Sun 00:00-24:00", "11-30T00:00+01", Some("12-05T00:00+01")),
        ("22:00-24:00", "11-28T00:00+01", Some("11-28T22:00+01")),
        // Several: the window that opens first counts.
        ("Sat 10:00-12:00, Wed 02:00-03:00", "11-23T12:00+01", Some("11-25T02:00+01")),
        ("Sat 10:00-12:00,Wed 02:00-03:00", "11-28T11:00+01", None),
        // Clocks skip the whole window: the next day. They skip its beginning: it opens right after the skipped hour.
        ("02:00-03:00", "03-29T01:30+01", Some("03-30T02:00+02")),
        ("02:30-04:00", "03-29T01:30+01", Some("03-29T03:00+02")),
        // Clocks go back: the repeated hour counts twice.
        ("02:10-02:20", "10-25T02:15+02", None),
        ("02:10-02:20", "10-25T02:30+02", Some("10-25T02:10+01")),
        ("02:10-02:20", "10-25T02:30+01", Some("10-26T02:10+01")),
        ("01:30-02:30", "10-25T02:45+02", Some("10-25T02:00+01")),
    ] {
        let window = window(text, "Europe/Berlin");
        let at = |short: &str| at(&format!("2026-{}:00{}:00", &short[..11], &short[11..]));
        let (time, opens) = (at(time), opens.map(at));
        assert_eq!(window.is_open(time), opens.is_none(), "{text} at {time}");
        assert_eq!(
            window.next_opening(time),
            opens.unwrap_or(time),
            "{text} at {time}"
        );
    }
}

#[test]
fn finds_next_opening_of_a_window() {
    let texts = [
        "23:30-00:30",
        "Sun 01:45-02:15, Sun 02:50-03:10",
        "Sat 22:00-02:30",
    ];
    // Europe, a half-hour zone, and the southern hemisphere: around the days on which their clocks change.
    for (name, changes) in [
        ("Europe/Berlin", ["2026-03-29", "2026-10-25"]),
        ("Australia/Lord_Howe", ["2026-04-05", "2026-10-04"]),
        ("America/Santiago", ["2026-04-05", "2026-09-06"]),
    ] {
        for (text, change) in texts.iter().flat_map(|text| changes.map(|change| (text, change))) {
            let window = window(text, name);
            let change = at(&format!("{change}T00:00:00Z"));
            let mut minute = change - TimeDelta::days(9);
            let mut closed_since = None;
            while minute < change + TimeDelta::days(9) {
                if !window.is_open(minute) {
                    closed_since.get_or_insert(minute);
                } else if let Some(since) = closed_since.take() {
                    for since in [
                        since,
                        since + (minute - since) / 2,
                        minute - TimeDelta::seconds(1),
                    ] {
                        assert_eq!(window.next_opening(since), minute, "{text} in {name} at {since}");
                    }
                }
                minute += TimeDelta::minutes(1);
            }
        }
    }
}

#[test]
#[rustfmt::skip]
fn explains_invalid_window() {
    for (text, error) in [
        ("nights", r#""nights" has no hours such as 02:00-05:00"#),
        ("Mon-Fri", r#""Mon-Fri" has no hours such as 02:00-05:00"#),
        ("Mon-Fri 2-5", r#""Mon-Fri 2-5" has no hours such as 02:00-05:00"#),
        ("Mon-Fri 02:00", r#""Mon-Fri 02:00" has no hours such as 02:00-05:00"#),
        ("25:00-26:00", r#""25:00" is not a time of day such as 02:00"#),
        ("02:00-05:60", r#""05:60" is not a time of day such as 02:00"#),
        ("02:00-5", r#""5" is not a time of day such as 02:00"#),
        ("24:00-02:00", r#""24:00" is not a time of day such as 02:00"#),
        ("02:00-24:01", r#""24:01" is not a time of day such as 02:00"#),
        ("2:0-5:00", r#""2:0" is not a time of day such as 02:00"#),
        ("+2:00-05:00", r#""+2:00" is not a time of day such as 02:00"#),
        ("Mo-Fr 02:00-05:00", r#""Mo-Fr" is not a weekday such as Mon or a range such as Mon-Fri"#),
        ("Mon Tue 02:00-05:00", r#""Mon Tue" is not a weekday such as Mon or a range such as Mon-Fri"#),
        ("02:00-02:00", r#""02:00-02:00" ends when it starts; the whole day is 00:00-24:00"#),
        ("Mon 02:00-05:00,", r#""" has no hours such as 02:00-05:00"#),
    ] {
        let found = UpgradeWindow::parse(text, Zone::utc()).unwrap_err();
        assert_eq!(found, error, "{text}");
    }
}

#[test]
fn a_point_in_time_is_read_as_local_time_in_the_zone() {
    let berlin = zone("Europe/Berlin");
    for (text, expected) in [
        ("2026-12-01", Some("2026-12-01T00:00:00+01:00")),
        ("2026-12-01T08:00", Some("2026-12-01T08:00:00+01:00")),
        (" 2026-07-01 08:00:30 ", Some("2026-07-01T08:00:30+02:00")),
        ("2026-12-01T08:00:00Z", Some("2026-12-01T08:00:00Z")),
        ("2026-12-01T08:00:00-05:00", Some("2026-12-01T13:00:00Z")),
        // A skipped time, and a time that comes twice.
        ("2026-03-29T02:30", Some("2026-03-29T03:00:00+02:00")),
        ("2026-10-25T02:30", Some("2026-10-25T02:30:00+02:00")),
        ("tomorrow", None),
        ("2026-13-01", None),
        ("01.12.2026", None),
        ("", None),
    ] {
        assert_eq!(until::parse(text, &berlin), expected.map(at), "{text}");
    }
}
