//! The meaning of a Deployment's document.

use chrono::{DateTime, Utc};
use delegate_upgrader::kubernetes::read::read;
use delegate_upgrader::kubernetes::warnings::{last_writer, owner, warnings};
use delegate_upgrader::managed::{Managed, Progress};
use delegate_upgrader::rollout::reason::{Reason, ReasonKind};
use delegate_upgrader::schedule::zone::Zone;
use serde_json::{Value, json};

pub(crate) fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// A Deployment of the chart, with two pods that have been complete since noon.
pub(crate) fn deployment() -> Value {
    json!({
        "metadata": {
            "name": "delegate", "uid": "7a5b", "resourceVersion": "41", "generation": 3,
            "annotations": { "deployment.kubernetes.io/revision": "2" },
        },
        "spec": {
            "replicas": 2, "minReadySeconds": 120,
            "selector": { "matchLabels": { "app": "delegate", "harness.io/name": "x/y" } },
            "template": { "spec": { "containers": [
                { "name": "sidecar", "image": "fluent-bit:2" },
                { "name": "delegate", "image": "harness/delegate:26.10.1",
                  "env": [{ "name": "DELEGATE_NAME", "value": "kubernetes-delegate" }] },
            ] } },
        },
        "status": {
            "observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2,
            // Since Kubernetes 1.33: old pods that are still finishing their tasks. `replicas` does not include them.
            "terminatingReplicas": 1,
            "conditions": [
                { "type": "Available", "status": "True", "lastTransitionTime": "2026-11-24T11:58:00Z" },
                { "type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
                  "lastUpdateTime": "2026-11-24T12:00:00Z" },
            ],
        },
    })
}

fn of(document: &Value) -> Managed {
    read(document, ("delegate", "delegate"), None, &Zone::utc()).unwrap()
}

fn with(changes: &[(&str, Value)]) -> Value {
    let mut document = deployment();
    for (path, value) in changes {
        let (parent, name) = path.rsplit_once('/').unwrap();
        document.pointer_mut(parent).unwrap()[name] = value.clone();
    }
    document
}

fn progressing(reason: &str) -> (&'static str, Value) {
    let condition = json!([
        { "type": "Progressing", "status": "False", "reason": reason, "message": "it timed out",
          "lastUpdateTime": "2026-11-24T12:00:00Z" },
    ]);
    ("/status/conditions", condition)
}

#[test]
fn a_complete_rollout_is_settled_since_its_completion() {
    let managed = of(&deployment());
    assert_eq!(managed.workload, "kubernetes-delegate");
    assert_eq!(managed.image.as_str(), "harness/delegate:26.10.1");
    let completed_at = Some(at("2026-11-24T12:00:00Z"));
    assert_eq!(managed.progress, Progress::Settled { completed_at });
    assert_eq!((managed.tasks.wanted, managed.tasks.running), (2, 2));
    assert_eq!(managed.tasks.complete_since(), completed_at);
    assert_eq!(managed.pace.as_secs(), 120);
}

#[test]
fn a_condition_of_an_earlier_generation_is_ignored() {
    let document = with(&[
        ("/metadata/generation", json!(4)),
        progressing("ProgressDeadlineExceeded"),
    ]);
    let managed = of(&document);
    assert_eq!(managed.progress, Progress::Updating);
    assert_eq!(managed.tasks.running, 0);
    assert_eq!(managed.tasks.last_started_at, None);
}

#[test]
fn an_exceeded_deadline_is_a_failure_but_a_pause_is_not() {
    let late = progressing("ProgressDeadlineExceeded");
    let paused = ("/spec/paused", json!(true));
    for (document, by_failure, message) in [
        (with(std::slice::from_ref(&late)), true, "it timed out"),
        (with(&[late, paused]), false, "spec.paused is true"),
    ] {
        let message = message.to_owned();
        let expected = Progress::Paused { by_failure, message };
        assert_eq!(of(&document).progress, expected);
    }
}

#[test]
fn counts_replicas_like_kubectl_if_the_condition_is_missing() {
    let counts = |replicas: u64, updated: u64, available: u64| {
        of(&with(&[
            ("/status/conditions", json!([])),
            ("/status/replicas", json!(replicas)),
            ("/status/updatedReplicas", json!(updated)),
            ("/status/availableReplicas", json!(available)),
        ]))
    };
    for (replicas, updated, available) in [(3, 1, 2), (3, 2, 3), (2, 2, 1), (2, 1, 2)] {
        let progress = counts(replicas, updated, available).progress;
        assert_eq!(progress, Progress::Updating, "{replicas} {updated} {available}");
    }
    assert_eq!(counts(2, 2, 2).progress, Progress::Settled { completed_at: None });
    // Two available old pods do not count as new ones.
    assert_eq!(counts(3, 1, 2).tasks.running, 0);
    assert_eq!(counts(3, 2, 3).tasks.running, 2);
}

#[test]
fn becoming_unhealthy_after_completion_is_not_an_update() {
    let managed = of(&with(&[("/status/availableReplicas", json!(1))]));
    assert!(matches!(managed.progress, Progress::Settled { .. }));
    assert!(!managed.tasks.are_complete());
}

