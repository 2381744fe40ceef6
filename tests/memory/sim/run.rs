//! Plays many seeds, and reports the results.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::answers::contradictions;
use super::director::play;
use super::invariants::violations;
use super::people::Density;
use super::scenario::Scenario;
use super::world::World;

/// The number of seeds that a plain `cargo test` plays.
const FIXED_SHARE: u64 = 60;
const FIXED_SHARE_WITH_PEOPLE: u64 = 30;

/// The maximum number of broken stories that are listed.
const SHOWN: usize = 200;

#[derive(Default)]
struct Tally {
    seeds: u64,
    steps: u64,
    /// The seconds of the slowest seed, and the seed.
    slowest: Option<(f64, u64)>,
    counts: BTreeMap<String, u64>,
    /// The distinct states of a name in which a delegate must serve.
    states: BTreeSet<String>,
    violations: Vec<(u64, Vec<String>)>,
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

/// Whether people work on the host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum People {
    None,
    Some(Density),
    /// A host that lets the upgrader down, and a job that prunes.
    Hardships,
}

impl People {
    /// The value of `PEOPLE`.
    fn as_asked_for() -> Self {
        match std::env::var("PEOPLE").as_deref() {
            Err(_) | Ok("" | "0") => Self::None,
            Ok("crowd") => Self::Some(Density::Crowd),
            Ok("hard") => Self::Hardships,
            Ok(_) => Self::Some(Density::Some),
        }
    }

    fn scenario(self, seed: u64) -> Scenario {
        match self {
            Self::None => Scenario::new(seed),
            Self::Some(density) => Scenario::with_people(seed, density),
            Self::Hardships => Scenario::with_hardships(seed),
        }
    }
}

fn play_seed(people: People, seed: u64, tally: &Mutex<Tally>) {
    let begun = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let runtime = runtime();
        let _context = runtime.enter();
        let world = runtime.block_on(play(people.scenario(seed), false));
        world.twin.clear_faults();
        let (mut violations, states) = violations(&world);
        let (steps, mut counts) = {
            let book = world.book();
            (book.steps, book.counts.clone())
        };
        let (contradictions, compared) = runtime.block_on(contradictions(&world));
        violations.extend(contradictions);
        *counts.entry("plans compared".to_owned()).or_default() += compared;
        (violations, states, steps, counts)
    }));
    let mut tally = tally.lock().unwrap();
    tally.seeds += 1;
    let took = begun.elapsed().as_secs_f64();
    if took > 20.0 {
        println!("SEED={seed} took {took:.0} s");
    }
    if tally.slowest.is_none_or(|(longest, _)| longest < took) {
        tally.slowest = Some((took, seed));
    }
    match outcome {
        Ok((violations, states, steps, counts)) => {
            tally.steps += steps;
            tally.states.extend(states);
            for (what, count) in counts {
                *tally.counts.entry(what).or_default() += count;
            }
            if let Some(first) = violations.first() {
                // A run of hours may be stopped early.
                println!("SEED={seed} VIOLATED: {first}");
                tally.violations.push((seed, violations));
            }
        }
        Err(_) => tally.violations.push((seed, vec!["it panicked".to_owned()])),
    }
}

fn play_all(people: People, seeds: Range<u64>) -> Tally {
    let tally = Mutex::new(Tally::default());
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    play_seed(people, seed, &tally);
                }
            });
        }
    });
    let mut tally = tally.into_inner().unwrap();
    tally.violations.sort();
    tally
}

fn tell(tally: &Tally, begun: Instant) {
    println!("seeds      {:>10}", tally.seeds);
    println!("steps      {:>10}", tally.steps);
    for (what, count) in &tally.counts {
        println!("{count:>10}  {what}");
    }
    let (longest, slowest) = tally.slowest.unwrap_or_default();
    let seconds = begun.elapsed().as_secs_f64();
    println!("{seconds:>10.1}  seconds; {longest:.1} of them for SEED={slowest}");
    println!("{:>10}  distinct states of a name", tally.states.len());
    println!("violations {:>10}", tally.violations.len());
    for (seed, violations) in tally.violations.iter().take(SHOWN) {
        println!("SEED={seed}");
        for violation in violations.iter().take(5) {
            println!("    {violation}");
        }
    }
}

fn check(people: People, seeds: Range<u64>) {
    let begun = Instant::now();
    let tally = play_all(people, seeds);
    tell(&tally, begun);
    assert!(
        tally.violations.is_empty(),
        "{} seeds; replay one with: {}make sim SEED={}",
        tally.violations.len(),
        match people {
            People::None => "",
            People::Some(Density::Some) => "PEOPLE=1 ",
            People::Some(Density::Crowd) => "PEOPLE=crowd ",
            People::Hardships => "PEOPLE=hard ",
        },
        tally.violations[0].0
    );
}

#[test]
fn keeps_promise_whatever_goes_wrong() {
    check(People::None, 0..FIXED_SHARE);
}

#[test]
fn keeps_promise_whatever_people_do() {
    for density in [Density::Some, Density::Crowd] {
        check(People::Some(density), 0..FIXED_SHARE_WITH_PEOPLE);
    }
}

#[test]
fn keeps_its_promise_whatever_fails_on_the_host() {
    check(People::Hardships, 0..FIXED_SHARE_WITH_PEOPLE);
}

/// The test that `make sim` runs.
#[test]
#[ignore = "plays the seeds that SEEDS or SEED names"]
fn plays() {
    if let Ok(seed) = std::env::var("SEED") {
        return story(seed.parse().expect("SEED is a number"));
    }
    let seeds = std::env::var("SEEDS").unwrap_or_else(|_| "1000".to_owned());
    let range = match seeds.split_once("..") {
        Some((from, to)) => from.parse().expect("SEEDS=a..b")..to.parse().expect("SEEDS=a..b"),
        None => 0..seeds.parse().expect("SEEDS is a count or a range a..b"),
    };
    check(People::as_asked_for(), range);
}

/// Prints the whole story of a seed.
fn story(seed: u64) {
    let runtime = runtime();
    let _context = runtime.enter();
    let scenario = People::as_asked_for().scenario(seed);
    println!("{scenario:#?}");
    if std::env::var_os("LOG").is_some() {
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .init();
    }
    let world = runtime.block_on(play(scenario, true));
    world.twin.clear_faults();
    print(&world);
    let (violations, _) = violations(&world);
    for violation in &violations {
        println!("VIOLATED: {violation}");
    }
    assert!(violations.is_empty());
}

/// Prints the whole book.
pub fn print(world: &World) {
    let mut lines = std::mem::take(&mut world.book().lines);
    for call in world.twin.writes() {
        lines.push((
            call.at,
            format!(
                "    call {} by {}: {:?} {} {} -> {:?}",
                call.index, call.client, call.operation, call.subject, call.detail, call.outcome
            ),
        ));
    }
    for event in world.twin.events().iter() {
        lines.push((
            event.at,
            format!("        {} {:?} ({:?})", event.name, event.what, event.cause),
        ));
    }
    lines.sort_by_key(|(at, _)| *at);
    let mut before = String::new();
    for (at, line) in lines {
        if line != before {
            println!("{:>12.3} {line}", at.as_secs_f64());
        }
        before = line;
    }
}
