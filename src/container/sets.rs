//! The lists in a host configuration that are sets.

use serde_json::{Map, Value};

/// The lists whose order has no meaning, since the engine makes a set of them or sorts them before use. Inspect shows the
/// daemon's own ulimits in `Ulimits` in random order (moby's `mergeUlimits` iterates over a map), and mounts are sorted by
/// destination. In all other lists the order matters or may matter: the engine applies name servers, lines of `/etc/hosts`,
/// `--volumes-from`, device rules and security options in sequence.
const SETS: [&str; 8] = [
    "Ulimits",
    "CapAdd",
    "CapDrop",
    "GroupAdd",
    "Binds",
    "Mounts",
    "MaskedPaths",
    "ReadonlyPaths",
];

pub(crate) fn sort(host_config: &mut Map<String, Value>) {
    for field in SETS {
        if let Some(Value::Array(entries)) = host_config.get_mut(field) {
            entries.sort_by_cached_key(Value::to_string);
        }
    }
}
