//! The engine itself is stopped and killed at every stage of an upgrade: the matrix holds a batch of upgraders, each at
//! its own call; the engine goes, the held calls are cut, and the engine comes back.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::TRIES;
use crate::check::image_in_service;
use crate::plan::{self, Selection};
use crate::point::{Bench, Gate, Point};
use crate::proxy::Fault;
use crate::scenario::Scenario;
use crate::tally::Tally;
use kit::lab::engine::set_live_restore;
use kit::lab::{self, Signal, V1, image};

/// The number of attempts to start the engine before the run is given up.
const ENGINE_STARTS: u32 = 3;
/// The number of upgraders held at once.
const BATCH: usize = 24;
/// The time that they may take to get there.
const ALL_ARRIVE: Duration = Duration::from_secs(120);
/// The time for which the engine stays away.
const AWAY: Duration = Duration::from_secs(1);
/// The time that the engine may take to stop.
const STOPS: Duration = Duration::from_secs(90);

/// The way in which the engine goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outage {
    signal: Signal,
    live_restore: bool,
}

impl Outage {
    const ALL: [Self; 4] = [
        Self {
            signal: Signal::TERM,
            live_restore: false,
        },
        Self {
            signal: Signal::KILL,
            live_restore: false,
        },
        Self {
            signal: Signal::TERM,
            live_restore: true,
        },
        Self {
            signal: Signal::KILL,
            live_restore: true,
        },
    ];
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.signal == Signal::TERM {
            "engine-stopped"
        } else {
            "engine-killed"
        };
        let lives = if self.live_restore { "-live-restore" } else { "" };
        write!(f, "{how}{lives}")
    }
}

/// The lab's own engine.
struct Daemon {
    lab: PathBuf,
}

impl Daemon {
    /// `None` if the engine is not the lab's to stop.
    fn of_lab() -> Option<Self> {
        let lab = PathBuf::from(lab::env("LAB_DIR"));
        lab.join("start-engine").exists().then_some(Self { lab })
    }

    /// Ends the process, and waits until it is gone.
    async fn end(&self, signal: Signal) {
        let pid = fs::read_to_string(self.lab.join("docker.pid")).expect("the engine's pid file");
        let pid = pid.trim();
        lab::send(signal, pid);
        let begin = Instant::now();
        while Path::new("/proc").join(pid).exists() {
            assert!(begin.elapsed() < STOPS, "the engine does not stop");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Starts it, and starts it again if it crashes meanwhile, as its systemd unit would: dockerd 20.10 can panic while it
    /// restores the networks of containers that live through its end.
    async fn start(&self) {
        for attempt in 1..=ENGINE_STARTS {
            let started = Command::new(self.lab.join("start-engine")).status().await;
            let started = started.expect("start-engine can be run");
            if started.success() {
                return;
            }
            println!("matrix: the engine does not start: {started} (attempt {attempt} of {ENGINE_STARTS})");
        }
        panic!("the engine does not start again");
    }

    /// Restarts it with this setting.
    async fn set_live_restore(&self, on: bool) {
        set_live_restore(&self.lab, on);
        self.end(Signal::TERM).await;
        self.start().await;
    }
}

/// Tries all outages at all selected stages.
pub(crate) async fn try_all(
    bench: &Arc<Bench>,
    recorded: &BTreeMap<Scenario, Vec<(String, bool)>>,
    selection: &Selection,
    tally: &mut Tally,
) {
    // Each takes a minute, however many points there are.
    if selection.is_small {
        return;
    }
    let mut number = 60_000;
    let mut lives = false;
    for outage in Outage::ALL {
        let mut points = points(recorded, outage);
        points.retain(|point| selection.takes(&point.name()));
        if points.is_empty() {
            continue;
        }
        let Some(daemon) = Daemon::of_lab() else {
            println!(
                "matrix: the engine is not the lab's own: {} points of {outage} are left out",
                points.len()
            );
            continue;
        };
        println!("matrix: {outage}: {} points to try", points.len());
        if lives != outage.live_restore {
            daemon.set_live_restore(outage.live_restore).await;
            lives = outage.live_restore;
        }
        for _ in 0..TRIES {
            let mut missed = Vec::new();
            for batch in points.chunks_mut(BATCH) {
                for point in batch.iter_mut() {
                    number += 1;
                    point.number = number;
                }
                missed.extend(one_outage(bench, &daemon, outage, batch, tally).await);
            }
            points = missed;
        }
        crate::tell_missed(bench, points, tally).await;
    }
}

/// Before and after each write, which covers every stage.
fn points(recorded: &BTreeMap<Scenario, Vec<(String, bool)>>, outage: Outage) -> Vec<Point> {
    let mut points = Vec::new();
    for (scenario, calls) in recorded {
        for (call, _) in calls.iter().filter(|(_, write)| *write && scenario.is_good()) {
            for fault in [Fault::HoldBefore, Fault::HoldAfter] {
                points.push(Point {
                    number: 0,
                    scenario: *scenario,
                    trap: Some(plan::trap(calls, call, fault)),
                    circumstance: outage.to_string(),
                    gate: None,
                });
            }
        }
    }
    points
}

/// Returns the points whose call was not made.
async fn one_outage(
    bench: &Arc<Bench>,
    daemon: &Daemon,
    outage: Outage,
    points: &[Point],
    tally: &mut Tally,
) -> Vec<Point> {
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let (open, opened) = watch::channel(false);
    let mut running = JoinSet::new();
    for point in points {
        let mut point = point.clone();
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
        for _ in points {
            arrivals.recv().await;
        }
    };
    if timeout(ALL_ARRIVE, all).await.is_err() {
        println!("matrix: not all upgraders got to their call; the engine goes all the same");
    }
    let lost_by_the_engine = lost_by_the_engine(bench, points).await;
    daemon.end(outage.signal).await;
    open.send_replace(true);
    sleep(AWAY).await;
    daemon.start().await;
    let mut missed = Vec::new();
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok((point, outcome, _))
                if !(outcome.failures.is_empty() || outcome.lied)
                    && lost_by_the_engine.contains(&point.delegate()) =>
            {
                tally.not_counted(&point);
            }
            Ok((point, outcome, _)) if !outcome.reached && outcome.failures.is_empty() => missed.push(point),
            Ok((point, outcome, took)) => tally.count(&point, &outcome, took),
            Err(error) => tally.broken(&error.to_string()),
        }
    }
    missed
}

/// The delegates that vanish with an engine, as they would without an upgrader: delegates with `--rm` that have no candidate
/// yet, or whose successor serves. With live-restore they also vanish (seen on 20.10).
async fn lost_by_the_engine(bench: &Bench, points: &[Point]) -> HashSet<String> {
    let mut names = HashSet::new();
    for point in points.iter().filter(|point| point.scenario.shape.rm) {
        let name = point.delegate();
        let is_alone = bench.engine.list(&name).await.len() < 2;
        let serves = image_in_service(&bench.engine, &name).await;
        if serves == Some(point.scenario.published()) || is_alone && serves == Some(image(V1)) {
            names.insert(name);
        }
    }
    names
}
