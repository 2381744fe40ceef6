//! Interprets a Deployment's document.

use std::time::Duration;

use serde_json::Value;

use crate::container::Inspected;
use crate::image::ImageName;
use crate::managed::label::SETTINGS;
use crate::managed::{Managed, NO_TASK, Orchestrator, Progress, Record, SettingsChange, TaskFailure, Tasks};
use crate::observe;
use crate::rollout::reason::Reason;
use crate::schedule::zone::Zone;
use crate::text::redact::Redactor;
use crate::text::{one_line, time};

/// On a Deployment: the number of its last change; on a ReplicaSet: that of the change that used it last.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// The most characters of a failure's cause.
pub(super) const LONGEST: usize = 300;

/// The reason in the `Progressing` condition after all pods of the last change became available.
const COMPLETE: &str = "NewReplicaSetAvailable";
/// The reason in that condition after `progressDeadlineSeconds` without progress.
const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";

/// Reads a Deployment. `container` is the container whose image is followed, `workload` is its `DELEGATE_NAME` unless its
/// environment sets one, and `account` is the upgrader's account.
///
/// # Errors
/// The Deployment has no such container.
pub fn read(
    document: &Value,
    (container, workload): (&str, &str),
    account: Option<&str>,
    zone: &Zone,
) -> Result<Managed, Reason> {
    let text = |path: &str| document.pointer(path).and_then(Value::as_str);
    let name = text("/metadata/name").unwrap_or_default().to_owned();
    let template = &document["spec"]["template"];
    let Some(ours) = container_of(template, container) else {
        let found = template["spec"]["containers"].as_array().into_iter().flatten();
        let found: Vec<&str> = found.filter_map(|found| found["name"].as_str()).collect();
        return Err(Reason::NoSuchContainer {
            deployment: name,
            container: container.to_owned(),
            found: found.join(", "),
        });
    };
    let image = ours["image"].as_str().unwrap_or_default();
    let settings = settings(template);
    let annotation = |name: &str| annotation(document, name);
    let variables = variables(template, container);
    let theirs = variables.env("ACCOUNT_ID");
    let limits = observe::owner_by(|name| mark(document, name), theirs, account, zone);
    let named = variables.env("DELEGATE_NAME").filter(|name| !name.is_empty());
    Ok(Managed {
        orchestrator: Orchestrator::Kubernetes,
        id: text("/metadata/uid").unwrap_or_default().to_owned(),
        workload: named.unwrap_or(workload).to_owned(),
        image: ImageName::from(image),
        revision: annotation(REVISION).and_then(|text| text.parse().ok()),
        updated_at: None,
        progress: progress(document),
        tasks: tasks(
            document,
            (image, &settings),
            &Redactor::new(variables.environment()),
        ),
        settings,
        record: Record::read(annotation),
        left_alone: limits.left_alone(),
        limits,
        pace: Duration::from_secs(count(document, "/spec/minReadySeconds").unwrap_or_default()),
        name,
    })
}

/// Returns the container with this name in a pod or a pod template.
pub(super) fn container_of<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    let mut containers = pod.pointer("/spec/containers")?.as_array()?.iter();
    containers.find(|container| container["name"].as_str() == Some(name))
}

/// Returns the last change of the settings of a pod or a pod template.
pub(super) fn settings(pod: &Value) -> SettingsChange {
    SettingsChange::read(annotation(pod, SETTINGS))
}

/// Returns the variables that are set in this container of a pod or a pod template, as in Docker's documents.
pub(super) fn variables(pod: &Value, container: &str) -> Inspected {
    let env = container_of(pod, container).and_then(|container| container["env"].as_array());
    let env = env.into_iter().flatten();
    // Kubernetes omits an empty value.
    let is_set = |it: &&Value| it.get("valueFrom").is_none();
    let env = env.filter(is_set);
    let set = |it: &Value| {
        let value = it["value"].as_str().unwrap_or_default();
        Some(format!("{}={value}", it["name"].as_str()?))
    };
    Inspected::with_variables(&env.filter_map(set).map(Value::from).collect())
}

pub(super) fn count(document: &Value, path: &str) -> Option<u64> {
    document.pointer(path).and_then(Value::as_u64)
}

/// Returns the wanted number of pods. Kubernetes sets it to 1 by default.
pub(super) fn replicas(document: &Value) -> u64 {
    count(document, "/spec/replicas").unwrap_or(1)
}

/// Returns an annotation of an object.
pub(super) fn annotation<'a>(document: &'a Value, name: &str) -> Option<&'a str> {
    document.pointer("/metadata/annotations")?.get(name)?.as_str()
}

