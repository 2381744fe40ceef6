//! The rules of an engine that the rollout rests on, each a check that runs against the twin and a real engine.

pub mod lab;
mod real;
mod tar;

use std::time::Duration;

use delegate_upgrader::container::{ContainerId, ImageId};
use delegate_upgrader::container::{HealthcheckStatus, Inspected, RunState};
use delegate_upgrader::engine::{Engine, EngineError};
use delegate_upgrader::image::ImageReference;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::twin::Behaviour;
use lab::Lab;

/// Passes the names of all rules to a macro, which makes a test of each: they are listed once, and tried on both engines.
#[macro_export]
macro_rules! each_rule {
    ($tests:ident) => {
        $tests! {
            the_engine_tells_its_version,
            the_engine_tells_where_it_keeps_images_and_how_big_they_are,
            a_name_is_a_mutex,
            a_rename_goes_by_id_and_keeps_the_id,
            a_rename_to_a_taken_name_is_a_conflict,
            a_rename_frees_the_old_name,
            a_rename_to_its_own_name_is_refused_and_no_conflict,
            a_second_start_is_no_error,
            a_start_whose_caller_went_away_is_no_refusal_and_can_be_repeated,
            a_stop_is_final_and_a_second_one_no_error,
            a_stop_of_a_created_container_is_no_error,
            a_stopped_container_starts_again,
            a_stop_lets_the_container_drain,
            a_stop_kills_after_the_grace,
            a_stop_without_grace_kills_at_once,
            a_shorter_stop_overrides_a_longer_one,
            a_stop_goes_on_after_its_caller_went_away,
            the_grace_ends_after_its_caller_went_away,
            a_stop_returns_long_before_a_long_drain_ends,
            a_running_container_is_not_removed,
            a_removed_container_is_gone_and_removing_it_again_no_error,
            what_is_not_there_is_not_found,
            a_restart_policy_is_read_back,
            an_auto_remove_container_vanishes_when_it_stops,
            an_auto_remove_container_has_no_restart_policy,
            an_auto_remove_container_that_cannot_start_vanishes,
            a_container_that_cannot_start_stays_created,
            a_crash_is_told_by_restarts,
            retries_on_failure_are_counted_and_end,
            a_policy_taken_away_keeps_a_crash_down,
            an_exit_is_told_with_its_code,
            a_create_from_an_unknown_image_is_not_found,
            an_invalid_name_is_refused,
            an_image_in_use_is_not_removed,
            a_failed_pull_is_an_error_and_leaves_the_image,
            an_image_is_found_by_reference_and_by_id,
            a_moved_tag_leaves_the_old_image_to_its_containers,
            the_list_shows_stopped_and_created_ones_too,
            a_second_connect_is_no_error,
            what_was_copied_in_before_the_start_is_known,
            a_link_is_by_the_container_and_needs_it_running,
            an_unknown_network_is_found_out_at_the_start,
            env_and_labels_are_read_back_with_the_image_s_defaults,
            a_running_container_has_an_address,
            a_taken_host_port_is_found_out_at_the_start,
            a_healthcheck_gives_the_engine_s_verdict,
            the_results_of_a_healthcheck_outlive_the_life_they_are_of,
            the_last_lines_of_both_streams_are_read_back,
            the_log_of_a_terminal_is_read_back,
            a_log_that_cannot_be_read_back_is_empty,
        }
    };
}

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// A grace that no check waits for.
const LONG: Duration = Duration::from_secs(600);

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// No engine gives this id away.
fn nobody() -> ContainerId {
    ContainerId::new("0123456789abcdef".repeat(4))
}

async fn created<L: Lab>(lab: &L, name: &str, body: &Value) -> ContainerId {
    lab.engine()
        .create(&lab.name(name), None, body)
        .await
        .expect("create")
}

async fn created_of<L: Lab>(lab: &L, name: &str, behaviour: Behaviour) -> ContainerId {
    let image = lab.image(behaviour).await;
    created(lab, name, &lab.body(&image)).await
}

/// A container that runs and is past its first moments: a process that has not set its traps yet does not drain.
async fn started_of<L: Lab>(lab: &L, name: &str, behaviour: Behaviour) -> ContainerId {
    let id = created_of(lab, name, behaviour).await;
    lab.engine().start(&id).await.expect("start");
    sleep(seconds(1)).await;
    id
}

/// Looks until it is so.
async fn until<L: Lab>(lab: &L, id: &ContainerId, what: &str, so: impl Fn(&Inspected) -> bool) -> Inspected {
    let begun = Instant::now();
    loop {
        let seen = lab.engine().inspect(id).await.expect("inspect");
        if so(&seen) {
            return seen;
        }
        let state = &seen.document()["State"];
        assert!(
            begun.elapsed() < PATIENCE,
            "not {what} within {PATIENCE:?}: {state}"
        );
        sleep(Duration::from_millis(50)).await;
    }
}

