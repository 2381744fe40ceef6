//! Starts, stops and their grace, and removals.

use std::time::Duration;

use delegate_upgrader::container::RunState;
use delegate_upgrader::document::TRIAL_COMMAND;
use delegate_upgrader::engine::{Engine, EngineError};
use delegate_upgrader::health;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::lab::Lab;
use super::steps::{
    LONG, SOON, assert_conflict, assert_not_found, created, created_of, ended, seconds, started, started_of,
    state_of, until_exited,
};
use crate::twin::{Behaviour, OperatorAction};

pub async fn second_start_is_not_an_error<L: Lab>(lab: &L) {
    let id = started_of(lab, "twice", Behaviour::default()).await;
    let first = lab.engine().inspect(&id).await.expect("inspect").started_at();
    lab.engine().start(&id).await.expect("start again");
    let second = lab.engine().inspect(&id).await.expect("inspect").started_at();
    assert!(first.is_some());
    assert_eq!(first, second, "the same life goes on");
}

/// Some engines continue a start whose caller went away; others cancel it, and record the cancellation as an error.
pub async fn abandoned_start_can_be_repeated<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    for milliseconds in [1, 5, 10, 20, 50] {
        let id = created(lab, &format!("abandoned-{milliseconds}"), &lab.body(&image)).await;
        let _abandoned = timeout(Duration::from_millis(milliseconds), lab.engine().start(&id)).await;
        sleep(seconds(1)).await;
        let seen = lab.engine().inspect(&id).await.expect("inspect");
        // Since version 26, engines record in the state that the start was cancelled, which does not cause an end.
        let ending = format!("exited with code {}", seen.exit_code());
        assert_eq!(health::ending(&seen), ending, "after {milliseconds} ms");
        let states = [RunState::Created, RunState::Running];
        assert!(states.contains(&seen.state()), "{:?}", seen.state());
        lab.engine().start(&id).await.expect("start again");
        assert_eq!(state_of(lab, &id).await, RunState::Running);
    }
}

pub async fn a_container_that_cannot_start_stays_created<L: Lab>(lab: &L) {
    let broken = Behaviour {
        start_error: Some("no such program".to_owned()),
        ..Behaviour::default()
    };
    let id = created_of(lab, "broken", broken).await;
    lab.engine()
        .start(&id)
        .await
        .expect_err("there is no such program");
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(seen.state(), RunState::Created);
    assert!(!seen.error().is_empty(), "the engine tells why");
    assert_ne!(seen.exit_code(), 0);
}

/// This makes a start with such a command show that everything else is there.
pub async fn a_command_that_the_image_lacks_is_named<L: Lab>(lab: &L) {
    let mut body = lab.body(&lab.image(Behaviour::default()).await);
    body["Entrypoint"] = json!([TRIAL_COMMAND]);
    let id = created(lab, "lacks", &body).await;
    let error = lab.engine().start(&id).await.expect_err("refused");
    assert!(error.is_command_missing(TRIAL_COMMAND), "{error}");
    assert_eq!(state_of(lab, &id).await, RunState::Created);
}

/// A bound file was renamed, or the runtime was updated: a running container continues until its life ends. Its policy
/// does not bring it back, and the exit code is that life's. (A missing source of a bind among `Mounts` is refused before
/// the start, which leaves no error.)
pub async fn a_container_that_can_no_longer_start_stays_exited_and_says_why<L: Lab>(lab: &L) {
    let mut ids = Vec::new();
    for (name, behaviour) in [
        ("stopped", Behaviour::default()),
        ("ends", Behaviour::exits(seconds(4), 3)),
        ("runs", Behaviour::default()),
    ] {
        let mut body = lab.body(&lab.image(behaviour).await);
        body["HostConfig"]["Binds"] = lab.fragile_binds();
        body["HostConfig"]["RestartPolicy"] = json!({ "Name": "always" });
        let id = started(lab, name, &body).await;
        ids.push(id);
    }
    sleep(seconds(1)).await;
    lab.take_away();
    let [stopped, ends, runs] = ids.try_into().expect("three containers");
    ended(lab, &stopped, seconds(10)).await;
    for _ in 0..2 {
        let refused = lab.engine().start(&stopped).await;
        assert!(matches!(refused, Err(EngineError::Refused { .. })), "{refused:?}");
        let seen = lab.engine().inspect(&stopped).await.expect("inspect");
        assert_eq!(seen.state(), RunState::Exited);
        assert!(!seen.error().is_empty(), "the engine tells why");
    }
    let seen = until_exited(lab, &ends).await;
    assert!(!seen.error().is_empty(), "the engine tells why");
    assert_eq!(seen.exit_code(), 3);
    assert_eq!(state_of(lab, &runs).await, RunState::Running);
}

pub async fn a_prune_removes_all_stopped_containers<L: Lab>(lab: &L) {
    let fresh = created_of(lab, "fresh", Behaviour::default()).await;
    let running = started_of(lab, "running", Behaviour::default()).await;
    let stopped = started_of(lab, "stopped", Behaviour::default()).await;
    ended(lab, &stopped, seconds(10)).await;
    lab.by_hand(OperatorAction::PruneContainers).await.expect("prune");
    for gone in [fresh, stopped] {
        assert_not_found(&lab.engine().inspect(&gone).await);
    }
    assert_eq!(state_of(lab, &running).await, RunState::Running);
}

