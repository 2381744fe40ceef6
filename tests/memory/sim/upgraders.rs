//! The upgraders of a scenario at work: processes that are killed and restarted, and their view of the world.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use delegate_upgrader::engine::EngineError;
use delegate_upgrader::image::ImageReference;
use delegate_upgrader::manager::{ImageSource, ManagerError};
use delegate_upgrader::reconcile::Reconciler;
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::Intent;
use delegate_upgrader::status::report::Report;
use tokio::time::sleep;

use super::book::note;
use super::scenario::{HOUR, Upgrader};
use super::world::World;
use crate::endpoint::Endpoint;
use kit::twin::Twin;

/// The longest time between two observations of an idle daemon.
pub(super) const IDLE: Duration = Duration::from_secs(600);

/// The longest time that an answer of the Manager takes if the engine is away meanwhile.
const ANSWER: Duration = Duration::from_secs(60);

/// More decisions than the longest story needs.
const ENDLESS: u64 = 300_000;

/// The Manager, as an upgrader sees it.
pub struct Manager(Arc<World>);

impl ImageSource for Manager {
    async fn published(&self, _: &ImageReference, _: &str) -> Result<ImageReference, ManagerError> {
        sleep(Duration::from_millis(50)).await;
        if *self.0.manager_down.lock().unwrap() {
            return Err(ManagerError::Unreachable("connection refused".to_owned()));
        }
        let published = self.0.book().published;
        Ok(self.0.scenario.images[published].reference.parse().unwrap())
    }
}

/// Restarts an upgrader however often it is killed.
pub async fn supervise(world: Arc<World>, slot: usize) {
    let mut random = world.scenario.random.clone();
    for _ in 0..=slot {
        random = random.fork();
    }
    loop {
        tokio::select! {
            biased;
            () = world.kills[slot].notified() => {}
            () = upgrade(&world, slot) => {}
        }
        world.note_watch(slot, false);
        let away = random.pick(&[0, 0, 1, 30, 5000].map(Duration::from_secs));
        sleep(away).await;
        world.tell(format!("upgrader {slot} starts"));
    }
}

/// The client of a process outside the story.
pub(super) const OBSERVER: usize = 99;

/// A process that has just started.
pub(super) fn reconciler(world: &Arc<World>, client: usize) -> Reconciler<Twin, Manager, Endpoint> {
    let clock = world.twin.clone();
    Reconciler::new(
        world.twin.client(client),
        Some(Manager(Arc::clone(world))),
        Endpoint::new(&world.twin),
        world.settings(),
        Arc::new(move || clock.wall_clock()),
    )
}

/// One process: a daemon that never ends, or a single `once`.
async fn upgrade(world: &Arc<World>, slot: usize) {
    let Upgrader {
        minute,
        once,
        run_on_start,
    } = world.scenario.upgraders[slot].clone();
    let mut reconciler = reconciler(world, slot + 1);
    // In half of the stories, the processes are notified of changes; in the other half, they must poll.
    if !once && world.scenario.seed.is_multiple_of(2) {
        reconciler = reconciler.watching();
    }
    let next_run = |world: &World| {
        let now = world.twin.elapsed();
        let mut at = minute;
        while at <= now {
            at += HOUR;
        }
        at
    };
    let mut run = next_run(world);
    let mut begin = Some(if run_on_start {
        Intent::Upgrade
    } else {
        Intent::Report
    });
    if once {
        sleep(run.saturating_sub(world.twin.elapsed())).await;
        begin = Some(Intent::Upgrade);
    }
    world.note_watch(slot, true);
    let mut asked_again = false;
    let mut wished = None;
    let mut taken = BTreeMap::new();
    loop {
        if begin == Some(Intent::Upgrade) && world.book().calm_since.is_some() {
            world.book().runs[slot] += 1;
        }
        let published = world.book().published;
        if let Some(intent) = begin.clone() {
            world.tell(format!("upgrader {slot}: a run begins ({intent:?})"));
            reconciler.start_run(intent);
        }
        let outcome: Result<Report, EngineError> = reconciler.reconcile().await;
        if let (Some(intent), Ok(_)) = (&begin, &outcome) {
            // It is asked in the background, and answers with the image that is published by then.
            let now = world.twin.elapsed();
            let changes = |at: Duration| (now..now + ANSWER).contains(&at);
            let mut publications = world.scenario.publications.iter();
            let is_clear = published == world.book().published && !publications.any(|(at, _)| changes(*at));
            let is_asked = *intent == Intent::Upgrade && !*world.manager_down.lock().unwrap();
            wished = (is_asked && is_clear).then_some(published);
            begin = None;
        }
        let is_reachable = outcome.is_ok();
        let steps = reconciler.core().ledger.tally.steps.clone();
        world.book().note_steps(&taken, &steps);
        taken = steps;
        if world.book().steps > ENDLESS {
            world.endless.notify_one();
        }
        let wait = match outcome {
            Ok(report) => {
                note(world, slot, &report, wished);
                let wake = report
                    .next_check
                    .map(|wake| (wake - world.twin.wall_clock()).to_std().unwrap_or_default());
                if once && wake.is_none() {
                    if !report.has_unasked() || asked_again {
                        return;
                    }
                    asked_again = true;
                    begin = Some(Intent::Upgrade);
                    Duration::ZERO
                } else {
                    wake.unwrap_or(IDLE)
                }
            }
            Err(error) => {
                world.tell(format!("upgrader {slot}: {error}"));
                Duration::from_secs(5)
            }
        };
        let wait = wait.min(IDLE);
        let now = world.twin.elapsed();
        if !once && run <= now + wait {
            sleep(run.saturating_sub(now)).await;
            run = next_run(world);
            begin = Some(Intent::Upgrade);
        } else {
            tokio::select! {
                () = reconciler.answered(), if is_reachable => {}
                () = sleep(wait) => {}
            }
        }
    }
}
