//! The spellings of one host configuration: engines write differently what means the same.

use serde_json::{Map, Value};

use crate::container::sets;
use crate::document::unset::is_unset;

/// Brings the host configurations of a container and of its recreated self to one spelling, so that only what means
/// something else differs.
pub(super) fn host_configs(old: &mut Map<String, Value>, new: &mut Map<String, Value>) {
    for side in [&mut *old, &mut *new] {
        normalise_links(side);
        name_no_restart_policy(side);
        drop_notes(side);
        drop_unset_limits(side);
        sets::sort(side);
    }
    drop_what_was_filled_in(old, new);
    drop_what_was_discarded(old, new);
}

/// A link shows with the container's own name, `/db:/NAME/alias`.
fn normalise_links(host_config: &mut Map<String, Value>) {
    if let Some(Value::Array(links)) = host_config.get_mut("Links") {
        let mut plain: Vec<String> = links
            .iter()
            .filter_map(Value::as_str)
            .map(|link| {
                let (target, alias) = link.split_once(':').unwrap_or((link, link));
                let alias = alias.rsplit_once('/').map_or(alias, |(_, alias)| alias);
                format!("{}:{alias}", target.trim_start_matches('/'))
            })
            .collect();
        plain.sort();
        *links = plain.into_iter().map(Value::from).collect();
    }
}

/// "No restart policy" is spelled in two ways. `docker run` writes `no`; for clients that set none, the engine stores an empty
/// name. Labels and update calls use `no`.
fn name_no_restart_policy(host_config: &mut Map<String, Value>) {
    if let Some(Value::Object(policy)) = host_config.get_mut("RestartPolicy")
        && is_unset(policy.get("Name"))
    {
        policy.insert("Name".to_owned(), Value::from("no"));
    }
}

/// Podman notes beside a limit that one was asked for, 0 too. The limit itself is compared.
fn drop_notes(host_config: &mut Map<String, Value>) {
    if let Some(Value::Object(annotations)) = host_config.get_mut("Annotations") {
        annotations.remove("io.podman.annotations.pids-limit");
    }
}

/// A limit that is not set has several spellings: an update to -1 shows as 0, and at the create the engine makes `null`
/// of 0, and of all that the host's cgroups cannot do.
fn drop_unset_limits(host_config: &mut Map<String, Value>) {
    if is_unset(host_config.get("OomKillDisable")) {
        host_config.remove("OomKillDisable");
    }
    let pids = host_config.get("PidsLimit");
    if is_unset(pids) || pids.and_then(Value::as_i64) == Some(-1) {
        host_config.remove("PidsLimit");
    }
}

/// The engine fills these in at the create where the body leaves them out. An older engine, or another configuration
/// of this one, left them blank when the old container was made.
const FILLED_IN: [&str; 6] = [
    "CgroupnsMode",
    "IpcMode",
    "MaskedPaths",
    "ReadonlyPaths",
    "Runtime",
    "ShmSize",
];

/// An engine accepts these with a warning, and discards them where the host lacks support. There the old container
/// does not have them in effect either, whatever its document says. By moby's `verifyPlatformContainerResources`
/// (`daemon/daemon_unix.go`), except where the comment on an entry says otherwise. The limits of memory, processes and
/// CPUs are not here, because every cgroup has them, nor is `CpuRealtime…`, which the engine refuses.
const DISCARDED: [&str; 6] = [
    // With cgroup v2.
    "OomKillDisable",
    "MemorySwappiness",
    // With cgroup v2, and from API 1.42 on by `postContainersCreate`.
    "KernelMemory",
    // Its companion. That it is discarded was not found in moby's source, only that cgroup v2 has nothing of the kind.
    "KernelMemoryTCP",
    // Without an I/O scheduler that weighs.
    "BlkioWeight",
    "BlkioWeightDevice",
];

/// Removes from both the settings that the engine discarded.
fn drop_what_was_discarded(old: &mut Map<String, Value>, new: &mut Map<String, Value>) {
    for field in DISCARDED {
        if is_unset(new.get(field)) {
            old.remove(field);
            new.remove(field);
        }
    }
}

/// Removes from both the settings that the engine filled in for the new one.
fn drop_what_was_filled_in(old: &mut Map<String, Value>, new: &mut Map<String, Value>) {
    for field in FILLED_IN {
        // An empty list of paths is the owner's: nothing is to be masked.
        let is_unset = |value: Option<&Value>| is_unset(value) && !value.is_some_and(Value::is_array);
        if is_unset(old.get(field)) {
            old.remove(field);
            new.remove(field);
        }
    }
    if let (Some(Value::Object(old)), Some(Value::Object(new))) =
        (old.get("LogConfig"), new.get_mut("LogConfig"))
    {
        drop_default_log_options(old, new);
    }
}

/// The daemon's own options are added to those of the container, each where the container has none of that name.
fn drop_default_log_options(old: &Map<String, Value>, new: &mut Map<String, Value>) {
    let Some(Value::Object(found)) = new.get_mut("Config") else {
        return;
    };
    match old.get("Config") {
        Some(Value::Object(given)) => found.retain(|option, _| given.contains_key(option)),
        None | Some(Value::Null) => {
            new.remove("Config");
        }
        Some(_) => {}
    }
}
