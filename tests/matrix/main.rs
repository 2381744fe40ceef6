//! The real matrix: every fault at every call of an upgrade, on a real engine. Run with `make matrix`.
//!
//! ```text
//! tests/lab/run cargo test --test matrix -- start-first/05 kill
//! ```
//!
//! Arguments are parts of points' names, all of which must match. `MATRIX_SHARE=all` tries all points,
//! `MATRIX_SHARE=30` about every thirtieth, always the same ones. `MATRIX_JOBS` is the number of points tried at once,
//! and `MATRIX_STORIES` the directory for the stories of failed points, or of all points with `MATRIX_KEEP=all`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot continue has failed, and this one prints its own results"
)]

mod audit;
mod call;
mod check;
mod events;
mod outage;
mod plan;
mod point;
mod presence;
mod proxy;
mod scenario;
mod story;
mod tally;
mod upgrader;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use std::{env, fs};

use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use events::Recorder;
use kit::lab::engine::Engine;
use kit::lab::{self, LABEL, V1, image};
use plan::Selection;
use point::{Bench, Outcome, Point};
use scenario::Scenario;
use tally::Tally;

/// The number of points tried at once, by default.
const JOBS: usize = 24;
/// The number of tries for a point whose call is not made.
pub(crate) const TRIES: usize = 6;
/// A delegate that no upgrade may touch.
const BYSTANDER: &str = "matrix-bystander";

fn main() -> ExitCode {
    let selection = Selection::from_process();
    if selection.lists {
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(matrix(selection))
}

async fn matrix(selection: Selection) -> ExitCode {
    let begin = Instant::now();
    let engine = Engine::of_the_lab();
    if let Err(problem) = presence::first_answer(&engine).await {
        println!("matrix: nothing was tried: {problem}");
        return ExitCode::FAILURE;
    }
    let bench = Arc::new(set_up(engine.clone()).await);
    let mut tally = Tally::default();
    let lost = tokio::select! {
        () = try_selected(&bench, &selection, &mut tally) => None,
        problem = presence::lost(&engine) => Some(problem),
    };
    if let Some(problem) = lost {
        tally.broken(&problem);
    }
    tally.print(begin.elapsed(), &bench.stories);
    if tally.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Tries everything that is selected, and then tears down what all points share.
async fn try_selected(bench: &Arc<Bench>, selection: &Selection, tally: &mut Tally) {
    let recorded = record(bench, tally).await;
    let points = plan::points(&recorded, selection);
    println!("matrix: {} points to try", points.len());
    try_all(bench, points, tally).await;
    outage::try_all(bench, &recorded, selection, tally).await;
    bench.engine.clear(BYSTANDER).await;
}

async fn set_up(engine: Engine) -> Bench {
    lab::build_images();
    let stories =
        env::var_os("MATRIX_STORIES").map_or_else(|| lab::project().join("target/matrix"), PathBuf::from);
    let _ = fs::remove_dir_all(&stories);
    fs::create_dir_all(&stories).expect("a directory for the stories");
    let sockets = PathBuf::from(lab::env("LAB_DIR")).join("matrix");
    fs::create_dir_all(&sockets).expect("a directory for sockets");
    let old = engine
        .expect("GET", &format!("/images/{}/json", image(V1)), None)
        .await;
    let recorder = Recorder::start();
    let body = json!({
        "Image": image(V1),
        "Env": [format!("DELEGATE_NAME={BYSTANDER}")],
        "Labels": { LABEL: BYSTANDER },
        "HostConfig": { "RestartPolicy": { "Name": "always" } },
    });
    let bystander = engine.run(BYSTANDER, &body).await;
    Bench {
        engine,
        recorder,
        old_image_id: check::text(&old, "/Id"),
        bystander,
        sockets,
        stories,
    }
}

/// A clean upgrade for each of these scenarios, with the outcomes; the upgrade itself is also a point.
async fn clean(
    bench: &Arc<Bench>,
    first_number: usize,
    scenarios: impl IntoIterator<Item = Scenario>,
    tally: &mut Tally,
) -> Vec<(Point, Outcome)> {
    let clean = |(number, scenario)| Point {
        number: first_number + number,
        scenario,
        trap: None,
        circumstance: String::new(),
        gate: None,
    };
    run_all(
        bench,
        scenarios.into_iter().enumerate().map(clean).collect(),
        tally,
    )
    .await
}

/// The calls of a clean upgrade for each scenario.
async fn record(bench: &Arc<Bench>, tally: &mut Tally) -> BTreeMap<Scenario, Vec<(String, bool)>> {
    let mut recorded = BTreeMap::new();
    for (point, outcome) in clean(bench, 0, Scenario::all(), tally).await {
        if outcome.left_alone {
            println!(
                "matrix: {}: left alone, so there is nothing to try",
                point.scenario
            );
            continue;
        }
        recorded.insert(point.scenario, outcome.seen);
    }
    recorded
}

/// Tries points, and those whose call was not made several times.
async fn try_all(bench: &Arc<Bench>, mut points: Vec<Point>, tally: &mut Tally) {
    for tried in 1..=TRIES {
        let outcomes = run_all(bench, points, tally).await;
        points = outcomes
            .into_iter()
            .filter(|(_, outcome)| !outcome.reached)
            .map(|(point, _)| point)
            .collect();
        for point in &mut points {
            point.number += 10_000 * tried;
        }
        if points.is_empty() {
            return;
        }
    }
    tell_missed(bench, points, tally).await;
}

/// For points whose call was never made: runs a clean upgrade to find out whether every upgrade makes that call. Some calls
/// depend on timing, such as the stop of a candidate that may already have crashed.
pub(crate) async fn tell_missed(bench: &Arc<Bench>, points: Vec<Point>, tally: &mut Tally) {
    let scenarios: BTreeSet<Scenario> = points.iter().map(|point| point.scenario).collect();
    let again = clean(bench, 50_000, scenarios, tally).await;
    for point in points {
        let is_made = again.iter().any(|(clean, outcome)| {
            let trap = point.trap.as_ref();
            let made = |(call, _): &(String, bool)| trap.is_some_and(|trap| trap.point == *call);
            clean.scenario == point.scenario && outcome.seen.iter().any(made)
        });
        if is_made {
            tally.never_reached(&point);
        } else {
            tally.by_chance(&point.name());
        }
    }
}

/// Tries points side by side and counts the points that were reached.
async fn run_all(bench: &Arc<Bench>, points: Vec<Point>, tally: &mut Tally) -> Vec<(Point, Outcome)> {
    let jobs = env::var("MATRIX_JOBS").ok().and_then(|jobs| jobs.parse().ok());
    let slots = Arc::new(Semaphore::new(jobs.unwrap_or(JOBS)));
    let mut running = JoinSet::new();
    for point in points {
        let (bench, slots) = (Arc::clone(bench), Arc::clone(&slots));
        running.spawn(async move {
            let _slot = if point.waits() {
                None
            } else {
                slots.acquire().await.ok()
            };
            let begin = Instant::now();
            let outcome = point.try_on(&bench).await;
            (point, outcome, begin.elapsed())
        });
    }
    let mut outcomes = Vec::new();
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok((point, outcome, took)) => {
                tally.count(&point, &outcome, took);
                outcomes.push((point, outcome));
            }
            Err(error) => tally.broken(&error.to_string()),
        }
    }
    outcomes
}
