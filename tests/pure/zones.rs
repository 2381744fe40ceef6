//! The built-in time zones against the zones of this system, which another program reads.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use chrono::{NaiveDateTime, TimeZone as _, Utc};
use delegate_upgrader::schedule::zone::Zone;

#[test]
fn zone_transitions_match_the_system_database() {
    let database = Path::new("/usr/share/zoneinfo");
    let table = database.join("tzdata.zi");
    let Ok(table) = std::fs::read_to_string(&table) else {
        println!("skipped: this system has no time zones");
        return;
    };
    // "Z NAME …" starts a zone, "L TARGET NAME" gives a zone another name.
    let names: Vec<&str> = table
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            match words.next()? {
                "Z" => words.next(),
                "L" => words.nth(1),
                _ => None,
            }
        })
        .filter(|name| database.join(name).is_file())
        .collect();
    assert!(names.len() > 400, "only {} zones", names.len());
    let printed = Command::new("zdump")
        .args(["-V", "-c", "2020,2041"])
        .args(&names)
        .output()
        .expect("zdump, of the C library");
    let printed = String::from_utf8(printed.stdout).unwrap();
    let mut compared = 0;
    let mut differing = BTreeMap::new();
    for line in printed.lines() {
        // Europe/Berlin  Sun Mar 29 00:59:59 2020 UT = Sun Mar 29 01:59:59 2020 CET isdst=0 gmtoff=3600
        let (name, rest) = line.split_once("  ").unwrap();
        let (at, _) = rest.split_once(" UT = ").unwrap();
        let offset: i32 = line.rsplit_once("gmtoff=").unwrap().1.parse().unwrap();
        let at = NaiveDateTime::parse_from_str(at.trim(), "%a %b %e %H:%M:%S %Y").unwrap();
        let zone = Zone::named(name).unwrap_or_else(|| panic!("{name} is missing"));
        let local = zone.local(Utc.from_utc_datetime(&at));
        if local.offset().local_minus_utc() != offset {
            differing.entry(name).or_insert(line);
        }
        compared += 1;
    }
    // Some governments change their rules every year, and the two databases may be from different years.
    assert!(differing.len() * 20 < names.len(), "{differing:#?}");
    assert!(compared > 5000, "only {compared} moments");
    println!(
        "{compared} moments in {} zones; other rules: {:?}",
        names.len(),
        differing.keys()
    );
}

#[test]
fn finds_zone_in_any_case() {
    assert_eq!(Zone::named("europe/berlin").unwrap().name(), "Europe/Berlin");
    assert_eq!(Zone::named("Etc/UTC").unwrap().name(), "Etc/UTC");
    assert!(Zone::named("Europe/Atlantis").is_none());
    assert!(Zone::named("").is_none());
}
