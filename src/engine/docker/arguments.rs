//! Values in the paths and bodies of requests.

use bollard::models::RestartPolicy;
use serde_json::{Value, json};

use crate::container::ContainerId;
use crate::engine::EngineError;

/// The id, unless it would need encoding: bollard pastes ids into paths as they are.
pub(super) fn checked_id(id: &ContainerId) -> Result<&str, EngineError> {
    let text = id.as_str();
    let sound = !text.is_empty()
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    if sound {
        Ok(text)
    } else {
        Err(EngineError::NotFound(format!("no such container: {text}")))
    }
}

/// A restart policy as an update takes it. A container document writes "none" as an empty name, which an update reads
/// as "leave it as it is".
pub(super) fn restart_policy(policy: &Value) -> Result<RestartPolicy, EngineError> {
    let mut policy = policy.clone();
    if policy
        .get("Name")
        .and_then(Value::as_str)
        .is_none_or(str::is_empty)
    {
        policy = json!({ "Name": "no" });
    }
    serde_json::from_value(policy).map_err(|error| EngineError::Malformed(format!("restart policy: {error}")))
}

/// The segments of `/{kind}/{reference}/json`. The slashes of a reference are not encoded, as in every client.
pub(super) fn reference_path<'a>(kind: &'a str, reference: &'a str) -> Vec<&'a str> {
    std::iter::once(kind)
        .chain(reference.split('/'))
        .chain(std::iter::once("json"))
        .collect()
}