#[test]
fn pods_first_added_after_completion_still_have_to_prove_themselves() {
    let mut document = with(&[("/status/availableReplicas", json!(0))]);
    document["status"]["conditions"][0] = json!({
        "type": "Available", "status": "False", "lastTransitionTime": "2026-11-24T13:00:00Z",
    });
    let managed = of(&document);
    assert_eq!(managed.progress, Progress::Settled { completed_at: None });
    assert_eq!(managed.tasks.last_started_at, Some(at("2026-11-24T13:00:00Z")));
}

#[test]
fn unset_replicas_default_to_one() {
    let mut document = deployment();
    document["spec"].as_object_mut().unwrap().remove("replicas");
    assert_eq!(of(&document).tasks.wanted, 1);
}

#[test]
fn error_names_the_missing_container_and_lists_the_existing_ones() {
    let reason = read(&deployment(), ("delegat", "delegate"), None, &Zone::utc()).unwrap_err();
    assert!(matches!(reason, Reason::NoSuchContainer { .. }));
    assert_eq!(
        reason.to_string(),
        "the Deployment delegate has no container \"delegat\" (it has sidecar, delegate); correct containerName"
    );
}

#[test]
fn a_workload_name_set_by_a_config_map_comes_from_the_file() {
    let mut document = deployment();
    document["spec"]["template"]["spec"]["containers"][1]
        .as_object_mut()
        .unwrap()
        .remove("env");
    assert_eq!(of(&document).workload, "delegate");
}

#[test]
fn owner_settings_are_read_from_annotations_or_labels() {
    let enable = "io.delegate-upgrader.enable";
    let document = with(&[("/metadata/annotations", json!({ enable: "false" }))]);
    assert!(matches!(of(&document).left_alone, Some(Reason::OptedOut { label }) if label == enable));
    let document = with(&[("/metadata/labels", json!({ "io.delegate-upgrader.pin": "26.10" }))]);
    assert!(of(&document).limits.pin.is_some());
    let document = with(&[(
        "/spec/template/spec/containers/1/env",
        json!([{ "name": "ACCOUNT_ID", "value": "theirs" }]),
    )]);
    for (account, reason) in [
        (Some("theirs"), None),
        (Some("ours"), Some(ReasonKind::OtherAccount)),
        (None, None),
    ] {
        let managed = read(&document, ("delegate", "delegate"), account, &Zone::utc()).unwrap();
        let found = managed.left_alone.as_ref().map(Reason::kind);
        assert_eq!(found, reason, "{account:?}");
    }
}

#[test]
fn warns_about_settings_that_can_hurt_or_do_nothing() {
    let of = |path: &str, value: Value| warnings(&with(&[(path, value)])).len();
    let strategy = |strategy: Value| of("/spec/strategy", strategy);
    let rolling = |unavailable: Value| json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": unavailable } });
    assert_eq!(strategy(json!({ "type": "Recreate" })), 1);
    assert_eq!(strategy(rolling(json!("100%"))), 1);
    assert_eq!(strategy(rolling(json!(2))), 1);
    assert_eq!(strategy(rolling(json!("25%"))), 0);
    assert_eq!(strategy(rolling(json!(1))), 0);
    for (seconds, count) in [(30, 1), (600, 0)] {
        let path = "/spec/template/spec/terminationGracePeriodSeconds";
        assert_eq!(of(path, json!(seconds)), count);
    }
    let marks = [
        ("update-order", 1),
        ("stop-timeout", 1),
        ("healthy-deadline", 1),
        ("pin", 0),
        ("window", 0),
    ];
    for (name, count) in marks {
        let mark = json!({ format!("io.delegate-upgrader.{name}"): "26.10" });
        assert_eq!(of("/metadata/annotations", mark.clone()), count, "{name}");
        assert_eq!(of("/metadata/labels", mark), count, "{name}");
    }
}

#[test]
fn recognises_who_else_writes_the_image() {
    let marks = |annotations: Value, labels: Value| {
        owner(&with(&[
            ("/metadata/annotations", annotations),
            ("/metadata/labels", labels),
        ]))
    };
    let argo = json!({ "argocd.argoproj.io/tracking-id": "x" });
    assert_eq!(marks(argo, json!({})).as_deref(), Some("Argo CD"));
    let flux = json!({ "kustomize.toolkit.fluxcd.io/name": "apps" });
    assert_eq!(marks(json!({}), flux).as_deref(), Some("Flux"));
    let helm = marks(
        json!({ "meta.helm.sh/release-name": "delegate" }),
        json!({ "app.kubernetes.io/managed-by": "Helm" }),
    );
    assert_eq!(helm.as_deref(), Some("the Helm release delegate"));
    assert_eq!(marks(json!({}), json!({})), None);
    let write = |manager: &str, time: &str, container: &str| {
        let key = format!("k:{{\"name\":\"{container}\"}}");
        json!({ "manager": manager, "time": time, "fieldsV1": { "f:spec": { "f:template": { "f:spec": {
            "f:containers": { key: { "f:image": {} } } } } } } })
    };
    let fields = json!([
        write("helm", "2026-11-24T10:00:00Z", "delegate"),
        write("argocd-controller", "2026-11-24T12:00:00Z", "delegate"),
        write("kubectl", "2026-11-24T13:00:00Z", "sidecar"),
    ]);
    let document = with(&[("/metadata/managedFields", fields)]);
    let last = last_writer(&document, "delegate");
    assert_eq!(last.as_deref(), Some("argocd-controller"));
}
