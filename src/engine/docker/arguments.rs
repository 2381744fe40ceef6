//! Values in the paths and bodies of requests.

use bollard::models::RestartPolicy;
use serde_json::{Value, json};

use crate::container::ContainerId;
use crate::container::json::text_at;
use crate::engine::EngineError;

/// Returns the id, or an error if it would need encoding: bollard inserts ids into paths unchanged.
pub(super) fn checked_id(id: &ContainerId) -> Result<&str, EngineError> {
    let text = id.as_str();
    let is_plain = |c: char| c.is_ascii_alphanumeric();
    if text.starts_with(is_plain) && text.chars().all(|c| is_plain(c) || "_.-".contains(c)) {
        Ok(text)
    } else {
        Err(EngineError::NotFound(format!("no such container: {text}")))
    }
}

/// Converts a restart policy to the form that an update expects. A container document writes "none" as an empty name, but an
/// update would interpret that as "leave the policy unchanged".
pub(super) fn restart_policy(policy: &Value) -> Result<RestartPolicy, EngineError> {
    let policy = match text_at(policy, "/Name") {
        "" => json!({ "Name": "no" }),
        _ => policy.clone(),
    };
    serde_json::from_value(policy).map_err(|error| EngineError::Malformed(format!("restart policy: {error}")))
}

/// Returns the segments of `/{kind}/{reference}/json`. Like all clients, it does not encode the slashes of a reference.
pub(super) fn reference_path<'a>(kind: &'a str, reference: &'a str) -> Vec<&'a str> {
    std::iter::once(kind)
        .chain(reference.split('/'))
        .chain(std::iter::once("json"))
        .collect()
}
