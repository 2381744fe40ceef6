//! Finds the host names that the engine generated.

use serde_json::{Map, Value};

use super::networks::shares_namespace;
use crate::container::Inspected;

/// Removes host names that the engine generated or would refuse.
///
/// Without a host name, a container gets the first twelve digits of its id. A container in another container's network shows
/// that container's names, and the engine refuses any given name. It does the same in the host's UTS namespace.
pub(super) fn drop_automatic(config: &mut Map<String, Value>, old: &Inspected) {
    let borrowed = shares_namespace(old.network_mode());
    if borrowed || old.text("/HostConfig/UTSMode") == "host" || is_automatic(old) {
        config.remove("Hostname");
    }
    if borrowed {
        config.remove("Domainname");
    }
    let made_up = automatic_variable(old);
    if let Some(Value::Array(env)) = config.get_mut("Env") {
        env.retain(|entry| *entry != made_up);
    }
}

/// Whether the engine generated the container's host name.
pub(super) fn is_automatic(container: &Inspected) -> bool {
    container.text("/Config/Hostname") == container.id().short()
}

/// Returns the variable with which Podman copies a generated host name into the environment. No owner can have set it.
pub(super) fn automatic_variable(container: &Inspected) -> String {
    format!("HOSTNAME={}", container.id().short())
}
