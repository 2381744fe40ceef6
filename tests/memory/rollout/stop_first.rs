//! If two cannot run at once, the old container stops first, and comes back itself if the new one fails.

use std::time::Duration;

use delegate_upgrader::config::UpdateOrder;
use delegate_upgrader::container::{Request, RunState};
use serde_json::{Value, json};

use super::host::{DRAIN, Host, NEW, OLD, bad_images, good, host_network, published_port, row};
use kit::twin::{Behaviour, Fault, Happened, Operation};

async fn assert_replaced_stop_first(host: Host, change: impl FnOnce(&mut Value)) {
    let old = host.run_with("dd", change);
    host.upgrade(NEW).await;
    let new = host.find("dd").id;
    let (told, ended, code) = host.end_of(&old).unwrap();
    assert_eq!((ended - told, code), (DRAIN, 0));
    assert!(
        host.first(&new, &Happened::Created) < told,
        "created before the old one is touched"
    );
    assert!(
        host.first(&new, &Happened::Started) >= ended,
        "started when the old one has ended"
    );
}

#[tokio::test(start_paused = true)]
async fn stops_the_old_container_first_if_two_cannot_run_at_once() {
    assert_replaced_stop_first(Host::new(), host_network).await;
    assert_replaced_stop_first(Host::new(), published_port).await;
    let mut host = Host::new();
    host.free_memory = Some(1 << 30);
    assert_replaced_stop_first(host, |_| ()).await;
}

#[tokio::test(start_paused = true)]
async fn stops_the_old_container_first_if_the_operator_or_owner_asks() {
    let mut host = Host::new();
    host.settings.policy.update_order = UpdateOrder::StopFirst;
    assert_replaced_stop_first(host, |_| ()).await;
    assert_replaced_stop_first(Host::new(), |body| {
        body["Labels"] = json!({ "io.delegate-upgrader.update-order": "stop-first" });
    })
    .await;
}

/// It keeps its restart policy all the time, and is started before it gets its name back.
#[tokio::test(start_paused = true)]
async fn restores_the_original_container_after_every_bad_image() {
    use Operation::{Rename, Start, Stop};
    for behaviour in bad_images() {
        for change in [host_network, published_port] {
            let host = Host::new();
            host.publish(NEW, behaviour.clone());
            let old = host.run_with("dd", |body| {
                change(body);
                body["HostConfig"]["RestartPolicy"] = json!({ "Name": "on-failure", "MaximumRetryCount": 5 });
            });
            let before = host.twin.document("dd").unwrap();
            assert_eq!(host.reason(NEW).await, "rejected");
            let now = host.find("dd");
            assert_eq!((&now.id, now.state), (&old, RunState::Running), "{behaviour:?}");
            let document = host.twin.document("dd").unwrap();
            assert_eq!(document["HostConfig"], before["HostConfig"]);
            assert_eq!(host.twin.health(&old), Some(true));
            assert_eq!(host.names(), ["dd", "dd.failed-1"]);
            let writes = host.writes_on(old.as_str());
            let operations: Vec<Operation> = writes.iter().map(|call| call.operation).collect();
            assert_eq!(operations, [Rename, Stop, Start, Rename], "{writes:?}");
        }
    }
}

/// The upgrader finds a difference before it touches the old container.
#[tokio::test(start_paused = true)]
async fn withdraws_a_mismatched_successor_without_downtime() {
    let host = Host::new();
    let old = host.run_with("dd", host_network);
    host.twin.garble_creates(|config| config["Tty"] = json!(true));
    assert_eq!(host.reason(NEW).await, "configuration_mismatch");
    assert_eq!(host.writes_on("dd"), []);
    assert_eq!(host.find("dd").id, old);
    assert_eq!(host.names(), ["dd"]);
}