async fn until_exited<L: Lab>(lab: &L, id: &ContainerId) -> Inspected {
    until(lab, id, "exited", |seen| seen.state() == RunState::Exited).await
}

async fn until_gone<L: Lab>(lab: &L, id: &ContainerId) {
    let begun = Instant::now();
    while lab.engine().inspect(id).await.is_ok() {
        assert!(begun.elapsed() < PATIENCE, "{id} is still there");
        sleep(Duration::from_millis(50)).await;
    }
}

async fn state_of<L: Lab>(lab: &L, id: &ContainerId) -> RunState {
    lab.engine().inspect(id).await.expect("inspect").state()
}

async fn image_id_of<L: Lab>(lab: &L, reference: &str) -> ImageId {
    let document = lab
        .engine()
        .inspect_image(reference)
        .await
        .expect("inspect image");
    ImageId::new(document["Id"].as_str().expect("the image's Id"))
}

fn assert_not_found<T: std::fmt::Debug>(outcome: &Result<T, EngineError>) {
    assert!(matches!(outcome, Err(EngineError::NotFound(_))), "{outcome:?}");
}

fn assert_conflict<T: std::fmt::Debug>(outcome: &Result<T, EngineError>) {
    assert!(matches!(outcome, Err(EngineError::Conflict(_))), "{outcome:?}");
}

pub async fn the_engine_tells_its_version<L: Lab>(lab: &L) {
    let info = lab.engine().info().await.expect("info");
    assert_eq!(info.os, "linux");
    assert!(info.api.major == 1 && info.api.minor >= 40, "{}", info.api);
    assert!(
        !info.version.is_empty() && !info.architecture.is_empty(),
        "{info:?}"
    );
}

pub async fn the_engine_tells_where_it_keeps_images_and_how_big_they_are<L: Lab>(lab: &L) {
    let storage = lab.engine().storage().await.expect("info");
    assert!(storage.root.is_absolute(), "{storage:?}");
    assert!(!storage.driver.is_empty(), "{storage:?}");
    let image = lab.image(Behaviour::default()).await;
    let document = lab.engine().inspect_image(&image).await.expect("inspect image");
    assert!(
        document["Size"].as_u64().is_some_and(|size| size > 0),
        "{document}"
    );
}

pub async fn a_name_is_a_mutex<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let (name, body) = (lab.name("mutex"), lab.body(&image));
    let create = || lab.engine().create(&name, None, &body);
    let (one, two) = tokio::join!(create(), create());
    let (won, lost) = if one.is_ok() { (one, two) } else { (two, one) };
    won.expect("one of two creates");
    assert_conflict(&lost);
    assert_conflict(&create().await);
}

pub async fn a_rename_goes_by_id_and_keeps_the_id<L: Lab>(lab: &L) {
    let id = started_of(lab, "before", Behaviour::default()).await;
    let name = lab.name("after.draining-1700000000");
    lab.engine().rename(&id, &name).await.expect("rename");
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!((seen.id(), seen.name()), (id, name.as_str()));
    assert_eq!(seen.state(), RunState::Running);
}

pub async fn a_rename_to_a_taken_name_is_a_conflict<L: Lab>(lab: &L) {
    let one = created_of(lab, "one", Behaviour::default()).await;
    created_of(lab, "two", Behaviour::default()).await;
    assert_conflict(&lab.engine().rename(&one, &lab.name("two")).await);
    let seen = lab.engine().inspect(&one).await.expect("inspect");
    assert_eq!(seen.name(), lab.name("one"));
}

pub async fn a_rename_frees_the_old_name<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let body = lab.body(&image);
    let old = created(lab, "delegate", &body).await;
    let new = created(lab, "delegate.candidate", &body).await;
    lab.engine()
        .rename(&old, &lab.name("delegate.draining-1"))
        .await
        .expect("rename the old one");
    lab.engine()
        .rename(&new, &lab.name("delegate"))
        .await
        .expect("rename the new one");
    let seen = lab.engine().inspect(&new).await.expect("inspect");
    assert_eq!(seen.name(), lab.name("delegate"));
}

pub async fn a_rename_to_its_own_name_is_refused_and_no_conflict<L: Lab>(lab: &L) {
    let id = created_of(lab, "same", Behaviour::default()).await;
    let outcome = lab.engine().rename(&id, &lab.name("same")).await;
    assert!(matches!(outcome, Err(EngineError::Refused { .. })), "{outcome:?}");
}

