//! The last moment of a period, if no table has it.

use chrono::TimeDelta;
use delegate_upgrader::container::RunState;
use delegate_upgrader::rollout::{Decided, Row};

use super::scene::{Change, STOP_TIMEOUT, Scene, V2, ago, check, new, now, old};

#[test]
fn kills_a_container_half_a_second_after_its_deadline() {
    let asked = |milliseconds| {
        let asked_at = ago(STOP_TIMEOUT) - TimeDelta::milliseconds(milliseconds);
        let old = old().change(|m| m.history.stop_requested_at = Some(asked_at));
        Scene::new().serving(new().running(90, 90)).draining(4000, old)
    };
    check(vec![
        (asked(-2500), "draining_stop: wait 3s, draining"),
        (asked(499), "draining_stop: wait 1ms, draining"),
        (asked(500), "draining_stop: stop old within 0s"),
    ]);
}

#[test]
fn checks_a_drain_often_at_first() {
    let asked = |seconds| {
        let draining = old().asked_to_stop(seconds);
        Scene::new()
            .serving(new().running(90, 90))
            .draining(7200, draining)
    };
    check(vec![
        (asked(0), "draining_stop: wait 500ms, draining"),
        (asked(20), "draining_stop: wait 2s, draining"),
        (asked(1000), "draining_stop: wait 10s, draining"),
    ]);
}

/// A short UPGRADE_HEALTHY_TIME is checked a few times, but no engine is asked more often than four times a second.
#[test]
fn checks_a_candidate_several_times_during_its_healthy_time() {
    let proving = |seconds: u64| {
        let scene = Scene::new().serving(old()).candidate(new().running(90, 0));
        scene.policy(|policy| policy.healthy_time = std::time::Duration::from_secs(seconds))
    };
    check(vec![
        (proving(1), "proving: wait 250ms, proving"),
        (proving(6), "proving: wait 1s, proving"),
        (proving(60), "proving: wait 5s, proving"),
    ]);
}

/// By a clock that was set back, the current second may be before the life that must end.
#[test]
fn a_draining_name_never_predates_the_life_that_must_end() {
    let since = |started: TimeDelta, nanoseconds: i64| {
        let mut scene = Scene::new()
            .serving(new().running(90, 90))
            .retired(old().change(|m| m.life.started_at = Some(now() + started)));
        scene.now += TimeDelta::nanoseconds(nanoseconds);
        scene.next()
    };
    let day = TimeDelta::days(-1);
    assert_eq!(since(day, 0), "retired_drain: rename old to d.draining-now");
    assert_eq!(since(day, 1), "retired_drain: rename old to d.draining--1");
    assert_eq!(
        since(TimeDelta::seconds(9), 0),
        "retired_drain: rename old to d.draining--9"
    );
}

#[test]
fn uses_next_second_for_a_taken_name() {
    let scene = Scene::new().serving(new().running(90, 90)).retired(old());
    let taken = scene.clone().draining(0, old().id("earlier").asked_to_stop(1));
    let foreign = scene.with(|r| r.taken_names.push(format!("d.draining-{}", now().timestamp())));
    let expected = "retired_drain: rename old to d.draining--1";
    check(vec![(taken, expected), (foreign, expected)]);
}

#[test]
fn waits_ten_minutes_for_a_removal() {
    let removing = |seconds| {
        let candidate = new()
            .running(90, 3)
            .state(RunState::Removing)
            .change(|m| m.life.finished_at = Some(ago(seconds)));
        Scene::new().serving(old()).candidate(candidate).pulled(V2)
    };
    let of = |scene: &Scene| {
        let Decided { row, decision } = scene.decided();
        (row, decision.kind())
    };
    assert_eq!(of(&removing(600)), (Row::Proving, "wait"));
    assert_eq!(of(&removing(601)), (Row::CandidateReject, "reject"));
    check(vec![(
        removing(5).pulled("harness/delegate:26.03.1"),
        "unwanted: wait 1s, stopping",
    )]);
}
