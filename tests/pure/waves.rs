//! `UPGRADE_WAVE`: the order and pace of ten thousand hosts.

use std::fmt::Write as _;

use delegate_upgrader::schedule::wave::{Place, Wave};
use kit::page;

const HOSTS: usize = 10_000;
/// Each run of a host asks the Manager once; it starts within an hour of its time.
const HOUR: i64 = 3600;

fn wave(text: &str) -> Wave {
    text.parse().unwrap()
}

/// The time when each host starts, in seconds after the image was first seen, the earliest first.
fn begins(wave: Wave, image: &str) -> Vec<i64> {
    let host = |number: usize| format!("MACHINE-ID delegates-{number}.example");
    let waits = (0..HOSTS).map(|number| wave.wait(Place::of(&host(number), image)).num_seconds());
    let mut waits: Vec<i64> = waits.collect();
    waits.sort_unstable();
    waits
}

/// The percentage of the hosts that have started by then.
fn share(begins: &[i64], hours: i64) -> f64 {
    let begun = begins.partition_point(|begin| *begin < hours * HOUR);
    f64::from(u32::try_from(begun).unwrap()) * 100.0 / f64::from(u32::try_from(HOSTS).unwrap())
}

/// The most hosts that start, and so pull, within one hour.
fn most_at_once(begins: &[i64]) -> usize {
    let within = |from: usize| begins.partition_point(|begin| *begin < begins[from] + HOUR) - from;
    (0..begins.len()).map(within).max().unwrap()
}

#[test]
fn documentation_shows_the_wave_over_ten_thousand_hosts() {
    let columns = [
        ("auto", wave("auto")),
        ("20%", wave("20%")),
        ("100%", wave("100%")),
    ];
    let begun = columns.map(|(_, wave)| begins(wave, "harness/delegate:26.10.1"));
    let mut table = String::from(
        "| hours after the image was first seen | `auto` | `20%` | `100%` |\n|---|---|---|---|\n",
    );
    for hours in [1, 6, 12, 24, 48, 72, 96, 120] {
        let _ = write!(table, "| {hours} |");
        for begins in &begun {
            let _ = write!(table, " {:.1} % |", share(begins, hours));
        }
        table.push('\n');
    }
    table.push_str("| most hosts that begin within one hour |");
    for begins in &begun {
        let _ = write!(table, " {} |", most_at_once(begins));
    }
    table.push('\n');
    page::has("docs/usage/schedules.md", "waves", &table);
}

#[test]
fn hosts_start_at_the_configured_pace() {
    let auto = begins(wave("auto"), "harness/delegate:26.10.1");
    for (hours, expected, off) in [(6, 1.0, 0.4), (24, 10.0, 1.0), (48, 50.0, 1.5), (72, 100.0, 0.0)] {
        let share = share(&auto, hours);
        assert!((share - expected).abs() <= off, "{share} % after {hours} h");
    }
    for (text, days) in [("100%", 1), ("50%", 2), ("20%", 5), ("1%", 100)] {
        let daily = begins(wave(text), "harness/delegate:26.10.1");
        let half = share(&daily, days * 12);
        assert!(
            (half - 50.0).abs() < 1.5,
            "{text}: {half} % after half of {days} days"
        );
        assert!(*daily.last().unwrap() < days * 24 * HOUR, "{text}");
        assert!(share(&daily, days * 24 - 1) < 100.0, "{text}");
    }
}

#[test]
fn a_hosts_place_varies_by_image_but_stays_the_same_each_time() {
    let place = |host: &str, image: &str| wave("auto").wait(Place::of(host, image));
    assert_eq!(place("a", "i:1"), place("a", "i:1"));
    assert_ne!(place("a", "i:1"), place("a", "i:2"));
    assert_ne!(place("a", "i:1"), place("b", "i:1"));
    // Few of the hosts among the first hundred are among the first hundred again.
    let first = |image: &str| {
        let waits = (0..HOSTS).map(|number| (place(&number.to_string(), image), number));
        let mut waits: Vec<_> = waits.collect();
        waits.sort_unstable();
        waits
            .into_iter()
            .take(100)
            .map(|(_, number)| number)
            .collect::<Vec<_>>()
    };
    let (one, other) = (first("i:1"), first("i:2"));
    let again = one.iter().filter(|number| other.contains(number)).count();
    assert!(again <= 6, "{again} of 100");
}

#[test]
fn only_a_percentage_or_auto_is_a_wave() {
    for text in ["auto", " Auto ", "10%", "0.5 %", "100%"] {
        assert!(text.parse::<Wave>().is_ok(), "{text}");
    }
    for text in [
        "", "10", "0%", "0.05%", "101%", "-1%", "NaN%", "inf%", "ten%", "fast",
    ] {
        assert!(text.parse::<Wave>().is_err(), "{text}");
    }
    assert_eq!(wave("0.50%").to_string(), "0.5%");
    assert_eq!(wave("AUTO").to_string(), "auto");
}
