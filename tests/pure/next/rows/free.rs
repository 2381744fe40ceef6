//! No container has the name: with a candidate that could take it, and without.

use std::time::Duration;

use chrono::TimeDelta;
use delegate_upgrader::container::RunState;
use delegate_upgrader::document::{DependencyKind, Obstacle};
use delegate_upgrader::rollout::Member;

use super::super::scene::{Change, DEADLINE, HEALTHY_TIME, STOP_TIMEOUT, Scene, ago, helper, new, old};
use super::{check, table};

fn retired(candidate: Member) -> Scene {
    Scene::new().retired(old()).candidate(candidate)
}

/// Stop-first.
fn draining(old: Member, candidate: Member) -> Scene {
    Scene::new().draining(90, old).candidate(candidate).host_network()
}

fn alone(candidate: Member) -> Scene {
    Scene::new().candidate(candidate)
}

fn proven() -> Member {
    new().running(90, HEALTHY_TIME)
}

#[test]
#[rustfmt::skip]
fn a_candidate_takes_the_free_name_or_the_old_container_gets_it_back() {
    let renamed = |candidate: Member| Scene::new().renamed(old().running(900, 900)).candidate(candidate);
    let changed = |old: Member| old.change(|m| m.settings = "changed".to_owned());
    let missing = |scene: Scene| {
        let obstacle = Obstacle::DependencyMissing { container: "vpn".to_owned(), kind: DependencyKind::Network };
        scene.with(|rollout| rollout.obstacle = Some(obstacle))
    };
    let refused = "reject new as d.failed-1: Docker could not start it: d.candidate was never started";
    let exited = "reject new as d.failed-1: exited with code 3 before it had proven itself";
    let row = |row: &str, words: &str| -> &'static str { format!("{row}: {words}").leak() };
    let vanishing = || old().vanishing();
    table(
        "The name is free",
        vec![
            (renamed(proven()), "renamed: withdraw new as d.withdrawn-now"),
            // Stop-first, another process may have asked it to stop. That takes up to the whole wait for an idle moment, the
            // stop timeout, and a moment more.
            (renamed(new()).host_network(), "renamed: wait 1s, stopping"),
            (renamed(new().change(|m| m.created_at = ago(3600 + STOP_TIMEOUT + 14))).host_network(), "renamed: wait 1s, stopping"),
            (renamed(new().change(|m| m.created_at = ago(3600 + STOP_TIMEOUT + 15))).host_network(), "renamed: withdraw new as d.withdrawn-now"),
            (renamed(new()).host_network().knowing(|facts| facts.has_created = true), "renamed: withdraw new as d.withdrawn-now"),
            (renamed(new()), "renamed: withdraw new as d.withdrawn-now"),
            (draining(changed(old()), new()), "old_changed: withdraw new as d.withdrawn-now: settings_changed"),
            (retired(proven()), "take_name: rename new to d"),
            // It was proven when the old container gave up the name, whatever this process has observed.
            (retired(new().running(90, 0)), "take_name: rename new to d"),
            (retired(new()), row("retired_reject", refused)),
            (retired(new().exited(30)), row("retired_reject", exited)),
            (retired(new().unhealthy(90, 90)), "free_proving: wait 5s, proving"),
            (draining(old(), new()), "free_stop: stop old within 1h"),
            (draining(old().asked_to_stop(9), new()), "free_stop: wait 900ms, draining"),
            (draining(old(), new().running(90, 3)), "free_stop: stop old within 1h"),
            (missing(draining(old().exited(30), new())), "companion_missing: rest, obstacle"),
            (draining(old().exited(1), new()), "free_start: start new"),
            (draining(old().exited(30), proven()), "free_promote: rename new to d"),
            (draining(old().exited(30), new().running(20, 20)), "free_proving: wait 5s, proving"),
            (draining(old().exited(30), new().exited(10)), row("free_reject", exited)),
            // Its owner stopped it, as a backup does that stops everything.
            (draining(old().exited(30), new().stopped(9000)), "free_stopped: rest, not_running"),
            (alone(new().stopped(9000)), "free_stopped: rest, not_running"),
            (retired(new().stopped(9000)), "free_stopped: withdraw new as d.withdrawn-now"),
            // Neither runs: the container that this process asked to stop starts at once, unless Docker has refused that.
            (draining(old().exited(1).asked_to_stop(5), new().exited(10)), "free_reject: start old"),
            (draining(old().exited(1).asked_to_stop(5).refused(1), new().exited(10)), row("free_reject", exited)),
            (draining(old().exited(1).asked_to_stop(5), new().unhealthy(DEADLINE, DEADLINE)), row("free_reject", "reject new as d.failed-1: not healthy for 1m without a break within 10m: /api/health says unhealthy")),
            // Start-first, and the owner ended the old container: two can run at once.
            (Scene::new().draining(90, old()).candidate(proven()), "free_promote: rename new to d"),
            // The old container vanishes when it ends, so its copy is created before a candidate is given up.
            (draining(changed(vanishing()), new()), "old_changed: recreate from old"),
            (draining(vanishing(), new().stopped(9000)), "free_stopped: recreate from old"),
            (draining(vanishing(), new().exited(10)), "free_reject: recreate from old"),
            // Someone removed all other containers.
            (alone(new()), "free_start: start new"),
            (alone(proven()), "free_promote: rename new to d"),
            (alone(new().exited(15)), "recreate: recreate from new with harness/delegate:26.01.1"),
            (alone(new().exited(14)), "recreate: wait 1s, returning"),
            (alone(new().unhealthy(DEADLINE, 9)), "recreate: recreate from new with harness/delegate:26.01.1"),
            (alone(new().refused_for_good()), "recreate: recreate from new with harness/delegate:26.01.1"),
            (Scene::new().upgrader("helper").host_network().candidate(new()).helper(true, helper().running(90, 80)).retired(old()), "helper_stop: rename old to d.draining-now"),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn an_old_container_is_restored_or_recreated() {
    let failed = |seconds| new().policy("no").unhealthy(90, 90).asked_to_stop(seconds);
    let restoring = |old: Member| Scene::new().draining(90, old).failed(1, new().policy("no").exited(30));
    let vanishing = || old().vanishing();
    let free_for = |seconds, scene: Scene| scene.knowing(|facts| facts.name_free_for = Duration::from_secs(seconds));
    table(
        "Restoring",
        vec![
            (Scene::new().retired(old()), "restore: rename old to d"),
            (Scene::new().retired(old().exited(9)), "restore_wait: wait 1s, returning"),
            (Scene::new().retired(old().exited(30)), "restore_start: start old"),
            (Scene::new().retired(old().state(RunState::Restarting)), "restore_wait: wait 500ms, returning"),
            // Docker restarted it after the second in its name.
            (restoring(old().running(30, 20)), "restore: rename old to d"),
            // A copy serves while it finishes its tasks, unless two cannot run at once.
            (restoring(old()), "recreate_old: recreate from old"),
            (restoring(old().asked_to_stop(9)), "recreate_old: recreate from old"),
            // Someone removed its successor, and may be about to create it again; Compose first waits for the old one's end.
            (free_for(9, Scene::new().draining(90, old().asked_to_stop(9))), "restore_stop: wait 900ms, nobody_serves"),
            (free_for(10, Scene::new().draining(90, old().asked_to_stop(9))), "recreate_old: recreate from old"),
            (free_for(99, Scene::new().draining(90, old().asked_to_stop(9))).with(|r| r.owner.compose_grace = TimeDelta::seconds(15)), "restore_stop: wait 900ms, nobody_serves"),
            (restoring(old()).host_network(), "restore_stop: stop old within 1h"),
            (restoring(old().running(90, 20)).host_network(), "restore_stop: stop old within 1h"),
            (restoring(old().asked_to_stop(9)).host_network(), "restore_stop: wait 900ms, nobody_serves"),
            (restoring(old().exited(9)), "restore_wait: wait 1s, returning"),
            (restoring(old().exited(10)), "restore_start: start old"),
            // The clock was set back by an hour.
            (Scene::new().draining(-3600, old().exited(30)), "restore_start: rename old to d.draining-now"),
            (Scene::new().draining(-1, old().exited(30)), "restore_start: start old"),
            (Scene::new().draining(90, old().exited(30)).failed(1, failed(9)).host_network(), "restore_wait: wait 900ms, stopping"),
            // It was never in service, so it has no tasks, unless it reports some.
            (Scene::new().draining(90, old().exited(30)).failed(1, failed(11)).host_network(), "given_up_stop: stop new within 0s"),
            (Scene::new().draining(90, old().exited(30)).failed(1, failed(11).tasks(1)).host_network(), "restore_wait: wait 1s, stopping"),
            (Scene::new().draining(90, old().exited(30)).failed(1, failed(9)), "restore_start: start old"),
            (restoring(old().exited(30).refused(2)), "restore_start: start old"),
            (restoring(old().exited(30).refused(3)), "recreate_old: recreate from old"),
            (restoring(vanishing()), "recreate_old: recreate from old"),
            (restoring(old().exited(14).state(RunState::Removing)), "restore_wait: wait 1s, stopping"),
            (restoring(old().exited(15).state(RunState::Removing)), "recreate_old: recreate from old"),
            (Scene::new(), "no_container: rest, no_container"),
            (Scene::new().failed(1, new().policy("no").exited(30)), "no_container: rest, no_container"),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn the_last_container_that_gave_up_the_name_gets_it_back() {
    let first = || old().id("first").exited(60);
    check(vec![
        (Scene::new().draining(40, old().exited(30)).draining(90, first()), "restore_start: start old"),
        (Scene::new().retired(old()).draining(90, first()), "restore: rename old to d"),
        // Its successor serves under another name.
        (Scene::new().draining(40, old().exited(30)).renamed(new().running(90, 90)), "draining_remove: remove old"),
    ]);
}
