//! Restart policies, restarts by request, crashes and exits, and containers with `--rm`.

use std::time::Duration;

use chrono::{DateTime, Utc};
use delegate_upgrader::container::{ContainerId, Inspected, RunState};
use delegate_upgrader::engine::Engine;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::lab::Lab;
use super::steps::{
    LONG, SOON, created, ended, seconds, started, started_of, state_of, until, until_exited, until_gone,
};
use crate::twin::Behaviour;

async fn set_policy<L: Lab>(lab: &L, id: &ContainerId, policy: &Value) {
    let set = lab.engine().set_restart_policy(id, policy);
    set.await.expect("update");
}

/// The body of a container of an image that behaves so, with this in its `HostConfig`.
async fn body_with<L: Lab>(lab: &L, behaviour: Behaviour, field: &str, value: Value) -> Value {
    let mut body = lab.body(&lab.image(behaviour).await);
    body["HostConfig"][field] = value;
    body
}

fn always() -> Value {
    json!({ "Name": "always" })
}

pub async fn a_restart_policy_is_read_back<L: Lab>(lab: &L) {
    let id = started_of(lab, "policy", Behaviour::default()).await;
    for policy in [
        json!({ "Name": "always", "MaximumRetryCount": 0 }),
        json!({ "Name": "on-failure", "MaximumRetryCount": 3 }),
        json!({ "Name": "unless-stopped", "MaximumRetryCount": 0 }),
        json!({ "Name": "no", "MaximumRetryCount": 0 }),
    ] {
        set_policy(lab, &id, &policy).await;
        let seen = lab.engine().inspect(&id).await.expect("inspect");
        assert_eq!(seen.document()["HostConfig"]["RestartPolicy"], policy);
    }
    set_policy(lab, &id, &always()).await;
    set_policy(lab, &id, &json!({ "Name": "", "MaximumRetryCount": 0 })).await;
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(seen.restart_policy_text(), "no");
}

pub async fn an_auto_remove_container_vanishes_when_it_stops<L: Lab>(lab: &L) {
    let body = body_with(lab, Behaviour::default(), "AutoRemove", json!(true)).await;
    let id = started(lab, "rm", &body).await;
    assert!(lab.engine().inspect(&id).await.expect("inspect").auto_remove());
    sleep(seconds(1)).await;
    lab.engine().stop(&id, seconds(10)).await.expect("stop");
    until_gone(lab, &id).await;
    // Its name is free again.
    created(lab, "rm", &body).await;
}

pub async fn an_auto_remove_container_has_no_restart_policy<L: Lab>(lab: &L) {
    let mut body = body_with(lab, Behaviour::default(), "AutoRemove", json!(true)).await;
    let id = created(lab, "rm-policy", &body).await;
    let policy = always();
    let set = lab.engine().set_restart_policy(&id, &policy);
    set.await.expect_err("refused");
    body["HostConfig"]["RestartPolicy"] = policy;
    let name = lab.name("rm-always");
    let made = lab.engine().create(&name, None, &body);
    made.await.expect_err("refused");
}

pub async fn an_auto_remove_container_that_cannot_start_vanishes<L: Lab>(lab: &L) {
    let broken = Behaviour {
        start_error: Some("no such program".to_owned()),
        ..Behaviour::default()
    };
    let body = body_with(lab, broken, "AutoRemove", json!(true)).await;
    let id = created(lab, "rm-broken", &body).await;
    let start = lab.engine().start(&id);
    start.await.expect_err("there is no such program");
    until_gone(lab, &id).await;
}

pub async fn a_crash_shows_in_the_restart_count<L: Lab>(lab: &L) {
    let crashes = Behaviour::exits(Duration::from_millis(300), 7);
    let body = body_with(lab, crashes, "RestartPolicy", always()).await;
    let id = started(lab, "crash", &body).await;
    until(lab, &id, "restarted", |seen| seen.restart_count() >= 1).await;
    until(lab, &id, "restarted again", |seen| seen.restart_count() >= 3).await;
    until(lab, &id, "between two lives", |seen| {
        seen.state() == RunState::Restarting
    })
    .await;
    let count = ended(lab, &id, seconds(5)).await.restart_count();
    sleep(seconds(3)).await;
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(
        (seen.state(), seen.restart_count()),
        (RunState::Exited, count),
        "a stop ends the restarts"
    );
    lab.engine().start(&id).await.expect("start");
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert!(
        seen.finished_at().is_some(),
        "a life after another one shows when that ended"
    );
}

