//! Makes the next spec of a service from the present one. Both are raw JSON, so unknown fields are kept.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::gate::{has_owners, nanoseconds};
use super::read::version;
use crate::document::NewSettings;
use crate::managed::Record;
use crate::managed::label::SETTINGS;
use crate::text::duration;

/// Defaults for settings that the owner of a service left unset.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// How long Swarm monitors a new task.
    pub monitor: Duration,
    /// How long an old task may take to finish its work.
    pub stop_grace_period: Duration,
}

fn object<'a>(parent: &'a mut Value, name: &str) -> Option<&'a mut Map<String, Value>> {
    let child = parent.as_object_mut()?.entry(name).or_insert(Value::Null);
    if child.is_null() {
        *child = json!({});
    }
    child.as_object_mut()
}

/// Returns the spec with this record in its labels, and with defaults for unset update settings. Neither restarts a task.
pub fn with_record(mut spec: Value, record: &Record, defaults: Defaults) -> Value {
    if let Some(labels) = object(&mut spec, "Labels") {
        for (name, value) in record.write() {
            match value {
                Some(value) => labels.insert(name.to_owned(), Value::String(value)),
                None => labels.remove(name),
            };
        }
    }
    let order = if has_host_port(&spec) {
        "stop-first"
    } else {
        "start-first"
    };
    if let Some(update) = object(&mut spec, "UpdateConfig") {
        let unset = [
            ("Parallelism", json!(1)),
            ("FailureAction", json!("rollback")),
            ("Monitor", nanoseconds(defaults.monitor)),
            ("Order", json!(order)),
        ];
        for (name, value) in unset {
            update.entry(name).or_insert(value);
        }
    }
    spec
}

/// Returns the spec with another image and this health check, unless its owner has one, and with a default for an unset stop
/// grace period. This replaces the tasks.
pub fn with_image(mut spec: Value, image: &str, check: Option<Value>, defaults: Defaults) -> Value {
    let has_owners = has_owners(&spec);
    if let Some(container) = spec
        .pointer_mut("/TaskTemplate/ContainerSpec")
        .and_then(Value::as_object_mut)
    {
        container.insert("Image".to_owned(), json!(image));
        container
            .entry("StopGracePeriod")
            .or_insert_with(|| nanoseconds(defaults.stop_grace_period));
        match check {
            _ if has_owners => None,
            Some(check) => container.insert("Healthcheck".to_owned(), check),
            None => container.remove("Healthcheck"),
        };
    }
    spec
}

/// Returns the spec with other variables, and with the mark of this change. This replaces the tasks.
pub fn with_settings(mut spec: Value, new: &NewSettings, mark: &str) -> Value {
    if let Some(container) = spec.pointer_mut("/TaskTemplate/ContainerSpec") {
        let env = container["Env"].as_array().map(Vec::as_slice);
        container["Env"] = new.variables(env.unwrap_or_default());
        if let Some(labels) = object(container, "Labels") {
            labels.insert(SETTINGS.to_owned(), json!(mark));
        }
    }
    spec
}

/// Returns the spec for going back to this image, or to the former settings of the same image. It has the task template that
/// Swarm remembers, so that old tasks which still run are not replaced. If someone changed the service since, only the image and
/// the health check are restored, and the former settings are lost: `None`.
pub fn way_back(service: &Value, image: &str, defaults: Defaults) -> Option<Value> {
    let mut spec = service["Spec"].clone();
    if let Some(before) = before(service, image) {
        spec["TaskTemplate"] = before.clone();
        return Some(spec);
    }
    let is_of_image = version(&spec["TaskTemplate"]).is_some_and(|(tried, _)| tried != image);
    is_of_image.then(|| with_image(spec, image, None, defaults))
}

/// Returns the task template before the last change of the service, if it has this image and differs in the image or the settings.
pub fn before<'a>(service: &'a Value, image: &str) -> Option<&'a Value> {
    let before = service.get("PreviousSpec")?.get("TaskTemplate")?;
    let (runs, now) = (version(before)?, version(&service["Spec"]["TaskTemplate"])?);
    (runs.0 == image && runs != now).then_some(before)
}

/// Whether the service publishes a port in host mode, which only one task per node can use.
fn has_host_port(spec: &Value) -> bool {
    let ports = spec.pointer("/EndpointSpec/Ports").and_then(Value::as_array);
    let mut ports = ports.into_iter().flatten();
    ports.any(|port| port["PublishMode"].as_str() == Some("host"))
}

/// Returns warnings about risky settings of the owner, each a sentence.
pub fn warnings(spec: &Value, defaults: Defaults) -> Vec<String> {
    let text = |path: &str| spec.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let mut warnings = Vec::new();
    if text("/UpdateConfig/Order") == "start-first" && has_host_port(spec) {
        warnings.push(
            "its update order is start-first, but it publishes a port in host mode, which a node has only once: new tasks may \
             find no node"
                .to_owned(),
        );
    }
    if matches!(text("/UpdateConfig/FailureAction"), "pause" | "continue") {
        warnings.push(format!(
            "its FailureAction is {}, so Swarm itself does not roll back; delegate-upgrader does, after UPGRADE_HEALTHY_DEADLINE",
            text("/UpdateConfig/FailureAction")
        ));
    }
    let grace = spec
        .pointer("/TaskTemplate/ContainerSpec/StopGracePeriod")
        .and_then(Value::as_u64)
        .map(Duration::from_nanos);
    let timeout = duration::text(defaults.stop_grace_period);
    match grace {
        Some(grace) if grace < defaults.stop_grace_period => warnings.push(format!(
            "its StopGracePeriod of {} is shorter than CONTAINER_STOP_TIMEOUT ({timeout}): tasks may be cut short",
            duration::text(grace)
        )),
        Some(_) => {}
        None => warnings.push(format!(
            "it has no StopGracePeriod, so its first upgrade cuts the present tasks after Swarm's ten seconds; the new tasks get \
             CONTAINER_STOP_TIMEOUT ({timeout}): upgrade it first when it has no task to finish"
        )),
    }
    warnings
}
