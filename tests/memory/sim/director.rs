//! Plays a scenario: publishes images, makes things go wrong on the host, and waits for the end.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::faults::{Act, watch_calls};
use super::hardships;
use super::people::{self, ACTS};
use super::random::Random;
use super::scenario::{HOUR, Scenario};
use super::upgraders::supervise;
use super::world::World;

/// Plays a scenario to its end.
pub async fn play(scenario: Scenario, aloud: bool) -> Arc<World> {
    let world = Arc::new(World::new(scenario, aloud));
    let (acts, todo) = mpsc::channel(2);
    watch_calls(&world, acts);
    let upgraders =
        join_all((0..world.scenario.upgraders.len()).map(|slot| supervise(Arc::clone(&world), slot)));
    tokio::select! {
        biased;
        () = direct(&world, todo) => {}
        () = world.endless.notified() => world.book().endless = true,
        _ = upgraders => {}
    }
    world
}

/// Publishes and acts as the scenario says.
async fn direct(world: &Arc<World>, mut todo: mpsc::Receiver<Act>) {
    let scenario = &world.scenario;
    let mut random = scenario.random.clone();
    random.next();
    let mut publications = scenario.publications.iter().copied().peekable();
    let mut manager_back: Option<Duration> = None;
    let mut person_due = scenario
        .people
        .as_ref()
        .map(|people| people.next(&mut random, Duration::ZERO));
    loop {
        let now = world.twin.elapsed();
        while let Some((_, image)) = publications.next_if(|(at, _)| *at <= now) {
            world.publish(image);
        }
        if manager_back.is_some_and(|at| at <= now) {
            manager_back = None;
            restore_manager(world);
        }
        if now >= scenario.calm_at {
            break;
        }
        if let Some(people) = scenario
            .people
            .as_ref()
            .filter(|_| person_due.is_some_and(|at| at <= now))
        {
            people::act(world, &mut random, &people.acts).await;
            person_due = Some(people.next(&mut random, world.twin.elapsed()));
            continue;
        }
        let due = publications.peek().map(|(at, _)| *at);
        let until = [due, manager_back, person_due, Some(scenario.calm_at)]
            .into_iter()
            .flatten()
            .min();
        tokio::select! {
            biased;
            () = sleep(until.unwrap_or_default().saturating_sub(now)) => {}
            Some(act) = todo.recv() => {
                // Before the call takes effect, during it, or some time later.
                let delay = match random.below(0..4) {
                    0 => Duration::ZERO,
                    1 => random.millis(0..4),
                    2 => random.millis(0..5_000),
                    _ => random.seconds(0..100),
                };
                sleep(delay).await;
                perform(world, act, &mut random, &mut manager_back).await;
            }
        }
    }
    come_to_rest(world).await;
}

/// Ends all faults, and waits until everything has come to rest.
pub async fn come_to_rest(world: &World) {
    let scenario = &world.scenario;
    restore_manager(world);
    hardships::end(world);
    world.tell("--- calm ---");
    let calm = world.twin.elapsed();
    world.book().calm_since = Some(calm);
    // The longest quarantine is a day, and runs are an hour apart.
    for hour in 0..75 {
        sleep(HOUR).await;
        let book = world.book();
        let published = scenario.images[book.published].kind;
        let passed = book.runs.iter().all(|runs| *runs >= 3);
        let settled = book
            .last
            .iter()
            .all(|last| matches!(last, Some((true, failed)) if !failed || !published.serves() && hour > 5));
        if passed && settled {
            break;
        }
    }
    // The judge must not see a retry halfway, and a container that has just come back needs some time.
    let (mut restful, mut changes) = (0, 0);
    let attempt = (scenario.healthy_deadline + scenario.stop_timeout) * 2;
    let round = attempt.as_secs() * scenario.delegates.len() as u64;
    for _ in 0..400 + round / 30 {
        let at_rest = |last: &Option<(bool, bool)>| matches!(last, Some((true, _)));
        let before = std::mem::replace(&mut changes, world.twin.writes().len());
        restful = if changes == before && world.book().last.iter().all(at_rest) {
            restful + 1
        } else {
            0
        };
        if restful > scenario.healthy_deadline.as_secs() / 30 {
            return;
        }
        sleep(Duration::from_secs(30)).await;
    }
    world.book().endless = true;
}

