//! The people's matrix: at every stage of an upgrade, everything that a person may do on the host, on a real engine.
//! Run with `make matrix MATRIX=people`.
//!
//! The upgrader is held at a call, or observed for a while after it; somebody acts on the engine directly; the upgrader
//! goes on; one more scheduled run follows. What the person did stands. Otherwise the host ends as after any upgrade.

mod images;
mod judge;
mod outages;
mod perform;
mod point;
mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::plan::{self, Selection};
use crate::point::Bench;
use crate::proxy::Fault;
use crate::scenario::Scenario;
use crate::tally::Tally;
use point::{Cause, Outcome, Point};
use rules::act::Act;
use rules::expect;
use rules::stage::{Moment, Stage, stages};

/// Each act on each target meets each of them. What was started with `--rm` takes none.
const POLICIES: [&str; 4] = ["always", "unless-stopped", "on-failure", "no"];
/// So often is a point tried whose stage was not reached.
const TRIES: usize = 3;

/// The calls of a clean upgrade, for each scenario.
type Recorded = BTreeMap<Scenario, Vec<(String, bool)>>;

/// Tries what is selected.
pub(crate) async fn try_all(bench: &Arc<Bench>, selection: &Selection, tally: &mut Tally) {
    let recorded = record(bench, tally).await;
    let mut points = points(&recorded);
    let all = points.len();
    points.retain(|point| selection.takes(&point.name()));
    println!("matrix: {} of {all} points of people to try", points.len());
    let mut forgotten = Vec::new();
    for tried in 0..TRIES {
        for point in &mut points {
            point.number += 4_000 * usize::from(tried > 0);
        }
        let outcomes = run_all(bench, points, crate::jobs(), tally).await;
        let outcomes = outcomes.into_iter();
        let (doubtful, certain): (Vec<_>, Vec<_>) = outcomes.partition(|(_, outcome)| outcome.is_doubtful());
        forgotten.extend(doubtful.into_iter().map(|(point, _)| point));
        points = not_reached(certain);
    }
    for point in points {
        tally.by_chance(&point.name());
    }
    for point in &mut forgotten {
        println!(
            "once more, alone: the engine has forgotten what happened: {}",
            point.name()
        );
        point.number += 12_000;
    }
    for (point, outcome) in run_all(bench, forgotten, 1, tally).await {
        if outcome.is_doubtful() {
            tally.broken(&format!(
                "{}: the engine forgets what happens even alone",
                point.name()
            ));
        }
    }
    outages::try_all(bench, &recorded, selection, tally).await;
}

async fn record(bench: &Arc<Bench>, tally: &mut Tally) -> Recorded {
    let scenarios = Scenario::all().into_iter().filter(|scenario| scenario.is_good());
    let clean = |(number, scenario)| Point::clean(number, scenario);
    let points = scenarios.enumerate().map(clean).collect();
    let outcomes = run_all(bench, points, crate::jobs(), tally).await;
    let seen = outcomes
        .into_iter()
        .map(|(point, outcome)| (point.scenario, outcome.seen));
    seen.collect()
}

fn stages_of(scenario: Scenario, calls: &[(String, bool)]) -> Vec<Stage> {
    stages(scenario.shape.rm, scenario.shape.stop_first, calls)
}

/// Every act at every stage that it makes sense at.
fn points(recorded: &Recorded) -> Vec<Point> {
    let mut points = Vec::new();
    // How many points there are of each act, so that each act meets each policy. Those with `--rm` have none.
    let mut so_far: BTreeMap<Act, usize> = BTreeMap::new();
    for (scenario, calls) in recorded {
        for stage in stages_of(*scenario, calls) {
            let fault = match stage.moment {
                Moment::Before => Fault::Pause,
                Moment::After => Fault::Notice,
            };
            for act in Act::all() {
                let Some(expected) = expect::expected(&stage, act) else {
                    continue;
                };
                let number = so_far.entry(act).or_default();
                points.push(Point {
                    number: 100 + points.len(),
                    scenario: *scenario,
                    trap: Some(plan::trap(calls, &stage.call, fault)),
                    stage: Some(stage.clone()),
                    cause: Cause::Person(act),
                    policy: policy(&stage, *number),
                    expected,
                    gate: None,
                });
                *number += 1;
            }
        }
    }
    points
}

/// The restart policy of a point. One without a policy has none that is taken off.
fn policy(stage: &Stage, number: usize) -> &'static str {
    let takeable = if stage.kind() == "update-old" {
        &POLICIES[..3]
    } else {
        &POLICIES[..]
    };
    takeable[number % takeable.len()]
}

fn not_reached(outcomes: Vec<(Point, Outcome)>) -> Vec<Point> {
    let missed = outcomes.into_iter().filter(|(_, outcome)| !outcome.reached);
    missed.map(|(point, _)| point).collect()
}

/// Tries points side by side and counts those that were reached.
async fn run_all(
    bench: &Arc<Bench>,
    points: Vec<Point>,
    jobs: usize,
    tally: &mut Tally,
) -> Vec<(Point, Outcome)> {
    let slots = Arc::new(Semaphore::new(jobs));
    let mut running = JoinSet::new();
    for point in points {
        let (bench, slots) = (Arc::clone(bench), Arc::clone(&slots));
        running.spawn(async move {
            let _slot = slots.acquire().await.ok();
            let begin = Instant::now();
            let outcome = point.try_on(&bench).await;
            (point, outcome, begin.elapsed())
        });
    }
    let mut outcomes = Vec::new();
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok((point, outcome, took)) => {
                count(&point, &outcome, took, tally);
                outcomes.push((point, outcome));
            }
            Err(error) => tally.broken(&error.to_string()),
        }
    }
    outcomes
}

fn count(point: &Point, outcome: &Outcome, took: std::time::Duration, tally: &mut Tally) {
    if let Some(problem) = &outcome.refused {
        println!(
            "the engine refused, so that a clean upgrade is expected: {}: {problem}",
            point.name()
        );
    }
    if outcome.reached && !outcome.is_doubtful() {
        let row = (format!("people {}", point.scenario), point.what());
        tally.enter(row, &point.name(), &outcome.failures, outcome.kept_old, took);
    }
}
