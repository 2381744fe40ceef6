//! The twin's own rules: the rules that a shared real engine cannot show, and the means of a simulation.

use std::time::Duration;

use delegate_upgrader::container::RunState;
use delegate_upgrader::engine::{Engine, EngineError};
use kit::twin::{Behaviour, Twin, delegate_body};
use serde_json::json;
use tokio::time::sleep;

const IMAGE: &str = "harness/delegate:1";

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A host with one image whose containers behave this way.
fn host(behaviour: Behaviour) -> Twin {
    let twin = Twin::default();
    let image = twin.image(behaviour);
    twin.add_image(IMAGE, image);
    twin
}

fn with_policy(name: &str, policy: &str) -> serde_json::Value {
    let mut body = delegate_body(name, IMAGE);
    body["HostConfig"]["RestartPolicy"] = json!({ "Name": policy, "MaximumRetryCount": 0 });
    body
}

fn state(twin: &Twin, name: &str) -> Option<RunState> {
    twin.glance()
        .into_iter()
        .find(|glance| glance.name == name)
        .map(|glance| glance.state)
}

/// As a real 20.10 behaves.
#[tokio::test(start_paused = true)]
async fn an_engine_restart_acts_on_restart_policies() {
    let twin = host(Behaviour::default());
    for policy in ["always", "unless-stopped", "on-failure", "no"] {
        twin.run(&format!("running-{policy}"), &with_policy("d", policy));
        let stopped = twin.run(&format!("stopped-{policy}"), &with_policy("d", policy));
        twin.stop(&stopped, seconds(5)).await.unwrap();
        twin.create(&format!("created-{policy}"), None, &with_policy("d", policy))
            .await
            .unwrap();
    }
    let mut body = with_policy("d", "no");
    body["HostConfig"]["AutoRemove"] = json!(true);
    twin.run("rm-running", &body);
    twin.create("rm-created", None, &body).await.unwrap();

    twin.restart_engine(seconds(3));
    assert!(matches!(
        twin.containers().await,
        Err(EngineError::Unreachable(_))
    ));
    sleep(seconds(4)).await;

    for (name, expected) in [
        ("running-always", Some(RunState::Running)),
        ("running-unless-stopped", Some(RunState::Running)),
        ("running-on-failure", Some(RunState::Exited)),
        ("running-no", Some(RunState::Exited)),
        ("stopped-always", Some(RunState::Running)),
        ("stopped-unless-stopped", Some(RunState::Exited)),
        ("stopped-no", Some(RunState::Exited)),
        ("created-always", Some(RunState::Created)),
        ("rm-running", None),
        ("rm-created", None),
    ] {
        assert_eq!(state(&twin, name), expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_between_restarts_grow() {
    let twin = host(Behaviour::exits(seconds(1), 1));
    let id = twin.run("crash", &with_policy("crash", "always"));
    sleep(seconds(60)).await;
    let restarts = twin.inspect(&id).await.unwrap().restart_count();
    assert!((6..=9).contains(&restarts), "{restarts} restarts in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_rename_during_auto_removal_leaves_the_container_stuck() {
    let twin = host(Behaviour::default());
    let mut body = with_policy("rm", "no");
    body["HostConfig"]["AutoRemove"] = json!(true);
    let id = twin.run("rm", &body);
    twin.stop(&id, seconds(5)).await.unwrap();
    assert_eq!(state(&twin, "rm"), Some(RunState::Removing));
    twin.rename(&id, "rm.draining-1").await.unwrap();
    sleep(seconds(3600)).await;
    assert_eq!(state(&twin, "rm.draining-1"), Some(RunState::Removing));
}

#[tokio::test(start_paused = true)]
async fn an_address_maps_to_one_container_and_a_fixed_one_is_exclusive() {
    let twin = host(Behaviour::default());
    twin.add_network("delegates");
    let mut body = with_policy("d", "no");
    body["HostConfig"]["NetworkMode"] = json!("delegates");
    body["NetworkingConfig"]["EndpointsConfig"]["delegates"] =
        json!({ "IPAMConfig": { "IPv4Address": "172.30.0.9" }, "DriverOpts": { "kept": "yes" } });
    let one = twin.run("one", &body);
    let document = twin.inspect(&one).await.unwrap();
    assert_eq!(
        document.document()["NetworkSettings"]["Networks"]["delegates"]["DriverOpts"]["kept"],
        "yes"
    );
    assert_eq!(twin.probe(document.addresses()[0], 3460), Some(true));
    let two = twin.create("two", None, &body).await.unwrap();
    let error = twin.start(&two).await.unwrap_err();
    assert!(error.to_string().contains("Address already in use"), "{error}");
}
