//! The rows that come before all others.

use chrono::TimeDelta;
use delegate_upgrader::rollout::Member;
use delegate_upgrader::rollout::reason::{Reason, Retry};

use super::super::scene::{Change, HEALTHY_TIME, Scene, V2, ago, copy, new, old};
use super::table;
use super::upgrader::retired;

/// This call has failed this many times in a row, the last time this many seconds ago.
fn tried(scene: Scene, key: &str, attempts: u32, seconds: i64) -> Scene {
    scene.knowing(|facts| {
        for attempt in (0..attempts).rev() {
            let (step, problem) = ("start d".to_owned(), Some("timed out".to_owned()));
            let at = ago(seconds) - TimeDelta::minutes(attempt.into());
            facts.backoffs.note(key.to_owned(), step, problem, false, at);
        }
    })
}

fn failed_calls(attempts: u32, seconds: i64) -> Scene {
    tried(
        Scene::new().serving(old()).pulled(V2),
        "create ",
        attempts,
        seconds,
    )
}

#[test]
#[rustfmt::skip]
fn guards_decide_before_anything_else() {
    let unread = |scene: Scene| scene.with(|rollout| rollout.inspect_error = Some("no answer".to_owned()));
    let health_only = |scene: Scene| scene.policy(|policy| policy.health_only = true);
    let stop_first = |new| health_only(Scene::new().draining(90, old().exited(30)).candidate(new).host_network());
    let left_by_compose = |member: Member| {
        let scene = Scene::new().serving(member).pulled(V2);
        scene.with(|rollout| rollout.name = "0123456789ab_d".to_owned())
    };
    let busy = || Scene::new().serving(old()).candidate(new()).failed(1, new().unhealthy(90, 90));
    table(
        "Guards",
        vec![
            (failed_calls(1, 0), "call_failed: wait 2s, engine_error"),
            (failed_calls(9, 0), "call_failed: wait 1m, engine_error"),
            (failed_calls(10, 0), "call_failed: rest, engine_error"),
            (failed_calls(10, 60), "create: create release 1 from old with harness/delegate:26.02.1"),
            // A failure of another call does not matter.
            (tried(Scene::new().serving(old()).pulled(V2), "stop other", 1, 0), "create: create release 1 from old with harness/delegate:26.02.1"),
            (failed_calls(1, 0).with(|r| r.owner.opted_out = Some("a label")), "left_alone: rest, opted_out"),
            (unread(busy()), "not_inspected: wait 1s, engine_error"),
            (tried(unread(busy()), "inspect", 1, 0), "not_inspected: wait 2s, engine_error"),
            // The next observation ends the pause, not the clock.
            (tried(unread(busy()), "inspect", 10, 65), "not_inspected: rest, engine_error"),
            (busy().policy(|policy| policy.health_only = true), "health_only: rest, health_only"),
            // A step that leaves the delegate without a running container is finished, or taken back.
            (stop_first(new()), "free_start: start new"),
            (stop_first(new().unhealthy(700, 700)), "free_reject: reject new as d.failed-1: not healthy for 1m without a break within 10m: /api/health says unhealthy"),
            (health_only(Scene::new().draining(90, old().exited(30))), "restore_start: start old"),
            (health_only(Scene::new().serving(copy())), "copy_start: start copy"),
            (health_only(Scene::new().serving(old().exited(30))), "health_only: rest, health_only"),
            (health_only(Scene::new().serving(new().running(90, 90)).draining(90, old().exited(30))), "health_only: rest, health_only"),
            (busy().with(|r| r.owner.opted_out = Some("a label")), "left_alone: rest, opted_out"),
            (busy().with(|r| r.owner.task_of = Some("a service".to_owned())), "left_alone: rest, task_of_service"),
            (left_by_compose(old().exited(119)), "compose_replaces: rest, replaced_by_compose"),
            (left_by_compose(new().change(|m| m.created_at = ago(119))), "compose_replaces: rest, replaced_by_compose"),
            // Compose has failed by then, and the container that it left is the delegate.
            (left_by_compose(old().running(120, 120)), "create: create release 1 from old with harness/delegate:26.02.1"),
            (retired("new", 5, new().running(90, HEALTHY_TIME)), "take_own_name: rename new to d"),
            (Scene::new().upgrader("new").candidate(new().running(3, 0)), "take_own_name: rename new to d"),
            (Scene::new().upgrader("new").serving(old().exited(15)).candidate(new().running(90, HEALTHY_TIME)), "take_own_name: rename old to d.retired"),
            (Scene::new().upgrader("new").serving(old().exited(14)).candidate(new().running(90, HEALTHY_TIME)), "take_own_name: wait 500ms, interrupted"),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn health_only_names_the_published_image() {
    let words = |scene: Scene| scene.policy(|policy| policy.health_only = true).reason().to_string();
    let only = "health checks only (DISABLE_AUTO_UPGRADE=true)";
    let serving = || Scene::new().serving(old());
    assert_eq!(words(serving().pulled(V2)), format!("{V2} is published; {only}"));
    let image = || V2.to_owned();
    for (reason, expected) in [
        (Reason::UpToDate { image: image() }, only.to_owned()),
        (Reason::NotPinned { image: image() }, format!("{V2} is published; {only}")),
        (
            Reason::DigestUnknown { image: image(), problem: "timed out".to_owned(), retry: Retry::Never },
            format!("{only}; cannot resolve the tag {V2} at the registry: timed out"),
        ),
    ] {
        assert_eq!(words(serving().keep(reason)), expected);
    }
}
