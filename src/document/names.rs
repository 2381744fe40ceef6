//! Host names: which of them the engine made up.

use serde_json::{Map, Value};

use super::networks::shares_namespace;
use crate::container::Inspected;

/// Leaves out host names that the engine made up, and those it would refuse.
///
/// Without a host name a container gets the first twelve digits of its own id. In another container's network it
/// shows that container's names, and giving any is a conflict; in the host's UTS namespace too.
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

/// Whether the engine made up the container's host name.
pub(super) fn is_automatic(container: &Inspected) -> bool {
    container.text("/Config/Hostname") == container.id().short()
}

/// Podman writes the host name that it made up into the environment too. No owner can have given it.
pub(super) fn automatic_variable(container: &Inspected) -> String {
    format!("HOSTNAME={}", container.id().short())
}
