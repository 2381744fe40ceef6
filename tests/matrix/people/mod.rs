//! The people's matrix: acts of a person on the host, at every stage of an upgrade, on a real engine. Run with
//! `make matrix MATRIX=people`.
//!
//! The upgrader is held at a call, or observed for a while after it; a person acts on the engine directly; the upgrader
//! continues; another scheduled run follows. Then the same few invariants must hold, whatever the act.

mod act;
mod images;
mod judge;
mod point;
mod stage;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::plan::{self, Selection};
use crate::point::Bench;
use crate::proxy::Fault;
use crate::scenario::Scenario;
use crate::tally::Tally;
use crate::{record, run_all};
use act::Act;
use point::Point;
use stage::{Moment, stages};

/// The restart policies, which the points use in turn. A delegate with `--rm` has none.
const POLICIES: [&str; 4] = ["always", "unless-stopped", "on-failure", "no"];
/// The number of tries for a point whose stage is not reached.
const TRIES: usize = 3;

/// Tries the selected points.
pub(crate) async fn try_all(bench: &Arc<Bench>, selection: &Selection, tally: &mut Tally) {
    let recorded = record(bench, Scenario::is_good, tally).await;
    let mut points = points(&recorded);
    let all = points.len();
    points.retain(|point| selection.takes(&point.name()));
    println!("matrix: {} of {all} points of people to try", points.len());
    for _ in 0..TRIES {
        let outcomes = run_all(bench, points, tally).await.into_iter();
        let missed = outcomes.filter(|(_, outcome)| !outcome.reached && outcome.failures.is_empty());
        points = missed.map(|(point, _)| point).collect();
        for point in &mut points {
            point.number += 4_000;
        }
    }
    for point in points {
        tally.by_chance(&point.name());
    }
}

/// Every act at every stage that has the target of the act.
fn points(recorded: &BTreeMap<Scenario, Vec<(String, bool)>>) -> Vec<Point> {
    let mut points = Vec::new();
    for (scenario, calls) in recorded {
        for stage in stages(calls) {
            let fault = match stage.moment {
                Moment::Before => Fault::Pause,
                Moment::After => Fault::Notice,
            };
            for act in Act::all().filter(|act| stage.permits(*act)) {
                points.push(Point {
                    number: 100 + points.len(),
                    scenario: *scenario,
                    policy: POLICIES[points.len() % POLICIES.len()],
                    trap: plan::trap(calls, &stage.call, fault),
                    stage: stage.clone(),
                    act,
                });
            }
        }
    }
    points
}