pub async fn a_second_start_is_no_error<L: Lab>(lab: &L) {
    let id = started_of(lab, "twice", Behaviour::default()).await;
    let first = lab.engine().inspect(&id).await.expect("inspect").started_at();
    lab.engine().start(&id).await.expect("start again");
    let second = lab.engine().inspect(&id).await.expect("inspect").started_at();
    assert!(first.is_some());
    assert_eq!(first, second, "the same life goes on");
}

/// Some engines go on with a start whose caller went away, some give it up, and then say so as of an error.
pub async fn a_start_whose_caller_went_away_is_no_refusal_and_can_be_repeated<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    for milliseconds in [1, 5, 10, 20, 50] {
        let id = created(lab, &format!("abandoned-{milliseconds}"), &lab.body(&image)).await;
        let _abandoned = timeout(Duration::from_millis(milliseconds), lab.engine().start(&id)).await;
        sleep(seconds(1)).await;
        let seen = lab.engine().inspect(&id).await.expect("inspect");
        assert_eq!(seen.error(), "", "after {milliseconds} ms");
        let states = [RunState::Created, RunState::Running];
        assert!(states.contains(&seen.state()), "{:?}", seen.state());
        lab.engine().start(&id).await.expect("start again");
        assert_eq!(state_of(lab, &id).await, RunState::Running);
    }
}

pub async fn a_stop_is_final_and_a_second_one_no_error<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let mut body = lab.body(&image);
    body["HostConfig"]["RestartPolicy"] = json!({ "Name": "always" });
    let id = created(lab, "stopped", &body).await;
    lab.engine().start(&id).await.expect("start");
    sleep(seconds(1)).await;
    lab.engine().stop(&id, seconds(10)).await.expect("stop");
    assert_eq!(until_exited(lab, &id).await.exit_code(), 0);
    lab.engine().stop(&id, seconds(10)).await.expect("stop again");
    sleep(seconds(2)).await;
    assert_eq!(
        state_of(lab, &id).await,
        RunState::Exited,
        "its restart policy must not bring it back"
    );
}

pub async fn a_stop_of_a_created_container_is_no_error<L: Lab>(lab: &L) {
    let id = created_of(lab, "created", Behaviour::default()).await;
    lab.engine().stop(&id, seconds(10)).await.expect("stop");
    assert_eq!(state_of(lab, &id).await, RunState::Created);
}

pub async fn a_stopped_container_starts_again<L: Lab>(lab: &L) {
    let id = started_of(lab, "again", Behaviour::default()).await;
    let first = lab.engine().inspect(&id).await.expect("inspect").started_at();
    lab.engine().stop(&id, seconds(10)).await.expect("stop");
    until_exited(lab, &id).await;
    lab.engine().start(&id).await.expect("start");
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(seen.state(), RunState::Running);
    assert!(seen.started_at() > first, "a new life has a new beginning");
}

pub async fn a_stop_lets_the_container_drain<L: Lab>(lab: &L) {
    let id = started_of(lab, "drain", Behaviour::drains(seconds(2))).await;
    let begun = Instant::now();
    lab.engine().stop(&id, LONG).await.expect("stop");
    let exited = until_exited(lab, &id).await;
    assert_eq!(exited.exit_code(), 0, "it finished by itself");
    assert!(begun.elapsed() >= seconds(2), "after {:?}", begun.elapsed());
}

pub async fn a_stop_kills_after_the_grace<L: Lab>(lab: &L) {
    let id = started_of(lab, "deaf", Behaviour::ignores_stop()).await;
    let begun = Instant::now();
    lab.engine().stop(&id, seconds(2)).await.expect("stop");
    let exited = until_exited(lab, &id).await;
    assert_eq!(exited.exit_code(), 137);
    assert!(
        begun.elapsed() >= Duration::from_millis(1900),
        "after {:?}",
        begun.elapsed()
    );
}

pub async fn a_stop_without_grace_kills_at_once<L: Lab>(lab: &L) {
    let id = started_of(lab, "now", Behaviour::ignores_stop()).await;
    lab.engine().stop(&id, Duration::ZERO).await.expect("stop");
    assert_eq!(until_exited(lab, &id).await.exit_code(), 137);
}

/// Sooner than the engine's client stops waiting by itself.
const SOON: Duration = Duration::from_millis(400);

pub async fn a_shorter_stop_overrides_a_longer_one<L: Lab>(lab: &L) {
    let id = started_of(lab, "shorter", Behaviour::ignores_stop()).await;
    let abandoned = timeout(SOON, lab.engine().stop(&id, LONG)).await;
    assert!(abandoned.is_err(), "it does not stop at once");
    lab.engine().stop(&id, seconds(1)).await.expect("stop");
    assert_eq!(until_exited(lab, &id).await.exit_code(), 137);
}

