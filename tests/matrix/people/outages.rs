//! The engine stopped and killed at every stage, under delegates with every restart policy. With `--rm` there is none:
//! those are part of the matrix of faults.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::point::{Cause, Point};
use super::rules::expect;
use super::rules::stage::Moment;
use super::{Recorded, TRIES, count, not_reached, policy, stages_of};
use crate::outage::{ALL_ARRIVE, AWAY, Daemon, Outage};
use crate::plan::{self, Selection};
use crate::point::{Bench, Gate};
use crate::proxy::Fault;
use crate::tally::Tally;

/// Tries what is selected. All points of a kind share one outage.
pub(super) async fn try_all(
    bench: &Arc<Bench>,
    recorded: &Recorded,
    selection: &Selection,
    tally: &mut Tally,
) {
    // Each takes a minute, whatever the number of points.
    if selection.is_small {
        return;
    }
    let (mut lives, mut number) = (false, 15_000);
    for outage in Outage::ALL {
        let mut points = points(recorded, outage);
        points.retain(|point| selection.takes(&point.name()));
        if points.is_empty() {
            continue;
        }
        let Some(daemon) = Daemon::of_lab() else {
            println!("matrix: the engine is not the lab's own: {outage} is left out");
            continue;
        };
        println!("matrix: {outage}: {} points of people to try", points.len());
        if lives != outage.live_restore {
            daemon.set_live_restore(outage.live_restore).await;
            lives = outage.live_restore;
        }
        for _ in 0..TRIES {
            for point in &mut points {
                number += 1;
                point.number = number;
            }
            if !points.is_empty() {
                points = one_outage(bench, &daemon, outage, points, tally).await;
            }
        }
        for point in points {
            tally.by_chance(&point.name());
        }
    }
}

fn points(recorded: &Recorded, outage: Outage) -> Vec<Point> {
    let mut points = Vec::new();
    for (scenario, calls) in recorded.iter().filter(|(scenario, _)| !scenario.shape.rm) {
        let stages = stages_of(*scenario, calls).into_iter();
        let held = stages.filter(|stage| stage.moment == Moment::Before);
        for (place, stage) in held.enumerate() {
            let shift = Outage::ALL.iter().position(|other| *other == outage);
            let policy = policy(&stage, place + shift.unwrap_or_default());
            points.push(Point {
                trap: Some(plan::trap(calls, &stage.call, Fault::Pause)),
                stage: Some(stage),
                cause: Cause::Engine(outage),
                policy,
                expected: expect::after_outage(policy, outage.live_restore),
                ..Point::clean(0, *scenario)
            });
        }
    }
    points
}

/// Returns those whose stage was not reached.
async fn one_outage(
    bench: &Arc<Bench>,
    daemon: &Daemon,
    outage: Outage,
    points: Vec<Point>,
    tally: &mut Tally,
) -> Vec<Point> {
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let (open, opened) = watch::channel(false);
    let mut running = JoinSet::new();
    let count_of_points = points.len();
    for mut point in points {
        point.gate = Some(Gate {
            arrived: arrived.clone(),
            open: opened.clone(),
        });
        let bench = Arc::clone(bench);
        running.spawn(async move {
            let begin = Instant::now();
            let outcome = point.try_on(&bench).await;
            (point, outcome, begin.elapsed())
        });
    }
    drop(arrived);
    let all = async {
        for _ in 0..count_of_points {
            arrivals.recv().await;
        }
    };
    if timeout(ALL_ARRIVE, all).await.is_err() {
        println!("matrix: not all upgraders got to their call; the engine goes all the same");
    }
    daemon.end(outage.signal).await;
    open.send_replace(true);
    sleep(AWAY).await;
    daemon.start().await;
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
    not_reached(outcomes)
}
