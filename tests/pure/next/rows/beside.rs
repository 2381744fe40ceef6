//! Containers beside the replacement: failed and withdrawn ones, and old ones behind the one in service.

use chrono::TimeDelta;
use delegate_upgrader::container::RunState;
use delegate_upgrader::rollout::Member;
use delegate_upgrader::rollout::reason::Reason;

use super::super::scene::{
    Change, DEADLINE, STOP_TIMEOUT, Scene, V1, V2, V3, ago, copy, helper, image_id, new, old,
};
use super::{check, table};

const AT_REST: &str = "blocked: rest, awaiting_schedule";

/// The settings before another change.
fn kept() -> Member {
    new().id("former").replaces("before").policy("no")
}

/// Its settings were changed.
fn reconfigured() -> Scene {
    let changed = |member: &mut Member| member.reconfigured = Some("memory".to_owned());
    Scene::new().serving(new().running(90, 90).change(changed))
}

#[test]
#[rustfmt::skip]
fn failed_and_withdrawn_containers_are_stopped_and_cleaned_up() {
    let failed = |member: Member| Scene::new().serving(old()).failed(1, member);
    let withdrawn = |member: Member| Scene::new().serving(old()).withdrawn(90, member);
    let up = || new().unhealthy(700, 700);
    let down = |id| new().id(id).policy("no").exited(90);
    let removing = || new().policy("no").unhealthy(70, 70).state(RunState::Removing);
    let stuck = || removing().change(|m| m.life.finished_at = Some(ago(601)));
    table(
        "Failed and withdrawn containers",
        vec![
            (failed(up()), "given_up_policy: set the policy of new to no"),
            (withdrawn(up()), "given_up_policy: set the policy of new to no"),
            (withdrawn(new().exited(90)), "given_up_policy: set the policy of new to no"),
            (failed(up().policy("no")), "given_up_stop: stop new within 1h"),
            (failed(up().policy("no").asked_to_stop(90)), "given_up_stop: wait 9s, stopping"),
            (failed(up().policy("no").asked_to_stop(STOP_TIMEOUT + 1)), "given_up_stop: stop new within 0s"),
            (withdrawn(removing()), "given_up_removing: wait 1s, stopping"),
            (withdrawn(stuck()), AT_REST),
            (withdrawn(down("new")), "withdrawn_remove: remove new"),
            (withdrawn(new().policy("no")), "withdrawn_remove: remove new"),
            (Scene::new().serving(old()).trial(90, new().policy("no")), "withdrawn_remove: remove new"),
            // Compose removes the containers that it stopped, and fails if one is already being removed.
            (withdrawn(new().policy("no").exited(2)), "withdrawn_remove: wait 1s, stopping"),
            // The newest failure is kept until a later release works.
            (failed(down("f1")), AT_REST),
            (failed(down("f1")).failed(2, down("f2")), "failed_remove: remove f1"),
            (failed(down("f1").state(RunState::Removing)).failed(2, down("f2")), "given_up_removing: wait 1s, stopping"),
            (Scene::new().serving(new().running(90, 90)).failed(1, down("f1").change(|m| m.created_at = ago(1001))), "failed_remove: remove f1"),
            (Scene::new().serving(new().running(90, 90)).failed(1, down("f1")), AT_REST),
            (Scene::new().serving(new().unhealthy(90, 90)).failed(1, down("f1").change(|m| m.created_at = ago(1001))), AT_REST),
            // A restored container is not a later release.
            (failed(down("f1").change(|m| m.created_at = ago(90_000))), AT_REST),
            (reconfigured().former(kept().replaces("old")), AT_REST),
            (failed(down("f1")).former(kept()), "former_remove: remove former"),
            (Scene::new().serving(old().unhealthy(90, 90)).former(kept()), AT_REST),
            (Scene::new().former(kept()), "former_remove: remove former"),
            (Scene::new().upgrader("old").serving(old()).helper(true, helper().running(90, 80)), "helper_remove: stop helper within 1h"),
            (Scene::new().upgrader("old").serving(old()).helper(true, helper().running(90, 80).exited(5)), "helper_remove: remove helper"),
            (Scene::new().upgrader("old").serving(old()).helper(true, helper().running(90, 80).state(RunState::Removing)), "helper_remove: wait 1s, stopping"),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn old_containers_are_stopped_once_the_successor_works() {
    let works = || Scene::new().serving(new().running(90, 90));
    let by_compose = || works().with(|r| r.owner.compose_grace = TimeDelta::seconds(15));
    let fails = |seconds| Scene::new().serving(new().unhealthy(1000, seconds));
    let ended = |seconds| Scene::new().serving(new().running(1000, 0).exited(seconds));
    let stopped = || Scene::new().serving(new().running(1000, 0).stopped(900));
    let vanishing = || old().vanishing();
    let stuck = || old().state(RunState::Removing).change(|m| m.life.finished_at = Some(ago(601)));
    let unhealthy = "reject new as d.failed-1: not healthy for 10m after it had taken over: /api/health says unhealthy";
    let exited = "reject new as d.failed-1: exited with code 3 after it had taken over";
    let row = |row: &str, words: &str| -> &'static str { format!("{row}: {words}").leak() };
    table(
        "Old containers behind the one in service",
        vec![
            (works().retired(old()), "retired_drain: rename old to d.draining-now"),
            (works().retired(old().state(RunState::Restarting)), "draining_stop: stop old within 1h"),
            (works().draining(1, old()), "draining_stop: stop old within 1h"),
            // Another process may have asked it: Docker's timer continues, and this request is harmless.
            (works().draining(3000, old()), "draining_stop: stop old within 1h"),
            (works().draining(90, old().asked_to_stop(90)), "draining_stop: wait 9s, draining"),
            (works().draining(9000, old().asked_to_stop(STOP_TIMEOUT + 1)), "draining_stop: stop old within 0s"),
            (fails(9).draining(90, old().asked_to_stop(90)), "draining_stop: wait 9s, draining"),
            // Docker has restarted it, and its name shows that this life was not asked to stop.
            (works().draining(90, old().running(5, 3)), "draining_stop: rename old to d.draining-now"),
            (works().draining(90, old().exited(5)), "draining_remove: remove old"),
            (by_compose().draining(90, old().exited(5)), "draining_remove: wait 10s, stopping"),
            (by_compose().draining(90, old().exited(15)), "draining_remove: remove old"),
            (works().retired(old().exited(5)), "retired_drain: rename old to d.draining-now"),
            (works().draining(90, old().id("stranger").exited(5)), "draining_remove: remove stranger"),
            (works().draining(90, old().state(RunState::Removing)), "old_removing: wait 1s, stopping"),
            (works().draining(90, stuck()), AT_REST),
            (fails(9).draining(90, old()), "old_wait: wait 5s, successor_unhealthy"),
            (fails(9).retired(old()), "old_wait: wait 5s, successor_unhealthy"),
            (ended(5).retired(old()), "old_wait: wait 5s, successor_unhealthy"),
            // The successor gives the name back if the old container can take it.
            (ended(10).retired(old()), row("successor_reject", exited)),
            (ended(10).draining(90, old().exited(40)), row("successor_reject", exited)),
            (fails(DEADLINE).retired(old()), row("successor_reject", unhealthy)),
            (fails(DEADLINE).draining(90, old().exited(40)), row("successor_reject", unhealthy)),
            (fails(DEADLINE).draining(90, vanishing()), row("successor_reject", unhealthy)),
            (ended(10).draining(90, old()), row("successor_reject", exited)),
            // Its owner stopped it. The drain ends, and nothing is started until one of the two runs again.
            (stopped().draining(90, old().asked_to_stop(90)), "draining_stop: wait 9s, draining"),
            (stopped().draining(90, old().exited(40)), "blocked: rest, not_running"),
            (stopped().draining(90, old()), "blocked: rest, not_running"),
            (stopped().retired(old()), "blocked: rest, not_running"),
            // A container that outlives its time to stop was never asked.
            (fails(DEADLINE).draining(3600, old()).host_network(), "old_wait: wait 5s, successor_unhealthy"),
            (fails(DEADLINE).draining(3601, old()).host_network(), row("successor_reject", unhealthy)),
            (fails(DEADLINE - 1).retired(old()), "old_wait: wait 5s, successor_unhealthy"),
            // A copy can serve beside a container that finishes its tasks, unless two cannot run at once.
            (fails(DEADLINE).draining(90, old()), row("successor_reject", unhealthy)),
            (fails(DEADLINE).draining(90, old()).host_network(), "old_wait: wait 5s, successor_unhealthy"),
            // An old container that does not work either would not help.
            (fails(DEADLINE).retired(old().unhealthy(900, 9)), "old_wait: wait 5s, successor_unhealthy"),
            (fails(DEADLINE).retired(old().id("stranger")), "old_wait: wait 5s, successor_unhealthy"),
            // A copy that was never started is started next, whatever the old container does.
            (Scene::new().serving(copy()).draining(90, old().exited(40)), "copy_start: start copy"),
            (Scene::new().serving(copy()).draining(90, old().asked_to_stop(40)), "copy_start: start copy"),
            // Only the copy is left.
            (Scene::new().serving(copy().unhealthy(900, 900)).draining(990, old().exited(950)), "old_wait: wait 5s, successor_unhealthy"),
            (Scene::new().renamed(new().running(90, 90)).draining(1, old()), "draining_stop: stop old within 1h"),
        ],
    );
}

/// Images that another delegate needs, or another container runs, stay.
#[test]
#[rustfmt::skip]
fn outdated_images_go_with_the_old_container() {
    let behind = |outdated: &[&str]| {
        let outdated = outdated.iter().map(|image| image_id(image)).collect();
        let serving = new().running(90, 90).change(|m| m.outdated_images = outdated);
        Scene::new().serving(serving).draining(90, old().exited(5))
    };
    let kept = behind(&[V3]).with(|rollout| rollout.retained_images.push(image_id(V3)));
    check(vec![
        (behind(&[V1, V3]), "draining_remove: remove the image sha256:harness/delegate:26.03.1"),
        (behind(&[V1]), "draining_remove: remove old"),
        (behind(&[]), "draining_remove: remove old"),
        (kept, "draining_remove: remove old"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_drain_does_not_block_the_next_replacement() {
    let base = Scene::new()
        .serving(new().running(90, 90))
        .draining(20, old().asked_to_stop(20));
    check(vec![
        (base.clone().pulled(V3), "create: create release 2 from new with harness/delegate:26.03.1"),
        (base.clone().keep(Reason::UpToDate { image: V2.to_owned() }), "draining_stop: wait 2s, draining"),
        // The earliest wait decides when, and the replacement why.
        (base.candidate(new().id("next").replaces("new").running(10, 5)), "proving: wait 2s, proving"),
    ]);
}