pub async fn a_stop_goes_on_after_its_caller_went_away<L: Lab>(lab: &L) {
    let id = started_of(lab, "abandoned", Behaviour::drains(seconds(4))).await;
    let abandoned = timeout(SOON, lab.engine().stop(&id, LONG)).await;
    assert!(abandoned.is_err(), "it drains for a while");
    assert_eq!(
        state_of(lab, &id).await,
        RunState::Running,
        "the caller's leaving cut the drain short"
    );
    assert_eq!(until_exited(lab, &id).await.exit_code(), 0);
}

pub async fn the_grace_ends_after_its_caller_went_away<L: Lab>(lab: &L) {
    let id = started_of(lab, "deaf-abandoned", Behaviour::ignores_stop()).await;
    let abandoned = timeout(SOON, lab.engine().stop(&id, seconds(3))).await;
    assert!(abandoned.is_err(), "it ignores its stop signal");
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

pub async fn a_removed_container_is_gone_and_removing_it_again_no_error<L: Lab>(lab: &L) {
    let id = created_of(lab, "gone", Behaviour::default()).await;
    lab.engine().remove(&id).await.expect("remove");
    assert_not_found(&lab.engine().inspect(&id).await);
    lab.engine().remove(&id).await.expect("remove again");
}

pub async fn what_is_not_there_is_not_found<L: Lab>(lab: &L) {
    let engine = lab.engine();
    assert_not_found(&engine.inspect(&nobody()).await);
    assert_not_found(&engine.start(&nobody()).await);
    assert_not_found(&engine.stop(&nobody(), Duration::ZERO).await);
    assert_not_found(&engine.rename(&nobody(), &lab.name("nobody")).await);
    assert_not_found(
        &engine
            .set_restart_policy(&nobody(), &json!({ "Name": "no" }))
            .await,
    );
    assert_not_found(&engine.inspect_image("contract/nothing:1").await);
    engine.remove(&nobody()).await.expect("gone already");
    engine
        .remove_image(&ImageId::new(format!("sha256:{}", nobody().as_str())))
        .await
        .expect("gone already");
}

pub async fn a_restart_policy_is_read_back<L: Lab>(lab: &L) {
    let id = started_of(lab, "policy", Behaviour::default()).await;
    for policy in [
        json!({ "Name": "always", "MaximumRetryCount": 0 }),
        json!({ "Name": "on-failure", "MaximumRetryCount": 3 }),
        json!({ "Name": "unless-stopped", "MaximumRetryCount": 0 }),
        json!({ "Name": "no", "MaximumRetryCount": 0 }),
    ] {
        lab.engine()
            .set_restart_policy(&id, &policy)
            .await
            .expect("update");
        let seen = lab.engine().inspect(&id).await.expect("inspect");
        assert_eq!(
            seen.document().pointer("/HostConfig/RestartPolicy"),
            Some(&policy)
        );
    }
    lab.engine()
        .set_restart_policy(&id, &json!({ "Name": "always" }))
        .await
        .expect("update");
    lab.engine()
        .set_restart_policy(&id, &json!({ "Name": "", "MaximumRetryCount": 0 }))
        .await
        .expect("update");
    assert_eq!(
        lab.engine()
            .inspect(&id)
            .await
            .expect("inspect")
            .restart_policy_text(),
        "no"
    );
}

pub async fn an_auto_remove_container_vanishes_when_it_stops<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let mut body = lab.body(&image);
    body["HostConfig"]["AutoRemove"] = json!(true);
    let id = created(lab, "rm", &body).await;
    lab.engine().start(&id).await.expect("start");
    assert!(lab.engine().inspect(&id).await.expect("inspect").auto_remove());
    sleep(seconds(1)).await;
    lab.engine().stop(&id, seconds(10)).await.expect("stop");
    until_gone(lab, &id).await;
    // Its name is free again.
    created(lab, "rm", &body).await;
}

pub async fn an_auto_remove_container_has_no_restart_policy<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let mut body = lab.body(&image);
    body["HostConfig"]["AutoRemove"] = json!(true);
    let id = created(lab, "rm-policy", &body).await;
    lab.engine()
        .set_restart_policy(&id, &json!({ "Name": "always" }))
        .await
        .expect_err("refused");
    body["HostConfig"]["RestartPolicy"] = json!({ "Name": "always" });
    lab.engine()
        .create(&lab.name("rm-always"), None, &body)
        .await
        .expect_err("refused");
}

