//! Makes the next spec of a service from the present one. Both are raw JSON, so unknown fields are kept.

use std::time::Duration;

use serde_json::{Map, Value, json};

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

pub(super) fn nanoseconds(duration: Duration) -> Value {
    json!(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

fn object<'a>(parent: &'a mut Value, name: &str) -> Option<&'a mut Map<String, Value>> {
    let child = parent.as_object_mut()?.entry(name).or_insert(Value::Null);
    if child.is_null() {
        *child = json!({});
    }
    child.as_object_mut()
}

/// Returns the spec with this record in its labels, and with defaults for unset update settings. Neither restarts a task.
pub fn with_record(spec: &Value, record: &Record, defaults: Defaults) -> Value {
    let mut spec = spec.clone();
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

/// Returns the spec with another image, and with a default for an unset stop grace period. This replaces the tasks.
pub fn with_image(spec: &Value, image: &str, defaults: Defaults) -> Value {
    let mut spec = spec.clone();
    if let Some(container) = spec
        .pointer_mut("/TaskTemplate/ContainerSpec")
        .and_then(Value::as_object_mut)
    {
        container.insert("Image".to_owned(), json!(image));
        container
            .entry("StopGracePeriod")
            .or_insert_with(|| nanoseconds(defaults.stop_grace_period));
    }
    spec
}

/// Returns the spec with other variables, and with the mark of this change. This replaces the tasks.
pub fn with_settings(spec: &Value, new: &NewSettings, mark: &str) -> Value {
    let mut spec = spec.clone();
    if let Some(container) = spec.pointer_mut("/TaskTemplate/ContainerSpec") {
        let env = container["Env"].as_array().map(Vec::as_slice);
        container["Env"] = new.variables(env.unwrap_or_default());
        if let Some(labels) = object(container, "Labels") {
            labels.insert(SETTINGS.to_owned(), json!(mark));
        }
    }
    spec
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