pub(super) fn note_standstill(world: &World, time: Duration) {
    let now = world.twin.elapsed();
    world.book().standstills.push((now, now + time));
}

fn restore_manager(world: &World) {
    *world.manager_down.lock().unwrap() = false;
    world.twin.set_manager_reachable(true);
    let now = world.twin.elapsed();
    for outage in &mut world.book().outages {
        outage.1 = outage.1.min(now);
    }
    world.tell("the Manager is back");
}

async fn perform(world: &Arc<World>, act: Act, random: &mut Random, manager_back: &mut Option<Duration>) {
    match act {
        Act::Kill(slot) => {
            world.count("upgrader killed");
            world.tell(format!("KILL upgrader {slot}"));
            world.kills[slot].notify_one();
        }
        Act::Engine => {
            let downtime = random.seconds(1..60);
            let kind = random.below(0..3);
            let word =
                ["engine restart", "engine restart, live", "engine killed"][usize::try_from(kind).unwrap()];
            world.count(word);
            world.tell(format!("{} for {downtime:?}", word.to_uppercase()));
            note_standstill(world, downtime);
            match kind {
                0 => world.twin.restart_engine(downtime),
                1 => world.twin.restart_engine_live(downtime),
                _ => world.twin.kill_engine(downtime),
            }
            sleep(downtime).await;
        }
        Act::Power => {
            let downtime = random.seconds(10..3600);
            world.count("host reboot");
            world.tell(format!("REBOOT, {downtime:?}"));
            note_standstill(world, downtime);
            world.twin.crash_host(downtime);
            for kill in &world.kills {
                kill.notify_one();
            }
            sleep(downtime).await;
        }
        Act::Hardship => hardships::strike(world, random).await,
        Act::Person => people::act(world, random, &ACTS).await,
        Act::People => {
            let acts = &world.scenario.people.as_ref().expect("a story with people").acts;
            people::act(world, random, acts).await;
        }
        Act::Manager => {
            let (upgrader, delegates) =
                random.pick(&[(true, true), (true, true), (true, false), (false, true)]);
            let times = [20, 300, 1500, 5000, 15_000, 40_000].map(Duration::from_secs);
            let time = random.pick(if world.scenario.long_outages {
                &times
            } else {
                &times[..4]
            });
            let until = world.twin.elapsed() + time;
            world.count("Manager outage");
            world.tell(format!(
                "MANAGER OUTAGE for {time:?}, upgrader {upgrader}, delegates {delegates}"
            ));
            *world.manager_down.lock().unwrap() = upgrader;
            if delegates {
                world.twin.set_manager_reachable(false);
                let now = world.twin.elapsed();
                world.book().outages.push((now, until));
            }
            *manager_back = Some(until);
        }
        Act::Clock => {
            let by = random.pick(&[3600, 7200, 20_000, 60, -5, -60, -3600]);
            world.count(if by > 0 { "clock forward" } else { "clock backward" });
            world.tell(format!("CLOCK by {by} s"));
            world.twin.jump_clock(TimeDelta::seconds(by));
        }
        Act::Crash => {
            let glance = world.twin.glance();
            let running: Vec<_> = glance
                .iter()
                .filter(|container| container.state.as_str() == "running" && container.id != world.stranger)
                .collect();
            if running.is_empty() {
                return;
            }
            let victim = random.pick(&running);
            world.count("crash");
            world.tell(format!("CRASH of {}", victim.name));
            world.twin.crash(&victim.id, 1);
        }
    }
}
