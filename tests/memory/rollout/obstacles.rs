//! Files, volumes and owners that keep a delegate from being replaced.

use delegate_upgrader::engine::Engine;
use serde_json::{Value, json};

use super::host::{GROUP, Host, NEW, OLD, row};
use kit::twin::{Fault, Operation, delegate_body};

const COMPOSE: &str = "com.docker.compose.project";
const FILE: &str = "/etc/delegate/config.yml";

/// Runs a delegate with these labels and a file that was copied into it.
async fn with_file(host: &Host, labels: Value) {
    let mut body = delegate_body(GROUP, OLD);
    body["Labels"] = labels;
    let id = host.twin.create("dd", None, &body).await.unwrap();
    host.twin.copy_in("dd", FILE);
    host.twin.start(&id).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn leaves_a_delegate_with_files_copied_in_by_compose_alone() {
    let host = Host::new();
    with_file(&host, json!({ COMPOSE: "site" })).await;
    let planned = host.upgrader(NEW).plan(|_| ()).await.unwrap();
    assert!(planned[0].message.contains(FILE), "{planned:?}");
    let before = host.twin.writes().len();
    let report = host.once(NEW).await;
    let dd = row(&report, "dd");
    assert_eq!(dd.reason.as_str(), "obstacle");
    assert!(
        dd.message.contains(&format!("{FILE} was copied")),
        "{}",
        dd.message
    );
    assert!(report.has_failures());
    assert_eq!(host.find("dd").image, OLD);
    assert_eq!(host.twin.writes().len(), before);
}

/// An owner who copies a file in by hand knows about it, and the copy has the original's time.
#[tokio::test(start_paused = true)]
async fn checks_only_the_files_that_compose_copies_in() {
    let host = Host::new();
    with_file(&host, json!({})).await;
    host.upgrade(NEW).await;
    assert_eq!(host.count(Operation::CopiedFiles), 0);
}

#[tokio::test(start_paused = true)]
async fn asks_for_copied_files_once_and_upgrades_even_if_a_proxy_forbids_it() {
    for status in [None, Some(401), Some(403), Some(405)] {
        let host = Host::new();
        host.fault(Operation::CopiedFiles, status.map_or(Fault::None, Fault::Refuse));
        host.run_with("dd", |body| body["Labels"] = json!({ COMPOSE: "site" }));
        host.upgrade(NEW).await;
        assert_eq!(host.count(Operation::CopiedFiles), 1);
    }
}

/// Half a million files have changed in the delegate: any of them may have been copied.
#[tokio::test(start_paused = true)]
async fn too_many_changed_files_are_an_obstacle() {
    let host = Host::new();
    host.fault(Operation::CopiedFiles, Fault::TooMuch);
    host.run_with("dd", |body| body["Labels"] = json!({ COMPOSE: "site" }));
    let report = host.once(NEW).await;
    let dd = row(&report, "dd");
    assert_eq!((dd.reason.as_str(), dd.image.as_str()), ("obstacle", OLD));
    assert!(dd.message.contains("too many files changed"), "{}", dd.message);
}

/// Without an answer, there may be a file, which would be lost. Usually the next observation gets an answer.
#[tokio::test(start_paused = true)]
async fn checks_for_copied_files_again_before_any_change() {
    use Fault::{ErrBefore, Hang, Refuse};
    for fault in [Refuse(404), Refuse(500), Refuse(503), Hang, ErrBefore] {
        for has_file in [false, true] {
            for failures in [2, usize::MAX] {
                asks_again(fault.clone(), has_file, failures).await;
            }
        }
    }
}

async fn asks_again(fault: Fault, has_file: bool, mut failures: usize) {
    let context = format!("{fault:?} {has_file} {failures}");
    let host = Host::new();
    if has_file {
        with_file(&host, json!({ COMPOSE: "site" })).await;
    } else {
        host.run_with("dd", |body| body["Labels"] = json!({ COMPOSE: "site" }));
    }
    let recovers = failures < usize::MAX;
    host.twin.set_faults(move |call| {
        if call.operation != Operation::CopiedFiles || failures == 0 {
            return Fault::None;
        }
        failures -= 1;
        fault.clone()
    });
    let planned = host.upgrader(NEW).plan(|_| ()).await.unwrap();
    assert_ne!(planned[0].action, "replace", "{context}");
    let report = host.once(NEW).await;
    let dd = row(&report, "dd");
    let (reason, image) = match (recovers, has_file) {
        (false, _) => ("engine_error", OLD),
        (true, true) => ("obstacle", OLD),
        (true, false) => ("up_to_date", NEW),
    };
    assert_eq!(
        (dd.reason.as_str(), dd.image.as_str()),
        (reason, image),
        "{context}"
    );
    assert_eq!(report.has_failures(), reason != "up_to_date", "{context}");
    if !recovers {
        assert_eq!(host.count(Operation::Pull), 0);
        let step = "find out whether it can be recreated as it is: ";
        assert!(dd.message.starts_with(step), "{}", dd.message);
    }
}

/// A container that only holds volumes is often never started.
#[tokio::test(start_paused = true)]
async fn takes_volumes_from_a_stopped_container_but_not_a_missing_one() {
    let host = Host::new();
    let body = json!({ "Image": OLD });
    let data = host.twin.create("data", None, &body).await.unwrap();
    for (name, from) in [
        ("dd", "data:ro"),
        ("lost", "nobody"),
        ("short", &data.as_str()[..11]),
    ] {
        host.run_with(name, |body| body["HostConfig"]["VolumesFrom"] = json!([from]));
    }
    let report = host.once(NEW).await;
    assert_eq!(host.find("dd").image, NEW);
    assert_eq!(host.find("short").image, NEW);
    assert_eq!(row(&report, "lost").reason.as_str(), "obstacle");
    assert_eq!(host.find("lost").image, OLD);
}
