//! Normalises host configurations, since engines write the same settings in different ways.

use serde_json::{Map, Value};

use crate::container::sets;
use crate::document::unset::is_unset;

/// Normalises the host configurations of a container and its recreated copy, so that they differ only if their meaning differs.
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

/// A link appears with the container's own name, as `/db:/NAME/alias`.
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

/// "No restart policy" is written in two ways. `docker run` writes `no`; for clients that set none, the engine stores an
/// empty name. Labels and update calls use `no`.
fn name_no_restart_policy(host_config: &mut Map<String, Value>) {
    if let Some(Value::Object(policy)) = host_config.get_mut("RestartPolicy")
        && is_unset(policy.get("Name"))
    {
        policy.insert("Name".to_owned(), Value::from("no"));
    }
}

/// For every requested limit, even 0, Podman adds an annotation. The limit itself is compared elsewhere.
fn drop_notes(host_config: &mut Map<String, Value>) {
    if let Some(Value::Object(annotations)) = host_config.get_mut("Annotations") {
        annotations.remove("io.podman.annotations.pids-limit");
    }
}

/// A limit that is not set is written in several ways. An update to -1 appears as 0. At creation, the engine turns 0 into
/// `null`, as well as every limit that the host's cgroups do not support.
fn drop_unset_limits(host_config: &mut Map<String, Value>) {
    if is_unset(host_config.get("OomKillDisable")) {
        host_config.remove("OomKillDisable");
    }
    let pids = host_config.get("PidsLimit");
    if is_unset(pids) || pids.and_then(Value::as_i64) == Some(-1) {
        host_config.remove("PidsLimit");
    }
}

/// If a create body omits these settings, the engine fills them in. An older engine, or the same engine with another
/// configuration, left them blank when it created the old container.
const FILLED_IN: [&str; 6] = [
    "CgroupnsMode",
    "IpcMode",
    "MaskedPaths",
    "ReadonlyPaths",
    "Runtime",
    "ShmSize",
];

/// If the host does not support these settings, the engine accepts them with a warning and discards them. They then have no
/// effect on the old container either, whatever its document shows. From moby's `verifyPlatformContainerResources`
/// (`daemon/daemon_unix.go`), unless the comment on an entry says otherwise. Limits of memory, processes and CPUs are not in
/// the list, since every cgroup has them, nor is `CpuRealtime…`, which the engine refuses.
const DISCARDED: [&str; 6] = [
    // On cgroup v2.
    "OomKillDisable",
    "MemorySwappiness",
    // On cgroup v2, and since API 1.42 by `postContainersCreate`.
    "KernelMemory",
    // Its counterpart for TCP. moby's source does not show that it is discarded, but cgroup v2 has no such limit.
    "KernelMemoryTCP",
    // Without an I/O scheduler that supports weights.
    "BlkioWeight",
    "BlkioWeightDevice",
];

/// Removes from both configurations the settings that the engine discarded.
fn drop_what_was_discarded(old: &mut Map<String, Value>, new: &mut Map<String, Value>) {
    for field in DISCARDED {
        if is_unset(new.get(field)) {
            old.remove(field);
            new.remove(field);
        }
    }
}

/// Removes from both configurations the settings that the engine filled in for the new container.
fn drop_what_was_filled_in(old: &mut Map<String, Value>, new: &mut Map<String, Value>) {
    for field in FILLED_IN {
        // An empty list of paths is a choice of the owner: nothing is masked.
        let is_unset = |value: Option<&Value>| is_unset(value) && !value.is_some_and(Value::is_array);
        if is_unset(old.get(field)) {
            old.remove(field);
            new.remove(field);
        }
    }
    // The daemon's own options, which it adds to the container's options if the container has none of that name.
    if let (Some(Value::Object(old)), Some(Value::Object(new))) =
        (old.get("LogConfig"), new.get_mut("LogConfig"))
        && let Some(Value::Object(found)) = new.get_mut("Config")
    {
        match old.get("Config") {
            Some(Value::Object(given)) => found.retain(|option, _| given.contains_key(option)),
            None | Some(Value::Null) => drop(new.remove("Config")),
            Some(_) => {}
        }
    }
}
