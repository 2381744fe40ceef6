//! The upgrader replaces itself.

use delegate_upgrader::config::UpdateOrder;
use delegate_upgrader::container::RunState;
use delegate_upgrader::document::SingleInstance;
use delegate_upgrader::rollout::{Member, Rollout};
use std::time::Duration;

use super::super::scene::{Change, DEADLINE, HEALTHY_TIME, Scene, V2, helper, new, old};
use super::check;

/// Two cannot run at once, and the candidate was created; seen by the old upgrader.
pub fn exchange() -> Scene {
    Scene::new()
        .upgrader("old")
        .host_network()
        .serving(old())
        .candidate(new())
        .pulled(V2)
}

/// The old upgrader gave up the name this many seconds ago; seen by the container `own`.
pub fn retired(own: &str, seconds: u64, candidate: Member) -> Scene {
    let scene = Scene::new().upgrader(own).retired(old()).candidate(candidate);
    scene.knowing(|facts| facts.name_free_for = Duration::from_secs(seconds))
}

#[test]
#[rustfmt::skip]
fn an_upgrader_uses_the_same_tables_to_replace_itself() {
    let proven = || new().running(90, HEALTHY_TIME);
    check(vec![
        (Scene::new().upgrader("helper").serving(old().exited(15)).candidate(proven()), "name_retired: rename old to d.retired"),
        (Scene::new().upgrader("new").serving(new().running(90, HEALTHY_TIME)).retired(old()), "retired_drain: rename old to d.draining-now"),
        (Scene::new().upgrader("new").serving(new().running(90, HEALTHY_TIME - 1)).retired(old()), "old_wait: wait 5s, successor_unhealthy"),
        (retired("old", 29, proven()), "free_proving: wait 500ms, proving"),
        (
            retired("old", 30, proven()),
            "retired_reject: reject new as d.failed-1: it did not take the upgrader's name within 30s, so it is not an upgrader that works here",
        ),
    ]);
}

#[test]
#[rustfmt::skip]
fn failed_helper_counts_against_the_image() {
    let words = |cause: &str| -> &'static str {
        let failed = "the helper, an upgrader with this image that was to replace the old one, failed";
        format!("helper_start: reject new as d.failed-1: {failed}: {cause}").leak()
    };
    check(vec![
        (exchange().helper(false, helper().unhealthy(DEADLINE, DEADLINE)), words("not healthy for 1m without a break within 10m: /api/health says unhealthy")),
        (exchange().helper(false, helper().unhealthy(60, 60).restarts(3)), words("it keeps crashing: restarted 3 times, exited with code 3")),
        (exchange().helper(false, helper().refused_for_good()), words("Docker could not start it: no such file")),
        (exchange().helper(true, helper().running(90, 80).exited(20)), words("exited with code 3 before it had proven itself")),
    ]);
}

/// The helper stops the old upgrader, which starts the new one if the helper cannot.
#[test]
#[rustfmt::skip]
fn a_helper_makes_the_exchange() {
    let draining = |old: Member, candidate: Member| {
        let scene = Scene::new().upgrader("helper").host_network().candidate(candidate).helper(true, helper().running(90, 80));
        scene.draining(90, old)
    };
    check(vec![
        (draining(old(), new()), "free_stop: stop old within 1h"),
        (draining(old().exited(5), new()), "free_start: start new"),
        (draining(old().exited(5), new().running(20, 10)), "free_proving: wait 5s, proving"),
    ]);
}

#[test]
#[rustfmt::skip]
fn helper_stays_while_the_exchange_may_be_undone() {
    let up = || helper().running(90, 80);
    let behind = |old: Member| Scene::new().upgrader("new").serving(new().running(90, 80)).draining(50, old).helper(true, up());
    check(vec![
        (behind(old().exited(40)), "draining_remove: remove old"),
        (behind(old().asked_to_stop(40)), "draining_stop: wait 4s, draining"),
        (Scene::new().upgrader("new").serving(old().state(RunState::Paused)).helper(true, up()), "helper_remove: stop helper within 1h"),
    ]);
}

#[test]
#[rustfmt::skip]
fn too_little_memory_for_a_second_upgrader_rules_out_a_helper() {
    let little = |rollout: &mut Rollout| {
        rollout.single_instance = Some(SingleInstance::TooLittleMemory { needed: 16 << 20, available: 4 << 20 });
    };
    let scene = || Scene::new().upgrader("old").serving(old()).pulled(V2).with(little);
    check(vec![
        (scene(), "blocked: rest, cannot_start_first"),
        // The owner knows better.
        (
            scene().with(|rollout| rollout.owner.update_order = Some(UpdateOrder::StopFirst)),
            "create: create release 1 from old with harness/delegate:26.02.1",
        ),
    ]);
}