pub async fn an_auto_remove_container_that_cannot_start_vanishes<L: Lab>(lab: &L) {
    let broken = Behaviour {
        start_error: Some("no such program".to_owned()),
        ..Behaviour::default()
    };
    let image = lab.image(broken).await;
    let mut body = lab.body(&image);
    body["HostConfig"]["AutoRemove"] = json!(true);
    let id = created(lab, "rm-broken", &body).await;
    lab.engine()
        .start(&id)
        .await
        .expect_err("there is no such program");
    until_gone(lab, &id).await;
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

pub async fn a_crash_is_told_by_restarts<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::exits(Duration::from_millis(300), 7)).await;
    let mut body = lab.body(&image);
    body["HostConfig"]["RestartPolicy"] = json!({ "Name": "always" });
    let id = created(lab, "crash", &body).await;
    lab.engine().start(&id).await.expect("start");
    until(lab, &id, "restarted", |seen| seen.restart_count() >= 1).await;
    until(lab, &id, "restarted again", |seen| seen.restart_count() >= 3).await;
    until(lab, &id, "between two lives", |seen| {
        seen.state() == RunState::Restarting
    })
    .await;
    lab.engine().stop(&id, seconds(5)).await.expect("stop");
    let count = until_exited(lab, &id).await.restart_count();
    sleep(seconds(3)).await;
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(
        (seen.state(), seen.restart_count()),
        (RunState::Exited, count),
        "a stop ends the restarts"
    );
}

pub async fn retries_on_failure_are_counted_and_end<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::exits(Duration::from_millis(100), 3)).await;
    let mut body = lab.body(&image);
    body["HostConfig"]["RestartPolicy"] = json!({ "Name": "on-failure", "MaximumRetryCount": 2 });
    let id = created(lab, "retry", &body).await;
    lab.engine().start(&id).await.expect("start");
    let exited = until(lab, &id, "given up", |seen| {
        seen.state() == RunState::Exited && seen.restart_count() == 2
    });
    assert_eq!(exited.await.exit_code(), 3);
}

pub async fn a_policy_taken_away_keeps_a_crash_down<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::exits(seconds(2), 1)).await;
    let mut body = lab.body(&image);
    body["HostConfig"]["RestartPolicy"] = json!({ "Name": "always" });
    let id = created(lab, "tamed", &body).await;
    lab.engine().start(&id).await.expect("start");
    lab.engine()
        .set_restart_policy(&id, &json!({ "Name": "no" }))
        .await
        .expect("update");
    until_exited(lab, &id).await;
    sleep(seconds(1)).await;
    assert_eq!(state_of(lab, &id).await, RunState::Exited);
}

pub async fn an_exit_is_told_with_its_code<L: Lab>(lab: &L) {
    let id = started_of(lab, "exit", Behaviour::exits(Duration::from_millis(200), 42)).await;
    let exited = until_exited(lab, &id).await;
    assert_eq!((exited.exit_code(), exited.restart_count()), (42, 0));
    assert!(exited.started_at() < exited.finished_at());
}

pub async fn a_create_from_an_unknown_image_is_not_found<L: Lab>(lab: &L) {
    let body = lab.body("contract/nothing:1");
    assert_not_found(&lab.engine().create(&lab.name("no-image"), None, &body).await);
    // The name is not taken by the attempt.
    let image = lab.image(Behaviour::default()).await;
    created(lab, "no-image", &lab.body(&image)).await;
}

pub async fn an_invalid_name_is_refused<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let outcome = lab.engine().create("no/name", None, &lab.body(&image)).await;
    assert!(
        matches!(outcome, Err(EngineError::Refused { status: 400, .. })),
        "{outcome:?}"
    );
}

pub async fn an_image_in_use_is_not_removed<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let image_id = image_id_of(lab, &image).await;
    let id = created(lab, "user", &lab.body(&image)).await;
    assert_conflict(&lab.engine().remove_image(&image_id).await);
    lab.engine().remove(&id).await.expect("remove the container");
    lab.engine()
        .remove_image(&image_id)
        .await
        .expect("remove the image");
    assert_not_found(&lab.engine().inspect_image(image_id.as_str()).await);
    lab.engine().remove_image(&image_id).await.expect("gone already");
}

pub async fn a_failed_pull_is_an_error_and_leaves_the_image<L: Lab>(lab: &L) {
    // Nothing listens on that port, nor has the twin's registry such an image.
    let name = format!("127.0.0.1:1/{}:1", lab.name("unreachable"));
    lab.image_named(&name, Behaviour::default()).await;
    let before = image_id_of(lab, &name).await;
    let reference: ImageReference = name.parse().expect("a reference");
    lab.engine()
        .pull(&reference, None, |_| {})
        .await
        .expect_err("there is no registry");
    lab.engine()
        .registry_digest(&reference)
        .await
        .expect_err("there is no registry");
    assert_eq!(image_id_of(lab, &name).await, before);
}

