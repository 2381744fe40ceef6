//! Settings of a Deployment that can hurt, and the other programs that may write its image. Pure.

use serde_json::Value;

use super::read::{count, mark, replicas};
use crate::container::label;
use crate::text::time;

/// The grace period, in seconds, in which Harness's own manifest and chart let a delegate finish its tasks.
const LEAST_GRACE: u64 = 600;

/// Returns warnings about the owner's annotations that have no effect on a Deployment, each a sentence.
pub fn without_effect(document: &Value) -> Vec<String> {
    let of_a_host = [
        (label::UPDATE_ORDER, "its strategy"),
        (label::STOP_TIMEOUT, "terminationGracePeriodSeconds"),
        (label::HEALTHY_DEADLINE, "progressDeadlineSeconds"),
    ];
    let warning = |(name, instead)| {
        mark(document, name)?;
        Some(format!("{name}: no effect on a Deployment, which has {instead}"))
    };
    of_a_host.into_iter().filter_map(warning).collect()
}

/// Returns warnings about risky settings of this Deployment, each a sentence.
pub fn warnings(document: &Value) -> Vec<String> {
    let mut warnings = without_effect(document);
    let grace = count(document, "/spec/template/spec/terminationGracePeriodSeconds");
    warnings.extend(grace.filter(|grace| *grace < LEAST_GRACE).map(|grace| {
        format!("its terminationGracePeriodSeconds of {grace} cuts off tasks that last longer; set {LEAST_GRACE} or more")
    }));
    let (wanted, strategy) = (replicas(document), &document["spec"]["strategy"]);
    let unavailable = &strategy["rollingUpdate"]["maxUnavailable"];
    let cause = match strategy["type"].as_str() {
        Some("Recreate") => Some("its strategy is Recreate, which".to_owned()),
        _ if wanted == 0 || at_most(unavailable, wanted) < wanted => None,
        _ => Some(format!("its maxUnavailable of {unavailable}")),
    };
    warnings.extend(cause.map(|cause| {
        format!("{cause} lets all pods stop before a new one is ready, so an image that fails is an outage until it is rolled back")
    }));
    warnings.extend(owner(document).map(|owner| {
        format!("{owner} manages it, and may set its own image again, which counts as a rollback: have it ignore the image")
    }));
    warnings
}

/// Parses a number or percentage of pods. Rounds percentages down, as Kubernetes does for `maxUnavailable`.
fn at_most(value: &Value, of: u64) -> u64 {
    let percentage = || value.as_str()?.strip_suffix('%')?.parse::<u64>().ok();
    percentage().map_or_else(
        || value.as_u64().unwrap_or_default(),
        |percentage| of * percentage / 100,
    )
}

/// Returns the other program that may write this Deployment's image, recognised by its annotations and labels.
pub fn owner(document: &Value) -> Option<String> {
    let mark = |name: &str| mark(document, name);
    let marks = [
        ("argocd.argoproj.io/tracking-id", "Argo CD"),
        ("argocd.argoproj.io/instance", "Argo CD"),
        ("kustomize.toolkit.fluxcd.io/name", "Flux"),
        ("helm.toolkit.fluxcd.io/name", "Flux"),
    ];
    if let Some((_, owner)) = marks.into_iter().find(|(name, _)| mark(name).is_some()) {
        return Some(owner.to_owned());
    }
    if mark("app.kubernetes.io/managed-by") == Some("Helm") {
        let release = mark("meta.helm.sh/release-name");
        return Some(release.map_or_else(
            || "Helm".to_owned(),
            |release| format!("the Helm release {release}"),
        ));
    }
    None
}

/// Returns the last writer of this container's image, as the API server recorded it.
pub fn last_writer(document: &Value, container: &str) -> Option<String> {
    let fields = document.pointer("/metadata/managedFields")?.as_array()?;
    let key = format!("k:{{\"name\":\"{container}\"}}");
    let writes_image = |entry: &&Value| {
        let containers = entry.pointer("/fieldsV1/f:spec/f:template/f:spec/f:containers");
        containers
            .and_then(|containers| containers.get(&key)?.get("f:image"))
            .is_some()
    };
    let writers = fields.iter().filter(writes_image);
    let last = writers.max_by_key(|entry| time::of(&entry["time"]))?;
    last["manager"].as_str().map(str::to_owned)
}
