//! Acts of a host that lets the upgrader down: containers that cannot be inspected, updated, removed or started, a runtime
//! that starts nothing, and an operator who changes the settings in the middle.

use std::time::Duration;

use delegate_upgrader::config::UpdateOrder;
use delegate_upgrader::container::Role;
use tokio::time::sleep;

use super::director::note_standstill;
use super::people::{Act, People, family};
use super::random::Random;
use super::scenario::{Faults, HOUR, Scenario};
use super::upgraders::IDLE;
use super::world::World;
use kit::twin::{OnStop, Operation};

/// The time that the engine may need once a delegate can be started: two health checks, and the start.
pub(super) const START: Duration = Duration::from_secs(180);

/// An act of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hardship {
    /// The engine can start nothing for some minutes; running containers continue.
    NothingStarts,
    /// The operator changes `DISABLE_AUTO_UPGRADE`.
    HealthOnly,
    /// A call of this kind fails on a leftover container.
    Broken(Operation),
}

const HARDSHIPS: [Hardship; 6] = [
    Hardship::NothingStarts,
    Hardship::HealthOnly,
    Hardship::Broken(Operation::Inspect),
    Hardship::Broken(Operation::SetRestartPolicy),
    Hardship::Broken(Operation::Remove),
    Hardship::Broken(Operation::Start),
];

/// Gives a scenario such a host, in place of most of its faults: images that ignore SIGTERM, a job that prunes stopped
/// containers, and acts of one or two kinds.
pub(super) fn move_in(scenario: &mut Scenario) {
    let mut random = Random::new(scenario.seed ^ 0x6861_7264);
    if !random.one_in(4) {
        scenario.faults = Faults::default();
    }
    scenario.faults.person = 0;
    // The invariant of service measures time.
    scenario.faults.clock = 0;
    scenario.faults.hardship = random.pick(&[2, 4, 8]);
    for _ in 0..random.pick(&[0, 1, 1, 2]) {
        scenario.hardships.push(random.pick(&HARDSHIPS));
    }
    if random.one_in(2) {
        scenario.update_order = UpdateOrder::StopFirst;
        for delegate in &mut scenario.delegates {
            delegate.become_stop_first();
        }
    }
    for made in scenario.images.iter_mut().skip(1) {
        if random.one_in(2) {
            made.behaviour.on_stop = OnStop::Ignore;
        }
    }
    if random.one_in(3) {
        scenario.people = Some(People {
            often: random.pick(&[3, 6, 12]),
            every: HOUR / 2,
            acts: vec![Act::Prune],
        });
    }
}

/// Carries out one act.
pub(super) async fn strike(world: &World, random: &mut Random) {
    if world.scenario.hardships.is_empty() {
        return;
    }
    match random.pick(&world.scenario.hardships) {
        Hardship::NothingStarts => {
            let time = random.seconds(10..600);
            world.count("hardship: nothing starts");
            world.tell(format!("RUNTIME starts nothing for {time:?}"));
            // After nine failures, the next attempt waits until an idle daemon looks.
            note_standstill(world, time + IDLE);
            let reason = "failed to create shim task: OCI runtime create failed";
            world.twin.break_runtime(Some(reason));
            sleep(time).await;
            world.twin.break_runtime(None);
        }
        Hardship::HealthOnly => {
            let on = !world.book().health_only;
            set_health_only(world, on);
        }
        Hardship::Broken(operation) => break_left_over(world, random, operation),
    }
}

/// The operator changes `DISABLE_AUTO_UPGRADE`, so each upgrader restarts.
fn set_health_only(world: &World, on: bool) {
    world.count("hardship: health only");
    world.tell(format!("SETTINGS health_only={on}"));
    world.book().health_only = on;
    for kill in &world.kills {
        kill.notify_one();
    }
}

/// Makes a call fail on a leftover container: while no delegate works, only on a rejected or withdrawn one.
fn break_left_over(world: &World, random: &mut Random, operation: Operation) {
    let mut left = Vec::new();
    for line in 0..world.scenario.delegates.len() {
        let family = family(world, line);
        let is_served = family.iter().any(|(role, container)| {
            *role == Role::Serving && world.twin.health(&container.id) == Some(true)
        });
        left.extend(family.into_iter().filter(|(role, _)| match role {
            Role::Serving => false,
            Role::Failed { .. } | Role::Withdrawn { .. } => true,
            _ => is_served,
        }));
    }
    if left.is_empty() {
        return;
    }
    let (_, victim) = random.pick(&left);
    world.count(&format!("hardship: no {operation:?}"));
    world.tell(format!("BROKEN {}: {operation:?} fails", victim.name));
    world.twin.break_container(&victim.id, operation);
    let (now, id) = (world.twin.elapsed(), victim.id.as_str().to_owned());
    world.book().broken.push((now, id, operation));
}

/// The host works properly again.
pub(super) fn end(world: &World) {
    world.twin.mend();
    world.twin.break_runtime(None);
    if world.book().health_only {
        set_health_only(world, false);
    }
}