/// Returns an annotation of an object, or the label with that name.
pub(super) fn mark<'a>(document: &'a Value, name: &str) -> Option<&'a str> {
    annotation(document, name).or_else(|| document.pointer("/metadata/labels")?.get(name)?.as_str())
}

/// Returns the condition of this type in an object's status.
pub(super) fn condition<'a>(document: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = document.pointer("/status/conditions")?.as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"].as_str() == Some(kind))
}

/// Whether the status reflects the current spec.
fn is_observed(document: &Value) -> bool {
    let generation = count(document, "/metadata/generation").unwrap_or_default();
    count(document, "/status/observedGeneration").is_some_and(|observed| observed >= generation)
}

fn progress(document: &Value) -> Progress {
    if document.pointer("/spec/paused").and_then(Value::as_bool) == Some(true) {
        return Progress::Paused {
            by_failure: false,
            message: "spec.paused is true".to_owned(),
        };
    }
    // A condition may still be about the previous spec.
    if !is_observed(document) {
        return Progress::Updating;
    }
    let progressing = condition(document, "Progressing");
    let reason = progressing.and_then(|progressing| progressing["reason"].as_str());
    match (reason, progressing) {
        (Some(DEADLINE_EXCEEDED), Some(progressing)) => Progress::Paused {
            by_failure: true,
            message: progressing["message"]
                .as_str()
                .unwrap_or(DEADLINE_EXCEEDED)
                .to_owned(),
        },
        // This reason remains when a pod fails later, and when a Deployment that was complete with no pods gets some. In the
        // latter case, Kubernetes applies no deadline.
        (Some(COMPLETE), Some(progressing)) => Progress::Settled {
            completed_at: time::of(&progressing["lastUpdateTime"]).filter(|_| is_available(document)),
        },
        // Without progressDeadlineSeconds, this condition does not exist.
        (None, _) if is_complete(document) => Progress::Settled { completed_at: None },
        _ => Progress::Updating,
    }
}

/// Whether the status may not be about the last change yet: it was seen to report `progressDeadlineSeconds` without progress wrongly right
/// after one. Callers read it twice before they act.
pub fn may_be_outdated(document: &Value) -> bool {
    !is_observed(document) || matches!(progress(document), Progress::Paused { by_failure: true, .. })
}

/// Whether the required minimum of pods is available.
fn is_available(document: &Value) -> bool {
    condition(document, "Available").is_none_or(|available| available["status"].as_str() != Some("False"))
}

/// Whether all pods are updated and available, as `kubectl rollout status` counts them.
fn is_complete(document: &Value) -> bool {
    let status = |name: &str| count(document, &format!("/status/{name}")).unwrap_or_default();
    let (updated, wanted) = (status("updatedReplicas"), replicas(document));
    updated >= wanted && status("replicas") == updated && status("availableReplicas") >= updated
}

fn tasks(document: &Value, present: (&str, &SettingsChange), redactor: &Redactor) -> Tasks {
    let status = |name: &str| count(document, &format!("/status/{name}")).unwrap_or_default();
    // Available pods that are not old are new.
    let old = status("replicas").saturating_sub(status("updatedReplicas"));
    let running = if is_observed(document) {
        status("availableReplicas").saturating_sub(old)
    } else {
        0
    };
    let moment_of = |kind: &str, field: &str| time::of(&condition(document, kind)?[field]);
    // The first time is when a pod last became available or a change was complete; the second, when enough pods were.
    let last = [
        moment_of("Progressing", "lastUpdateTime"),
        moment_of("Available", "lastTransitionTime"),
    ];
    Tasks {
        wanted: replicas(document),
        running,
        last_started_at: last.into_iter().flatten().max().filter(|_| is_observed(document)),
        last_failure: refused(document, present, redactor),
    }
}

/// Returns why no pod of the present image could be created: a quota, a policy, or the namespace's security rules. A policy may quote
/// variables.
fn refused(
    document: &Value,
    (image, settings): (&str, &SettingsChange),
    redactor: &Redactor,
) -> Option<TaskFailure> {
    let failure = condition(document, "ReplicaFailure")?;
    let is_so = failure["status"].as_str() == Some("True");
    let pods = count(document, "/status/updatedReplicas").unwrap_or_default();
    if !is_so || pods > 0 || !is_observed(document) {
        return None;
    }
    let text = |name: &str| failure[name].as_str().unwrap_or_default();
    Some(TaskFailure {
        at: time::of(&failure["lastUpdateTime"])?,
        image: image.to_owned(),
        settings: settings.release,
        error: one_line(
            &format!("{NO_TASK}{}: {}", text("reason"), redactor.line(text("message"))),
            LONGEST,
        ),
        ran_for: None,
    })
}