pub async fn an_image_is_found_by_reference_and_by_id<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let id = image_id_of(lab, &image).await;
    assert_eq!(image_id_of(lab, id.as_str()).await, id);
    let document = lab.engine().inspect_image(&image).await.expect("inspect image");
    assert_eq!(document["Os"], "linux");
    assert_eq!(document["RepoTags"], json!([image]));
    assert_eq!(document["Config"]["Env"], json!(["PATH=/bin"]));
}

pub async fn a_moved_tag_leaves_the_old_image_to_its_containers<L: Lab>(lab: &L) {
    let name = format!("{}:latest", lab.name("moving"));
    lab.image_named(&name, Behaviour::default()).await;
    let old = image_id_of(lab, &name).await;
    let id = created(lab, "old", &lab.body(&name)).await;
    lab.image_named(&name, Behaviour::drains(seconds(1))).await;
    let new = image_id_of(lab, &name).await;
    assert_ne!(old, new);
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(
        (seen.image_id(), seen.image_reference()),
        (old.clone(), name.as_str())
    );
    assert_eq!(
        image_id_of(lab, old.as_str()).await,
        old,
        "an image without a tag is still found by id"
    );
}

pub async fn the_list_shows_stopped_and_created_ones_too<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let mut body = lab.body(&image);
    body["Labels"]["io.example.colour"] = json!("green");
    let fresh = created(lab, "fresh", &body).await;
    let running = created(lab, "running", &body).await;
    let stopped = created(lab, "stopped", &body).await;
    for id in [&running, &stopped] {
        lab.engine().start(id).await.expect("start");
    }
    sleep(seconds(1)).await;
    lab.engine().stop(&stopped, seconds(10)).await.expect("stop");
    let listed = async |id: &ContainerId| {
        let rows = lab.engine().containers().await.expect("list");
        rows.into_iter().find(|row| row.id == *id).expect("listed")
    };
    for (id, name, state) in [
        (fresh, "fresh", RunState::Created),
        (running, "running", RunState::Running),
        (stopped, "stopped", RunState::Exited),
    ] {
        let row = listed(&id).await;
        assert_eq!(row.name, lab.name(name));
        assert_eq!(
            row.labels.get("io.example.colour").map(String::as_str),
            Some("green")
        );
        // The state may be a moment late; nothing rests on that.
        let begun = Instant::now();
        while listed(&id).await.state != state {
            assert!(begun.elapsed() < PATIENCE, "{name} is not listed as {state:?}");
            sleep(Duration::from_millis(50)).await;
        }
    }
}

pub async fn a_second_connect_is_no_error<L: Lab>(lab: &L) {
    let id = created_of(lab, "connected", Behaviour::default()).await;
    let network = lab.network().await;
    let endpoint = json!({ "Aliases": ["worker"] });
    for _ in 0..2 {
        lab.engine()
            .connect(&network, &id, &endpoint)
            .await
            .expect("connect before the start");
        let seen = lab.engine().inspect(&id).await.expect("inspect");
        assert!(seen.is_in(&network), "{}", seen.document()["NetworkSettings"]);
    }
    lab.engine().start(&id).await.expect("start");
    lab.engine()
        .connect(&network, &id, &endpoint)
        .await
        .expect("connect while it runs");
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(
        seen.addresses().len(),
        2,
        "{}",
        seen.document()["NetworkSettings"]["Networks"]
    );
    let aliases = &seen.document()["NetworkSettings"]["Networks"][&network]["Aliases"];
    assert!(
        aliases
            .as_array()
            .is_some_and(|names| names.contains(&json!("worker"))),
        "{aliases}"
    );
}

pub async fn what_was_copied_in_before_the_start_is_known<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let mut body = lab.body(&image);
    let writes = "echo x >/written; while :; do sleep 1 & wait $!; done";
    body["Cmd"] = json!(["/bin/sh", "-c", writes]);
    let id = created(lab, "copied", &body).await;
    // One that is new, and one in the place of a file of the image's.
    let both = ["/bin/probe", "/etc/delegate/config.yml"];
    for path in both {
        lab.copy_in(&id, path).await;
    }
    for _ in 0..2 {
        let copied = lab.engine().copied_files(&id).await.expect("copied files");
        assert_eq!(copied, both);
        lab.engine().start(&id).await.expect("start");
        sleep(Duration::from_millis(1_500)).await;
    }
    lab.copy_in(&id, "/later").await;
    let copied = lab.engine().copied_files(&id).await.expect("copied files");
    assert_eq!(copied, both, "a file of now is no file of then");
    // compose writes them again before it starts a container that was stopped.
    lab.engine().stop(&id, Duration::ZERO).await.expect("stop");
    lab.copy_in(&id, "/new.yml").await;
    lab.engine().start(&id).await.expect("start");
    sleep(Duration::from_millis(1_500)).await;
    let copied = lab.engine().copied_files(&id).await.expect("copied files");
    assert_eq!(
        copied,
        ["/later", "/new.yml", "/bin/probe", "/etc/delegate/config.yml"],
        "what came from outside before this life, and nothing that a life wrote"
    );
    let plain = created(lab, "plain", &lab.body(&image)).await;
    assert_eq!(lab.engine().copied_files(&plain).await, Ok(Vec::new()));
}

