//! What is on the host, or was put into a delegate, and keeps it from being replaced.

use delegate_upgrader::engine::Engine;
use serde_json::json;

use super::host::{Host, NEW, OLD, row};
use kit::twin::{Fault, Operation, delegate_body};

const COMPOSE: &str = "com.docker.compose.project";

async fn with_config(host: &Host, labels: serde_json::Value) {
    let mut body = delegate_body(super::host::GROUP, OLD);
    body["Labels"] = labels;
    let id = host.twin.create("dd", None, &body).await.unwrap();
    host.twin.copy_in("dd", "/etc/delegate/config.yml");
    host.twin.start(&id).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_compose_config_in_the_container_s_own_files_is_not_lost() {
    let host = Host::new();
    with_config(&host, json!({ COMPOSE: "site" })).await;
    let planned = host.upgrader(NEW).plan(|_| ()).await.unwrap();
    assert!(
        planned[0].message.contains("/etc/delegate/config.yml"),
        "{planned:?}"
    );
    let report = host.once(NEW).await;
    let told = row(&report, "dd");
    assert_eq!(told.reason.as_str(), "obstacle");
    assert!(
        told.message.contains("/etc/delegate/config.yml was copied"),
        "{}",
        told.message
    );
    assert!(report.has_failures());
    assert_eq!(host.find("dd").image, OLD);
    let begun = [
        Operation::Pull,
        Operation::Create,
        Operation::Rename,
        Operation::Stop,
    ];
    let calls = host.twin.calls();
    let mut after_the_start = calls.iter().skip_while(|call| call.operation != Operation::Start);
    assert!(!after_the_start.any(|call| begun.contains(&call.operation)));
}

/// Whoever copies a file in by hand knows of it, and its time is that of the file it was copied from.
#[tokio::test(start_paused = true)]
async fn only_files_that_compose_copies_in_are_checked() {
    let host = Host::new();
    with_config(&host, json!({})).await;
    assert!(!host.once(NEW).await.has_failures());
    assert_eq!(host.find("dd").image, NEW);
    assert!(
        !host
            .twin
            .calls()
            .iter()
            .any(|call| call.operation == Operation::CopiedFiles)
    );
}

#[tokio::test(start_paused = true)]
async fn copied_files_are_queried_once_and_a_proxy_that_forbids_it_holds_up_no_delegate() {
    for status in [None, Some(401), Some(403), Some(405)] {
        asked_once(status.map_or(Fault::None, Fault::Refuse)).await;
    }
}

/// Without an answer a file may be there, and would be lost. There is one mostly at the next observation.
#[tokio::test(start_paused = true)]
async fn an_engine_that_cannot_list_files_now_is_asked_again_before_anything_is_done() {
    for fault in [
        Fault::Refuse(404),
        Fault::Refuse(500),
        Fault::Refuse(503),
        Fault::Hang,
        Fault::ErrBefore,
    ] {
        for has_file in [false, true] {
            // It gets over it, or it does not.
            for faulty in [2, usize::MAX] {
                is_asked_again(fault.clone(), has_file, faulty).await;
            }
        }
    }
}

async fn is_asked_again(fault: Fault, has_file: bool, mut faulty: usize) {
    let context = format!("{fault:?} {has_file} {faulty}");
    let host = Host::new();
    if has_file {
        with_config(&host, json!({ COMPOSE: "site" })).await;
    } else {
        host.run_with("dd", |body| body["Labels"] = json!({ COMPOSE: "site" }));
    }
    let is_cured = faulty < usize::MAX;
    host.twin.set_faults(move |call| {
        if call.operation != Operation::CopiedFiles || faulty == 0 {
            return Fault::None;
        }
        faulty -= 1;
        fault.clone()
    });
    let planned = host.upgrader(NEW).plan(|_| ()).await.unwrap();
    assert_ne!(planned[0].action, "replace", "{context}");
    let report = host.once(NEW).await;
    let told = row(&report, "dd");
    let expected = match (is_cured, has_file) {
        (false, _) => "engine_error",
        (true, true) => "obstacle",
        (true, false) => "up_to_date",
    };
    assert_eq!(told.reason.as_str(), expected, "{context}");
    assert_eq!(report.has_failures(), expected != "up_to_date", "{context}");
    let image = if expected == "up_to_date" { NEW } else { OLD };
    assert_eq!(host.find("dd").image, image, "{context}");
    if !is_cured {
        assert_eq!(
            host.twin
                .writes()
                .into_iter()
                .filter(|call| call.operation == Operation::Pull)
                .count(),
            0
        );
        assert!(
            told.message
                .starts_with("find out whether it can be recreated as it is: "),
            "{}",
            told.message
        );
    }
}

async fn asked_once(fault: Fault) {
    let host = Host::new();
    host.twin.set_faults(move |call| match call.operation {
        Operation::CopiedFiles => fault.clone(),
        _ => Fault::None,
    });
    host.run_with("dd", |body| body["Labels"] = json!({ COMPOSE: "site" }));
    assert!(!host.once(NEW).await.has_failures());
    assert_eq!(host.find("dd").image, NEW);
    let calls = host.twin.calls();
    let asked = calls
        .iter()
        .filter(|call| call.operation == Operation::CopiedFiles);
    assert_eq!(asked.count(), 1);
}

/// A start would be refused, and then there would be neither the new one nor, after its stop, the old one.
#[tokio::test(start_paused = true)]
async fn a_delegate_whose_namespace_has_lost_its_holder_is_left_alone() {
    for gone in [false, true] {
        let host = Host::new();
        let vpn = host.twin.run("vpn", &json!({ "Image": OLD }));
        host.run_with("dd", |body| {
            body["HostConfig"]["NetworkMode"] = json!(format!("container:{}", vpn.as_str()));
        });
        host.twin.stop(&vpn, std::time::Duration::ZERO).await.unwrap();
        if gone {
            host.twin.remove(&vpn).await.unwrap();
        }
        let report = host.once(NEW).await;
        let told = row(&report, "dd");
        assert_eq!(told.reason.as_str(), "obstacle");
        let sentence = format!("it shares the network of {}, which is not running", vpn.as_str());
        assert!(told.message.contains(&sentence), "{}", told.message);
        assert_eq!(host.writes_on("dd"), []);
        assert_eq!(host.find("dd").image, OLD);
    }
}

/// A container that only holds volumes is mostly not even started.
#[tokio::test(start_paused = true)]
async fn volumes_come_from_a_stopped_container_too_but_not_from_none() {
    let host = Host::new();
    let data = host
        .twin
        .create("data", None, &json!({ "Image": OLD }))
        .await
        .unwrap();
    host.run_with("dd", |body| {
        body["HostConfig"]["VolumesFrom"] = json!(["data:ro"]);
    });
    host.run_with("lost", |body| {
        body["HostConfig"]["VolumesFrom"] = json!(["nobody"]);
    });
    host.run_with("short", |body| {
        body["HostConfig"]["VolumesFrom"] = json!([&data.as_str()[..11]]);
    });
    let report = host.once(NEW).await;
    assert_eq!(host.find("dd").image, NEW);
    assert_eq!(host.find("short").image, NEW);
    assert_eq!(row(&report, "lost").reason.as_str(), "obstacle");
    assert_eq!(host.find("lost").image, OLD);
}

/// Whoever made it replaces it, so there is nothing to pull for it.
#[tokio::test(start_paused = true)]
async fn a_task_of_swarm_is_left_alone_before_anything_is_pulled() {
    let host = Host::new();
    host.run_with("dd", |body| {
        body["Labels"] = json!({ "com.docker.swarm.task.id": "task" });
    });
    let planned = host.upgrader(NEW).plan(|_| ()).await.unwrap();
    assert!(
        planned[0].message.contains("managed by Docker Swarm"),
        "{planned:?}"
    );
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "obstacle");
    assert_eq!(host.twin.writes(), []);
}
