//! Anonymous volumes, which are mounted but declared without a name. A new container would get empty ones instead.

use serde_json::{Map, Value, json};

use super::unset::is_unset;
use crate::container::Inspected;
use crate::container::json::text_at;

/// Adds every anonymous volume of `container` to `host_config` by name, so that the successor mounts the same one.
///
/// A mount that the owner declared with a source is left alone: `Binds` or `Mounts` already lists it, and the engine refuses
/// two mounts at one destination. A volume from `VolumesFrom` comes from there again.
pub(super) fn keep_anonymous(host_config: &mut Map<String, Value>, container: &Inspected) {
    // The engine lists mounts in any order.
    let mut mounts: Vec<&Value> = container.list("/Mounts").iter().collect();
    mounts.sort_by_key(|mount| text_at(mount, "/Destination"));
    for mount in mounts {
        let (name, destination) = (name(mount), text_at(mount, "/Destination"));
        if text_at(mount, "/Type") != "volume" || name.is_empty() || destination.is_empty() {
            continue;
        }
        if name_in_binds(host_config, name, destination) || name_in_mounts(host_config, name, destination) {
            continue;
        }
        let writable = mount.get("RW").and_then(Value::as_bool).unwrap_or(true);
        if is_anonymous(host_config, container, destination) {
            bind(host_config, name, destination, writable);
        }
    }
}

/// Returns the name of a mounted volume.
///
/// For a bind with only a destination, 28.5 omits the name, but the path of the local driver's directory contains it.
pub(super) fn name(mount: &Value) -> &str {
    match text_at(mount, "/Name") {
        "" => text_at(mount, "/Source")
            .strip_suffix("/_data")
            .and_then(|directory| directory.rsplit('/').next())
            .unwrap_or_default(),
        name => name,
    }
}

/// Whether a volume that is in neither `Binds` nor `Mounts` belongs to this container. The configuration lists the image's
/// `VOLUME`s and the owner's `-v /path`; any other volume came from another container.
fn is_anonymous(host_config: &Map<String, Value>, container: &Inspected, destination: &str) -> bool {
    let declared = container
        .object("/Config/Volumes")
        .is_some_and(|volumes| volumes.keys().any(|path| clean(path) == clean(destination)));
    declared || is_unset(host_config.get("VolumesFrom"))
}

/// Whether `Binds` has the destination. A bind with only a destination gets the volume's name.
fn name_in_binds(host_config: &mut Map<String, Value>, name: &str, destination: &str) -> bool {
    for bind in entries(host_config, "Binds") {
        let Some(given) = bind.as_str() else { continue };
        let mut parts = given.split(':');
        let (first, second) = (parts.next().unwrap_or_default(), parts.next());
        if clean(second.unwrap_or(first)) == clean(destination) {
            if second.is_none() {
                *bind = Value::from(format!("{name}:{given}"));
            }
            return true;
        }
    }
    false
}

/// Whether `Mounts` has the destination. A volume without a source gets the volume's name.
fn name_in_mounts(host_config: &mut Map<String, Value>, name: &str, destination: &str) -> bool {
    for mount in entries(host_config, "Mounts") {
        if clean(text_at(mount, "/Target")) != clean(destination) {
            continue;
        }
        if text_at(mount, "/Type") == "volume"
            && text_at(mount, "/Source").is_empty()
            && let Value::Object(fields) = mount
        {
            fields.insert("Source".to_owned(), Value::from(name));
        }
        return true;
    }
    false
}

fn bind(host_config: &mut Map<String, Value>, name: &str, destination: &str, writable: bool) {
    // A bind cannot express a colon: the engine would parse it differently.
    let (field, entry) = if destination.contains(':') || name.contains(':') {
        let mount = json!({"Type": "volume", "Source": name, "Target": destination, "ReadOnly": !writable});
        ("Mounts", mount)
    } else {
        let options = if writable { "" } else { ":ro" };
        ("Binds", Value::from(format!("{name}:{destination}{options}")))
    };
    match host_config.get_mut(field) {
        Some(Value::Array(entries)) => entries.push(entry),
        _ => drop(host_config.insert(field.to_owned(), Value::from(vec![entry]))),
    }
}

fn entries<'a>(host_config: &'a mut Map<String, Value>, field: &str) -> &'a mut [Value] {
    match host_config.get_mut(field) {
        Some(Value::Array(entries)) => entries,
        _ => &mut [],
    }
}

/// Cleans a path as the engine does (Go's `path.Clean`), to compare destinations.
pub(super) fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn cleans_paths_as_the_engine_does() {
        for (given, cleaned) in [
            ("/data", "/data"),
            ("/data/", "/data"),
            ("//a///b/./c/..", "/a/b"),
            ("/..", "/"),
        ] {
            assert_eq!(clean(given), cleaned, "{given}");
        }
    }
}