pub async fn a_link_is_by_the_container_and_needs_it_running<L: Lab>(lab: &L) {
    let target = started_of(lab, "target", Behaviour::default()).await;
    let image = lab.image(Behaviour::default()).await;
    let mut body = lab.body(&image);
    body["HostConfig"]["Links"] = json!([format!("{}:db", lab.name("target"))]);
    let id = created(lab, "linked", &body).await;
    let shown =
        async || lab.engine().inspect(&id).await.expect("inspect").document()["HostConfig"]["Links"].clone();
    let expected = |target: &str| json!([format!("/{}:/{}/db", lab.name(target), lab.name("linked"))]);
    assert_eq!(shown().await, expected("target"));
    lab.engine()
        .rename(&target, &lab.name("renamed"))
        .await
        .expect("rename");
    assert_eq!(shown().await, expected("renamed"));
    lab.engine().stop(&target, Duration::ZERO).await.expect("stop");
    lab.engine()
        .start(&id)
        .await
        .expect_err("what it is linked to does not run");
    assert_eq!(state_of(lab, &id).await, RunState::Created);
    lab.engine().start(&target).await.expect("start");
    lab.engine().start(&id).await.expect("start");
    // Neither another one of the name nor none at all takes its place.
    lab.engine().stop(&target, Duration::ZERO).await.expect("stop");
    until_exited(lab, &target).await;
    lab.engine().remove(&target).await.expect("remove");
    started_of(lab, "renamed", Behaviour::default()).await;
    assert_eq!(shown().await, expected("renamed"));
    assert_eq!(state_of(lab, &id).await, RunState::Running);
    lab.engine().stop(&id, Duration::ZERO).await.expect("stop");
    until_exited(lab, &id).await;
    lab.engine()
        .start(&id)
        .await
        .expect_err("what it is linked to is gone");
}

pub async fn an_unknown_network_is_found_out_at_the_start<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let mut body = lab.body(&image);
    body["HostConfig"]["NetworkMode"] = json!(lab.name("no-network"));
    let id = created(lab, "lost", &body).await;
    assert_not_found(&lab.engine().start(&id).await);
    assert_eq!(state_of(lab, &id).await, RunState::Created);
}

pub async fn env_and_labels_are_read_back_with_the_image_s_defaults<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let mut body = lab.body(&image);
    body["Env"] = json!(["DELEGATE_NAME=docker-delegate", "EMPTY=", "EQUALS=a=b"]);
    body["Labels"]["io.delegate-upgrader.release"] = json!("3");
    let id = created(lab, "document", &body).await;
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(seen.env("DELEGATE_NAME"), Some("docker-delegate"));
    assert_eq!((seen.env("EMPTY"), seen.env("EQUALS")), (Some(""), Some("a=b")));
    assert_eq!(seen.env("PATH"), Some("/bin"), "the image's own");
    assert_eq!(seen.label("io.delegate-upgrader.release"), Some("3"));
    assert_eq!(seen.image_reference(), image);
    assert_eq!(seen.image_id(), image_id_of(lab, &image).await);
    assert_eq!(seen.restart_policy_text(), "no");
    assert_eq!(seen.document()["Config"]["Hostname"], id.short());
    assert!(seen.created_at().is_some() && seen.started_at().is_none() && seen.finished_at().is_none());
}

pub async fn a_running_container_has_an_address<L: Lab>(lab: &L) {
    let id = started_of(lab, "address", Behaviour::default()).await;
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(seen.addresses().len(), 1);
    assert!(seen.health().is_none(), "it has no HEALTHCHECK");
    lab.engine().stop(&id, seconds(10)).await.expect("stop");
    assert!(until_exited(lab, &id).await.addresses().is_empty());
}

pub async fn a_taken_host_port_is_found_out_at_the_start<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let mut body = lab.body(&image);
    body["ExposedPorts"] = json!({ "3460/tcp": {} });
    body["HostConfig"]["PortBindings"] = json!({ "3460/tcp": [{ "HostIp": "", "HostPort": "43460" }] });
    let one = created(lab, "one", &body).await;
    let two = created(lab, "two", &body).await;
    lab.engine().start(&one).await.expect("start");
    lab.engine().start(&two).await.expect_err("the port is taken");
    assert_eq!(state_of(lab, &two).await, RunState::Created);
    assert_eq!(state_of(lab, &one).await, RunState::Running);
    // Once it is free, the same container starts.
    sleep(seconds(1)).await;
    lab.engine().stop(&one, seconds(10)).await.expect("stop");
    until_exited(lab, &one).await;
    lab.engine().start(&two).await.expect("start");
    assert_eq!(state_of(lab, &two).await, RunState::Running);
}