/// A delegate keeps running if an update broke the runtime: Docker must first show that it can start a container.
#[tokio::test(start_paused = true)]
async fn stops_nothing_if_docker_cannot_start_containers() {
    for change in [host_network, published_port] {
        let host = Host::new();
        let old = host.run_with("dd", change);
        host.twin
            .break_runtime(Some("OCI runtime create failed: exit status 1"));
        let report = host.once(NEW).await;
        let delegate = row(&report, "dd");
        assert_eq!(delegate.reason.as_str(), "start_refused");
        assert!(delegate.message.contains("exit status 1"), "{}", delegate.message);
        assert_eq!(host.writes_on(old.as_str()), []);
        assert_eq!(host.names(), ["dd"]);
        host.twin.break_runtime(None);
        host.upgrade(NEW).await;
    }
}

/// Nor is anything stopped if the engine fails, but only briefly.
#[tokio::test(start_paused = true)]
async fn retries_when_the_engine_fails_to_start_a_trial() {
    let host = Host::new();
    host.run_with("dd", published_port);
    let mut failures = 0;
    host.twin.set_faults(move |call| {
        let is_trial = call.operation == Operation::Start && call.subject.starts_with("dd.trial-");
        failures += usize::from(is_trial);
        if is_trial && failures < 3 {
            return Fault::Refuse(500);
        }
        Fault::None
    });
    host.upgrade(NEW).await;
}

/// Nor if someone removed the new image meanwhile. The next run pulls it again.
#[tokio::test(start_paused = true)]
async fn withdraws_a_candidate_whose_image_vanishes_before_its_trial() {
    let host = Host::new();
    let old = host.run_with("dd", published_port);
    let image = host.publish(NEW, good());
    host.fault_where(Fault::Refuse(500), |call| {
        call.operation == Operation::Create && call.subject.contains(".trial-")
    });
    let mut upgrader = host.begin(NEW, Duration::from_secs(20)).await;
    host.twin.clear_faults();
    host.twin.remove_image(image.as_str());
    let report = host.finish(&mut upgrader).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "start_refused");
    assert_eq!(host.writes_on(old.as_str()), []);
    host.upgrade(NEW).await;
}

/// If the image has the trial's command, the trial may run when it should be removed, or outlive a killed process.
#[tokio::test(start_paused = true)]
async fn removes_every_trial() {
    let host = Host::new();
    let behaviour = Behaviour {
        has_true: true,
        ..good()
    };
    host.publish(NEW, behaviour);
    host.run_with("dd", published_port);
    let mut removals = 0;
    host.fault_where(Fault::ErrBefore, move |call| {
        let is_removal = call.operation == Operation::Remove;
        removals += usize::from(is_removal);
        is_removal && removals == 1
    });
    host.upgrade(NEW).await;
    let trials = host.twin.events();
    let started = trials.iter().filter(|event| event.what == Happened::Started);
    assert_eq!(started.count(), 3, "the old one, the trial and the new one");
}

/// It came back once, which says nothing about the next time it is asked to stop.
#[tokio::test(start_paused = true)]
async fn restarts_an_old_container_each_time_it_has_to_come_back() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy().ready_in(DRAIN));
    host.run_with("dd", host_network);
    let mut upgrader = host.upgrader(NEW);
    host.scheduled_run(&mut upgrader).await;
    host.fault_where(Fault::ErrAfter, |call| {
        call.operation == Operation::Stop && call.subject.starts_with("dd.draining")
    });
    upgrader.retry("dd", Request::default()).await.unwrap();
    let report = host.finish(&mut upgrader).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "rejected");
    let now = host.find("dd");
    assert_eq!((now.image.as_str(), now.state), (OLD, RunState::Running));
    assert_eq!(host.names(), ["dd", "dd.failed-2"]);
    host.twin.clear_faults();
    host.twin.set_behaviour(NEW, &good());
    upgrader.retry("dd", Request::default()).await.unwrap();
    host.finish(&mut upgrader).await;
    host.assert_settled_on("dd", NEW, "");
}
