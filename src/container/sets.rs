//! The lists of a host configuration that are sets.

use serde_json::{Map, Value};

/// An order in these means nothing: the engine makes a set of them, or sorts them itself before it uses them. Inspect shows
/// the daemon's own ulimits among `Ulimits` in an order of their own each time (moby's `mergeUlimits` walks a map); mounts are
/// sorted by their destination. In all other lists the order counts, or may: name servers, lines of `/etc/hosts`,
/// `--volumes-from`, rules for devices and security options are read one after the other.
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

/// Brings each set into one order.
pub(crate) fn sort(host_config: &mut Map<String, Value>) {
    for field in SETS {
        if let Some(Value::Array(entries)) = host_config.get_mut(field) {
            entries.sort_by_cached_key(Value::to_string);
        }
    }
}