pub async fn on_failure_retries_are_counted_and_limited<L: Lab>(lab: &L) {
    let policy = json!({ "Name": "on-failure", "MaximumRetryCount": 2 });
    let fails = Behaviour::exits(Duration::from_millis(100), 3);
    let body = body_with(lab, fails, "RestartPolicy", policy).await;
    let id = started(lab, "retry", &body).await;
    let exited = until(lab, &id, "given up", |seen| {
        seen.state() == RunState::Exited && seen.restart_count() == 2
    });
    assert_eq!(exited.await.exit_code(), 3);
}

pub async fn removing_the_restart_policy_keeps_a_crashed_container_down<L: Lab>(lab: &L) {
    let body = body_with(lab, Behaviour::exits(seconds(2), 1), "RestartPolicy", always()).await;
    let id = started(lab, "tamed", &body).await;
    set_policy(lab, &id, &json!({ "Name": "no" })).await;
    until_exited(lab, &id).await;
    sleep(seconds(1)).await;
    assert_eq!(state_of(lab, &id).await, RunState::Exited);
}

pub async fn an_exit_shows_its_code<L: Lab>(lab: &L) {
    let id = started_of(lab, "exit", Behaviour::exits(Duration::from_millis(200), 42)).await;
    let exited = until_exited(lab, &id).await;
    assert_eq!((exited.exit_code(), exited.restart_count()), (42, 0));
    assert!(exited.started_at() < exited.finished_at());
}

async fn life_of<L: Lab>(lab: &L, id: &ContainerId) -> Option<DateTime<Utc>> {
    lab.engine().inspect(id).await.expect("inspect").started_at()
}

async fn until_another_life<L: Lab>(lab: &L, id: &ContainerId, first: Option<DateTime<Utc>>) -> Inspected {
    let is_another = |seen: &Inspected| seen.state() == RunState::Running && seen.started_at() > first;
    until(lab, id, "in another life", is_another).await
}

pub async fn a_restart_lets_the_container_drain_and_starts_it_again<L: Lab>(lab: &L) {
    let id = started_of(lab, "again", Behaviour::drains(seconds(2))).await;
    let (first, begun) = (life_of(lab, &id).await, Instant::now());
    lab.engine().restart(&id, LONG).await.expect("restart");
    let seen = until_another_life(lab, &id, first).await;
    assert!(begun.elapsed() >= seconds(2), "after {:?}", begun.elapsed());
    assert_eq!(
        seen.restart_count(),
        0,
        "the engine counts only what its policy does"
    );
}

pub async fn restart_continues_after_its_caller_disconnects<L: Lab>(lab: &L) {
    let id = started_of(lab, "abandoned", Behaviour::drains(seconds(10))).await;
    let (first, begun) = (life_of(lab, &id).await, Instant::now());
    let _abandoned = timeout(SOON, lab.engine().restart(&id, LONG)).await;
    sleep(seconds(2)).await;
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(
        (seen.state(), seen.started_at()),
        (RunState::Running, first),
        "the caller's leaving cut the drain short"
    );
    until_another_life(lab, &id, first).await;
    assert!(begun.elapsed() >= seconds(10), "after {:?}", begun.elapsed());
}

pub async fn a_restarts_grace_period_ends_after_its_caller_disconnects<L: Lab>(lab: &L) {
    let id = started_of(lab, "deaf-again", Behaviour::ignores_stop()).await;
    let first = life_of(lab, &id).await;
    let _abandoned = timeout(SOON, lab.engine().restart(&id, seconds(3))).await;
    until_another_life(lab, &id, first).await;
}

pub async fn a_restart_returns_long_before_a_long_drain_ends<L: Lab>(lab: &L) {
    let id = started_of(lab, "long-again", Behaviour::drains(seconds(20))).await;
    let (first, begun) = (life_of(lab, &id).await, Instant::now());
    lab.engine().restart(&id, LONG).await.expect("restart");
    assert!(begun.elapsed() < seconds(10), "it took {:?}", begun.elapsed());
    assert_eq!(life_of(lab, &id).await, first);
}

pub async fn a_restart_keeps_an_auto_remove_container<L: Lab>(lab: &L) {
    let body = body_with(lab, Behaviour::default(), "AutoRemove", json!(true)).await;
    let id = started(lab, "rm-again", &body).await;
    sleep(seconds(1)).await;
    let first = life_of(lab, &id).await;
    lab.engine().restart(&id, seconds(10)).await.expect("restart");
    assert!(until_another_life(lab, &id, first).await.auto_remove());
}

pub async fn a_restart_of_a_stopped_container_starts_it<L: Lab>(lab: &L) {
    let id = started_of(lab, "stopped-again", Behaviour::default()).await;
    let first = life_of(lab, &id).await;
    ended(lab, &id, seconds(10)).await;
    lab.engine().restart(&id, seconds(10)).await.expect("restart");
    until_another_life(lab, &id, first).await;
}