pub async fn a_healthcheck_gives_the_engine_s_verdict<L: Lab>(lab: &L) {
    let check = json!({
        "Test": ["CMD", "/bin/probe"],
        "Interval": 1_000_000_000_u64,
        "Timeout": 5_000_000_000_u64,
        "Retries": 2,
    });
    for (name, behaviour, verdict) in [
        ("well", Behaviour::default(), HealthcheckStatus::Healthy),
        ("ill", Behaviour::never_healthy(), HealthcheckStatus::Unhealthy),
    ] {
        let image = lab.image(behaviour).await;
        let mut body = lab.body(&image);
        body["Healthcheck"] = check.clone();
        let id = created(lab, name, &body).await;
        lab.engine().start(&id).await.expect("start");
        let at_first = lab
            .engine()
            .inspect(&id)
            .await
            .expect("inspect")
            .health()
            .expect("a verdict");
        assert_eq!(at_first.status, HealthcheckStatus::Starting, "{name}");
        let judged = |seen: &Inspected| seen.health().is_some_and(|health| health.status == verdict);
        let health = until(lab, &id, "judged", judged)
            .await
            .health()
            .expect("a verdict");
        assert_eq!(
            health.failing_streak >= 2,
            verdict == HealthcheckStatus::Unhealthy,
            "{health:?}"
        );
    }
}

pub async fn the_last_lines_of_both_streams_are_read_back<L: Lab>(lab: &L) {
    let talkative = || Behaviour::default().printing(["one", "two", "three", "four", "five"]);
    let id = started_of(lab, "plain", talkative()).await;
    let logs = async |lines| lab.engine().logs(&id, lines).await.expect("logs");
    assert_eq!(logs(3).await, "three\nfour\nfive\n");
    assert_eq!(logs(100).await, "one\ntwo\nthree\nfour\nfive\n");
    lab.engine().stop(&id, LONG).await.expect("stop");
    until_exited(lab, &id).await;
    assert_eq!(logs(2).await, "four\nfive\n", "of a stopped one too");
}

pub async fn the_log_of_a_terminal_is_read_back<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default().printing(["one", "two"])).await;
    let mut body = lab.body(&image);
    body["Tty"] = json!(true);
    let id = created(lab, "terminal", &body).await;
    lab.engine().start(&id).await.expect("start");
    sleep(seconds(1)).await;
    let log = lab.engine().logs(&id, 10).await.expect("logs");
    let lines: Vec<&str> = log.lines().map(str::trim_end).collect();
    assert_eq!(lines, ["one", "two"]);
}

pub async fn a_log_that_cannot_be_read_back_is_empty<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default().printing(["one"])).await;
    let mut body = lab.body(&image);
    body["HostConfig"]["LogConfig"] = json!({ "Type": "none", "Config": {} });
    let id = created(lab, "unread", &body).await;
    lab.engine().start(&id).await.expect("start");
    sleep(seconds(1)).await;
    assert_eq!(lab.engine().logs(&id, 10).await.expect("logs"), "");
    let never_started = created(lab, "created", &lab.body(&image)).await;
    assert_eq!(lab.engine().logs(&never_started, 10).await.expect("logs"), "");
    assert_not_found(&lab.engine().logs(&nobody(), 10).await);
}

pub async fn the_results_of_a_healthcheck_outlive_the_life_they_are_of<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::never_healthy()).await;
    let mut body = lab.body(&image);
    body["Healthcheck"] = json!({
        "Test": ["CMD", "/bin/probe"],
        "Interval": 1_000_000_000_u64,
        "Timeout": 5_000_000_000_u64,
    });
    let id = created(lab, "ill", &body).await;
    lab.engine().start(&id).await.expect("start");
    let results = |seen: &Inspected| seen.health_log(100).map(|(code, _)| code).collect::<Vec<_>>();
    until(lab, &id, "probed six times", |seen| {
        seen.health().is_some_and(|health| health.failing_streak >= 6)
    })
    .await;
    lab.engine().stop(&id, Duration::ZERO).await.expect("stop");
    let seen = until_exited(lab, &id).await;
    assert_eq!(results(&seen), [1; 5], "the last five are kept");
    assert_eq!(
        seen.health().map(|health| health.status),
        Some(HealthcheckStatus::Unhealthy)
    );
    lab.engine().start(&id).await.expect("start again");
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(results(&seen), [1; 5]);
    assert_eq!(
        seen.health().map(|health| health.status),
        Some(HealthcheckStatus::Starting)
    );
}
