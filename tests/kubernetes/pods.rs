//! The reasons for which pods fail.

use delegate_upgrader::kubernetes::pods::{last_failure, selector};
use serde_json::{Value, json};

use crate::read::{at, deployment};

fn pod(status: &Value) -> Value {
    json!({
        "metadata": { "name": "delegate-1", "creationTimestamp": "2026-11-24T12:00:00Z" },
        "spec": { "containers": [{ "name": "delegate", "image": "harness/delegate:26.12.1",
            "env": [{ "name": "DELEGATE_TOKEN", "value": "0123456789abcdef" }] }] },
        "status": status,
    })
}

fn container(state: &Value, last: &Value) -> Value {
    let ready = json!({ "type": "Ready", "status": "False", "lastTransitionTime": "2026-11-24T12:01:00Z" });
    json!({
        "conditions": [ready],
        "containerStatuses": [{ "name": "delegate", "state": state, "lastState": last }],
    })
}

fn error_of(status: &Value) -> Option<String> {
    last_failure(&[pod(status)], "delegate").map(|failing| failing.failure.error)
}

#[test]
fn distinguishes_a_failed_pull_from_a_container_that_exits() {
    let pull = json!({ "waiting": { "reason": "ImagePullBackOff", "message": "Back-off pulling image" } });
    let status = container(&pull, &json!({}));
    assert_eq!(
        error_of(&status).as_deref(),
        Some("ImagePullBackOff: Back-off pulling image")
    );
    let crash = json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 10s" } });
    let ended =
        json!({ "terminated": { "exitCode": 1, "reason": "Error", "finishedAt": "2026-11-24T12:02:00Z" } });
    let failing = last_failure(&[pod(&container(&crash, &ended))], "delegate").unwrap();
    assert_eq!(failing.failure.error, "exit code 1");
    assert_eq!(failing.failure.at, at("2026-11-24T12:02:00Z"));
    assert_eq!(failing.failure.image, "harness/delegate:26.12.1");
    let killed = json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-24T12:02:00Z" } });
    assert_eq!(
        error_of(&container(&killed, &json!({}))).as_deref(),
        Some("it ran out of memory, exit code 137")
    );
}

#[test]
fn a_starting_or_running_pod_has_not_failed() {
    let creating = json!({ "waiting": { "reason": "ContainerCreating" } });
    assert_eq!(error_of(&container(&creating, &json!({}))), None);
    let running = json!({ "running": { "startedAt": "2026-11-24T12:00:30Z" } });
    assert_eq!(error_of(&container(&running, &json!({}))), None);
}

#[test]
fn an_unschedulable_pod_reports_the_reason() {
    let status = json!({ "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient memory.", "lastTransitionTime": "2026-11-24T12:00:00Z",
    }] });
    assert_eq!(
        error_of(&status).as_deref(),
        Some("Unschedulable: 0/1 nodes are available: 1 Insufficient memory.")
    );
}

#[test]
fn a_pods_log_is_shown_without_secrets() {
    let ended = json!({ "terminated": {
        "exitCode": 1, "finishedAt": "2026-11-24T12:02:00Z", "message": "bad token 0123456789abcdef",
    } });
    let failing = last_failure(&[pod(&container(&ended, &json!({})))], "delegate").unwrap();
    assert_eq!(failing.failure.error, "exit code 1: bad token ***");
    assert_eq!(failing.redacted("a\ntoken 0123456789abcdef"), ["a", "token ***"]);
    assert_eq!(
        failing.log_queries("delegate")[0],
        "container=delegate&tailLines=10&previous=true"
    );
}

#[test]
fn pods_are_selected_by_the_deployments_selector() {
    let encoded = selector(&deployment()).unwrap();
    assert_eq!(encoded, "app%3Ddelegate%2Charness%2Eio%2Fname%3Dx%2Fy");
}
