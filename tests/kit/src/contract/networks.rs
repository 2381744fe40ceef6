//! Networks, addresses, links and published ports.

use std::time::Duration;

use delegate_upgrader::container::RunState;
use delegate_upgrader::engine::Engine;
use serde_json::json;
use tokio::time::sleep;

use super::lab::Lab;
use super::steps::{assert_not_found, created, created_of, ended, seconds, started_of, state_of};
use crate::twin::Behaviour;

pub async fn second_connect_is_not_an_error<L: Lab>(lab: &L) {
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

pub async fn a_link_follows_its_container_and_needs_it_running<L: Lab>(lab: &L) {
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
    ended(lab, &target, Duration::ZERO).await;
    lab.engine()
        .start(&id)
        .await
        .expect_err("what it is linked to does not run");
    assert_eq!(state_of(lab, &id).await, RunState::Created);
    lab.engine().start(&target).await.expect("start");
    lab.engine().start(&id).await.expect("start");
    // Another container of that name does not take its place, and the link does not vanish.
    ended(lab, &target, Duration::ZERO).await;
    lab.engine().remove(&target).await.expect("remove");
    started_of(lab, "renamed", Behaviour::default()).await;
    assert_eq!(shown().await, expected("renamed"));
    assert_eq!(state_of(lab, &id).await, RunState::Running);
    ended(lab, &id, Duration::ZERO).await;
    lab.engine()
        .start(&id)
        .await
        .expect_err("what it is linked to is gone");
}

pub async fn an_unknown_network_is_reported_at_start<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let mut body = lab.body(&image);
    body["HostConfig"]["NetworkMode"] = json!(lab.name("no-network"));
    let id = created(lab, "lost", &body).await;
    assert_not_found(&lab.engine().start(&id).await);
    assert_eq!(state_of(lab, &id).await, RunState::Created);
}

pub async fn a_running_container_has_an_address<L: Lab>(lab: &L) {
    let id = started_of(lab, "address", Behaviour::default()).await;
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(seen.addresses().len(), 1);
    assert!(seen.health_status().is_none(), "it has no HEALTHCHECK");
    assert!(ended(lab, &id, seconds(10)).await.addresses().is_empty());
}

pub async fn a_taken_host_port_is_reported_at_start<L: Lab>(lab: &L) {
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
    // Once the port is free, the same container starts.
    sleep(seconds(1)).await;
    ended(lab, &one, seconds(10)).await;
    lab.engine().start(&two).await.expect("start");
    assert_eq!(state_of(lab, &two).await, RunState::Running);
}
