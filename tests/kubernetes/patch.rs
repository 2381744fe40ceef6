//! From a step to the patch that takes it.

use delegate_upgrader::kubernetes::own;
use delegate_upgrader::kubernetes::patch::patch;
use delegate_upgrader::kubernetes::read::read;
use delegate_upgrader::managed::{Managed, Object, Record, Step};
use delegate_upgrader::rollout::Intent;
use delegate_upgrader::schedule::zone::Zone;
use serde_json::{Value, json};

use crate::read::{at, deployment};

const A: &str = "harness/delegate:26.10.1";
const B: &str = "harness/delegate:26.11.1";

fn of(document: &Value, step: &Step) -> Value {
    let managed = read(document, ("delegate", "delegate"), None, &Zone::utc()).unwrap();
    let document = document.clone();
    let object = Object { managed, document };
    patch(&object, "delegate", step, at("2026-11-24T12:30:00Z"))
}

fn begin() -> Step {
    Step::Begin {
        to: B.parse().unwrap(),
        intent: Intent::Upgrade,
    }
}

/// The Deployment after this patch.
fn patched(document: &Value, patch: &Value) -> Value {
    let mut document = document.clone();
    let annotations = document["metadata"]["annotations"].as_object_mut().unwrap();
    for (name, value) in patch["metadata"]["annotations"].as_object().unwrap() {
        match value {
            Value::Null => annotations.remove(name),
            value => annotations.insert(name.clone(), value.clone()),
        };
    }
    if let Some(image) = patch.pointer("/spec/template/spec/containers/0/image") {
        document["spec"]["template"]["spec"]["containers"][1]["image"] = image.clone();
    }
    document
}

fn record(document: &Value) -> (Managed, Record) {
    let managed = read(document, ("delegate", "delegate"), None, &Zone::utc()).unwrap();
    let record = managed.record.clone();
    (managed, record)
}

#[test]
fn one_patch_records_old_image_target_and_start_time() {
    let patch = of(&deployment(), &begin());
    assert_eq!(
        patch,
        json!({
            "metadata": {
                "resourceVersion": "41",
                "annotations": {
                    "io.delegate-upgrader.release": "1",
                    "io.delegate-upgrader.history": format!("0 original 2026-11-24T12:30:00Z {A}"),
                    "io.delegate-upgrader.attempt-image": B,
                    "io.delegate-upgrader.attempt-from": A,
                    "io.delegate-upgrader.attempt-revision": "2",
                    "io.delegate-upgrader.attempt-since": "2026-11-24T12:30:00Z",
                    "io.delegate-upgrader.attempt-intent": "upgrade",
                    "io.delegate-upgrader.attempt-applied": "true",
                    "kubernetes.io/change-cause": format!("delegate-upgrader: {A} to {B}"),
                },
            },
            "spec": { "template": { "spec": { "containers": [{ "name": "delegate", "image": B }] } } },
        })
    );
    let (managed, record) = record(&patched(&deployment(), &patch));
    assert_eq!(managed.image.as_str(), B);
    assert!(record.attempt.unwrap().is_applied);
}

fn roll_back() -> Step {
    let cause = "Kubernetes stopped the update: late".to_owned();
    Step::RollBack {
        to: A.to_owned(),
        cause,
    }
}

fn quarantine(cause: String) -> Step {
    let image = B.to_owned();
    Step::Quarantine { image, cause }
}

#[test]
fn patches_only_the_image_in_the_template_and_never_replicas() {
    let begun = patched(&deployment(), &of(&deployment(), &begin()));
    let steps = [
        begin(),
        roll_back(),
        quarantine("late".to_owned()),
        Step::NoteRollback { from: B.to_owned() },
        Step::NoteFirstSeen { image: B.to_owned() },
    ];
    for step in steps {
        let patch = of(&begun, &step);
        assert_eq!(patch["metadata"]["resourceVersion"], "41", "{step:?}");
        let none = json!({ "template": { "spec": { "containers": [] } } });
        let spec = patch.get("spec").unwrap_or(&none);
        assert_eq!(spec.as_object().unwrap().len(), 1, "{step:?}");
        assert_eq!(spec["template"].as_object().unwrap().len(), 1, "{step:?}");
        assert_eq!(spec["template"]["spec"].as_object().unwrap().len(), 1, "{step:?}");
        for container in spec["template"]["spec"]["containers"].as_array().unwrap() {
            let fields: Vec<_> = container.as_object().unwrap().keys().collect();
            assert_eq!(fields, ["image", "name"], "{step:?}");
        }
    }
}

#[test]
fn a_rollback_records_its_cause_and_ends_in_quarantine() {
    let begun = patched(&deployment(), &of(&deployment(), &begin()));
    let back = patched(&begun, &of(&begun, &roll_back()));
    let (managed, back_record) = record(&back);
    assert_eq!(managed.image.as_str(), A);
    let failed = back_record.attempt.unwrap().failed.unwrap();
    assert!(failed.contains("late"), "{failed}");
    let put = patched(&back, &of(&back, &quarantine(failed)));
    let (_, put_record) = record(&put);
    assert_eq!(put_record.attempt, None);
    let failed = put_record.failed.unwrap();
    assert_eq!((failed.image.as_str(), failed.attempts), (B, 1));
}

#[test]
fn a_cron_job_is_derived_from_its_pods_name() {
    for minute in ["28537890", "1606200000"] {
        let pod = format!("delegate-upgrader-job-{minute}-x7k2p");
        assert_eq!(own::cronjob_of(&pod), Some("delegate-upgrader-job"));
    }
    // A job that was created by hand.
    assert_eq!(own::cronjob_of("by-hand-x7k2p"), None);
    // The API server cuts names that would exceed 63 characters with its own five.
    for (length, minute) in (40..=52).flat_map(|length| [(length, "28537890"), (length, "1606200000")]) {
        let name = format!("{}z", &"delegate-upgrader-job-".repeat(3)[..length - 1]);
        let generate_name = format!("{name}-{minute}-");
        let pod = format!("{}1234x", &generate_name[..generate_name.len().min(58)]);
        assert_eq!(own::cronjob_of(&pod), Some(name.as_str()), "{pod}");
    }
    assert_eq!(own::cronjob_of("host"), None);
    let document = json!({ "metadata": { "resourceVersion": "9" } });
    let patch = own::patch(&document, "upgrader", "harness/upgrader:1", "harness/upgrader:2");
    assert_eq!(
        patch,
        json!({
            "metadata": {
                "resourceVersion": "9",
                "annotations": { "io.delegate-upgrader.previous-image": "harness/upgrader:1" },
            },
            "spec": { "jobTemplate": { "spec": { "template": { "spec": { "containers": [
                { "name": "upgrader", "image": "harness/upgrader:2" },
            ] } } } } },
        })
    );
}
