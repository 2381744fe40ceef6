//! Where two cannot live at once, the old one stops first, and comes back itself if the new one fails.

use std::time::Duration;

use delegate_upgrader::config::Strategy;
use delegate_upgrader::container::RunState;
use serde_json::{Value, json};

use super::host::{DRAIN, Host, NEW, OLD, good, host_network, published_port, row};
use kit::twin::{Behaviour, Fault, Happened, Operation};

fn at(host: &Host, id: &delegate_upgrader::container::ContainerId, what: &Happened) -> Duration {
    host.events_of(id)
        .iter()
        .find(|event| event.what == *what)
        .unwrap_or_else(|| panic!("{what:?} of {id} not among {:?}", host.events_of(id)))
        .at
}

async fn assert_replaced_stop_first(host: Host, change: impl FnOnce(&mut Value)) {
    let old = host.run_with("dd", change);
    let report = host.once(NEW).await;
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on("dd", NEW, "");
    let new = host.find("dd").id;
    let (told, ended, code) = host.end_of(&old).unwrap();
    assert_eq!((ended - told, code), (DRAIN, 0));
    assert!(
        at(&host, &new, &Happened::Created) < told,
        "created before the old one is touched"
    );
    assert!(
        at(&host, &new, &Happened::Started) >= ended,
        "started when the old one is gone"
    );
}

#[tokio::test(start_paused = true)]
async fn on_the_host_s_network_the_old_one_stops_first() {
    assert_replaced_stop_first(Host::new(), host_network).await;
}

#[tokio::test(start_paused = true)]
async fn with_a_published_port_the_old_one_stops_first() {
    assert_replaced_stop_first(Host::new(), published_port).await;
}

#[tokio::test(start_paused = true)]
async fn without_memory_for_two_the_old_one_stops_first() {
    let mut host = Host::new();
    host.free_memory = Some(1 << 30);
    assert_replaced_stop_first(host, |_| ()).await;
}

#[tokio::test(start_paused = true)]
async fn where_the_operator_or_the_owner_asks_for_it_the_old_one_stops_first() {
    let mut host = Host::new();
    host.strategy = Strategy::StopFirst;
    assert_replaced_stop_first(host, |_| ()).await;
    assert_replaced_stop_first(Host::new(), |body| {
        body["Labels"] = json!({ "io.delegate-upgrader.strategy": "stop-first" });
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_old_one_itself_comes_back_with_its_restart_policy() {
    for behaviour in [
        Behaviour::never_healthy(),
        Behaviour::exits(Duration::from_secs(1), 3),
        Behaviour {
            start_error: Some("exec: /delegate: no such file".to_owned()),
            ..good()
        },
    ] {
        for change in [host_network, published_port] {
            let host = Host::new();
            host.publish(NEW, behaviour.clone());
            let old = host.run_with("dd", change);
            let report = host.once(NEW).await;
            assert!(report.has_failures(), "{report:?}");
            assert_eq!(row(&report, "dd").reason.as_str(), "rejected");
            let now = host.find("dd");
            assert_eq!(
                (now.id, now.state),
                (old.clone(), RunState::Running),
                "{behaviour:?}"
            );
            assert_eq!(host.restart_policy("dd"), "unless-stopped");
            assert_eq!(host.twin.health(&old), Some(true));
            assert_eq!(host.names(), ["dd", "dd.failed-1"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn it_gets_its_policy_and_is_started_before_it_gets_its_name() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    let old = host.run_with("dd", host_network);
    host.once(NEW).await;
    let draining = host
        .twin
        .writes()
        .into_iter()
        .filter(|call| call.subject.starts_with("dd.draining-"))
        .map(|call| (call.operation, call.detail))
        .collect::<Vec<_>>();
    let operations: Vec<Operation> = draining.iter().map(|(operation, _)| *operation).collect();
    assert_eq!(
        operations,
        [
            Operation::SetRestartPolicy,
            Operation::Stop,
            Operation::SetRestartPolicy,
            Operation::Start,
            Operation::Rename,
        ],
        "{draining:?}"
    );
    assert_eq!(host.find("dd").id, old);
}

#[tokio::test(start_paused = true)]
async fn a_restart_policy_with_a_count_comes_back_too() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run_with("dd", |body| {
        host_network(body);
        body["HostConfig"]["RestartPolicy"] = json!({ "Name": "on-failure", "MaximumRetryCount": 5 });
    });
    host.once(NEW).await;
    assert_eq!(
        host.twin.document("dd").unwrap()["HostConfig"]["RestartPolicy"],
        json!({ "Name": "on-failure", "MaximumRetryCount": 5 })
    );
}

#[tokio::test(start_paused = true)]
async fn where_start_first_is_required_nothing_is_done() {
    let mut host = Host::new();
    host.strategy = Strategy::StartFirst;
    host.run_with("dd", host_network);
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "cannot_start_first");
    assert_eq!(host.twin.writes(), []);
}

/// What would not be the same is found out before the old one is touched.
#[tokio::test(start_paused = true)]
async fn a_successor_that_would_not_be_the_same_costs_no_downtime() {
    let host = Host::new();
    let old = host.run_with("dd", host_network);
    host.twin.garble_creates(|config| config["Tty"] = json!(true));
    let report = host.once(NEW).await;
    assert_eq!(
        row(&report, "dd").reason.as_str(),
        "configuration_mismatch",
        "{report:?}"
    );
    assert_eq!(host.writes_on("dd"), []);
    assert_eq!(host.find("dd").id, old);
    assert_eq!(host.names(), ["dd"]);
}

/// It came back once; that says nothing about the next time it is asked to stop.
#[tokio::test(start_paused = true)]
async fn an_old_one_that_comes_back_twice_is_started_twice() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run_with("dd", host_network);
    let mut upgrader = host.upgrader(NEW);
    host.scheduled_run(&mut upgrader).await;
    host.twin.set_faults(|call| match call.operation {
        Operation::Stop if call.subject.starts_with("dd.draining") => Fault::ErrAfter,
        _ => Fault::None,
    });
    upgrader.retry("dd").await.unwrap();
    host.finish(&mut upgrader).await;
    assert_eq!(
        host.find("dd").state,
        RunState::Running,
        "{:?}",
        host.containers()
    );
    assert_eq!(host.find("dd").image, OLD);
}