pub async fn stop_is_final_and_can_be_repeated<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let mut body = lab.body(&image);
    body["HostConfig"]["RestartPolicy"] = json!({ "Name": "always" });
    let id = started(lab, "stopped", &body).await;
    sleep(seconds(1)).await;
    assert_eq!(ended(lab, &id, seconds(10)).await.exit_code(), 0);
    lab.engine().stop(&id, seconds(10)).await.expect("stop again");
    sleep(seconds(2)).await;
    assert_eq!(
        state_of(lab, &id).await,
        RunState::Exited,
        "its restart policy must not bring it back"
    );
}

pub async fn stop_of_a_created_container_is_not_an_error<L: Lab>(lab: &L) {
    let id = created_of(lab, "created", Behaviour::default()).await;
    lab.engine().stop(&id, seconds(10)).await.expect("stop");
    assert_eq!(state_of(lab, &id).await, RunState::Created);
}

pub async fn a_stopped_container_starts_again<L: Lab>(lab: &L) {
    let id = started_of(lab, "again", Behaviour::default()).await;
    let first = lab.engine().inspect(&id).await.expect("inspect").started_at();
    ended(lab, &id, seconds(10)).await;
    lab.engine().start(&id).await.expect("start");
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(seen.state(), RunState::Running);
    assert!(seen.started_at() > first, "a new life has a new beginning");
}

pub async fn a_stop_lets_the_container_drain<L: Lab>(lab: &L) {
    let id = started_of(lab, "drain", Behaviour::drains(seconds(2))).await;
    let begun = Instant::now();
    let exited = ended(lab, &id, LONG).await;
    assert_eq!(exited.exit_code(), 0, "it finished by itself");
    assert!(begun.elapsed() >= seconds(2), "after {:?}", begun.elapsed());
}

pub async fn a_stop_kills_after_the_grace_period<L: Lab>(lab: &L) {
    let id = started_of(lab, "deaf", Behaviour::ignores_stop()).await;
    let begun = Instant::now();
    let exited = ended(lab, &id, seconds(2)).await;
    assert_eq!(exited.exit_code(), 137);
    assert!(
        begun.elapsed() >= Duration::from_millis(1900),
        "after {:?}",
        begun.elapsed()
    );
}

pub async fn a_stop_without_a_grace_period_kills_at_once<L: Lab>(lab: &L) {
    let id = started_of(lab, "now", Behaviour::ignores_stop()).await;
    assert_eq!(ended(lab, &id, Duration::ZERO).await.exit_code(), 137);
}

pub async fn a_shorter_stop_overrides_a_longer_one<L: Lab>(lab: &L) {
    let id = started_of(lab, "shorter", Behaviour::ignores_stop()).await;
    let _abandoned = timeout(SOON, lab.engine().stop(&id, LONG)).await;
    assert_eq!(ended(lab, &id, seconds(1)).await.exit_code(), 137);
}

pub async fn stop_continues_after_its_caller_disconnects<L: Lab>(lab: &L) {
    let id = started_of(lab, "abandoned", Behaviour::drains(seconds(10))).await;
    let _abandoned = timeout(SOON, lab.engine().stop(&id, LONG)).await;
    assert_eq!(
        state_of(lab, &id).await,
        RunState::Running,
        "the caller's leaving cut the drain short"
    );
    assert_eq!(until_exited(lab, &id).await.exit_code(), 0);
}

pub async fn a_grace_period_ends_after_its_caller_disconnects<L: Lab>(lab: &L) {
    let id = started_of(lab, "deaf-abandoned", Behaviour::ignores_stop()).await;
    let _abandoned = timeout(SOON, lab.engine().stop(&id, seconds(3))).await;
    assert_eq!(until_exited(lab, &id).await.exit_code(), 137);
}

pub async fn a_stop_returns_long_before_a_long_drain_ends<L: Lab>(lab: &L) {
    let id = started_of(lab, "long", Behaviour::drains(seconds(20))).await;
    let begun = Instant::now();
    lab.engine().stop(&id, LONG).await.expect("stop");
    assert!(begun.elapsed() < seconds(10), "it took {:?}", begun.elapsed());
    assert_eq!(state_of(lab, &id).await, RunState::Running);
}

pub async fn a_running_container_is_not_removed<L: Lab>(lab: &L) {
    let id = started_of(lab, "busy", Behaviour::default()).await;
    assert_conflict(&lab.engine().remove(&id).await);
    assert_eq!(state_of(lab, &id).await, RunState::Running);
}

pub async fn removal_can_be_repeated<L: Lab>(lab: &L) {
    let id = created_of(lab, "gone", Behaviour::default()).await;
    lab.engine().remove(&id).await.expect("remove");
    assert_not_found(&lab.engine().inspect(&id).await);
    lab.engine().remove(&id).await.expect("remove again");
}
