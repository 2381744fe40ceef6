//! Different spellings of engines, and false friends: the comparison of a container with its recreated self.

use delegate_upgrader::container::Inspected;
use delegate_upgrader::document::differences;
use kit::document::{image, inspect, object};
use serde_json::{Value, json};

use super::rules::same;

/// The paths of all differences between two containers with these parts in their documents.
fn between_documents(old: &Value, new: &Value) -> Vec<String> {
    let image = image(&json!({}));
    let images = same(&image);
    let container = |name: &str, parts: &Value| {
        let mut document = inspect("0123456789abcdef", &json!({}), &json!({}));
        document["Name"] = name.into();
        document.as_object_mut().unwrap().extend(object(parts));
        Inspected::new(document).unwrap()
    };
    let found = differences(&container("/dd", old), &container("/dd.candidate", new), images);
    found
        .iter()
        .map(|difference| difference.path().to_owned())
        .collect()
}

/// Fields of the host configuration as they were requested, and as they may be found; `-` if a field is missing. They are
/// the same (`=`), the same only in this order (`>`), or different (`!`).
const SPELLINGS: &str = r#"
Links ["/db:/dd/db", "/mq:/dd/q"] = ["/mq:/dd.candidate/q", "/db:/dd.candidate/db"]
Links ["/db:/dd/db"] = ["db:db"]
Links ["/db:/dd/db"] ! ["/db:/dd.candidate/mq"] | ["/other:/dd.candidate/db"] | []
RestartPolicy {"Name": ""} = {"Name": "no"}
RestartPolicy {"Name": "always"} ! {"Name": ""}
# A note of Podman's own.
Annotations {"a": "1"} = {"a": "1", "io.podman.annotations.pids-limit": "0"}
Annotations {"a": "1"} ! {"a": "2"}
Ulimits [{"Name": "nofile", "Hard": 2}, {"Name": "core", "Hard": 1}] = [{"Name": "core", "Hard": 1}, {"Name": "nofile", "Hard": 2}]
Ulimits [{"Name": "core", "Hard": 1}] ! [{"Name": "core", "Hard": 2}] | [] | -
# Values that the engine fills in at the create.
ShmSize 0 > 67108864
ShmSize 1 ! 67108864
IpcMode "" > "private"
IpcMode "host" ! "private"
CgroupnsMode "" > "private"
CgroupnsMode null > "host"
CgroupnsMode "host" ! "private"
Runtime "" > "runc"
Runtime - > "runc"
MaskedPaths null > ["/proc/kcore"]
ReadonlyPaths null > ["/proc/sys"]
LogConfig {"Type": "json-file", "Config": {}} > {"Type": "json-file", "Config": {"max-size": "10m"}}
LogConfig {"Type": "json-file", "Config": null} > {"Type": "json-file", "Config": {}}
LogConfig {"Type": "json-file", "Config": null} > {"Type": "json-file", "Config": {"max-size": "10m"}}
LogConfig {"Type": "json-file", "Config": {"max-file": "3"}} > {"Type": "json-file", "Config": {"max-file": "3", "max-size": "10m"}}
# An option lost, one changed, and one that was given empty.
LogConfig {"Type": "json-file", "Config": {"max-size": "10m"}} ! {"Type": "json-file", "Config": {"max-file": "3"}}
LogConfig {"Type": "json-file", "Config": {"max-size": "10m"}} ! {"Type": "json-file", "Config": {"max-size": "1m"}}
LogConfig {"Type": "json-file", "Config": {"max-size": ""}} ! {"Type": "json-file", "Config": {"max-size": "10m"}}
LogConfig {"Type": "local", "Config": {}} ! {"Type": "json-file", "Config": {}}
# No path is masked with `--security-opt systempaths=unconfined`.
MaskedPaths [] ! ["/proc/kcore"]
ReadonlyPaths [] ! ["/proc/sys"]
Privileged false ! true
PidMode "" ! "host"
# The engine discards limits that the host cannot enforce: the old container does not have them in effect either.
OomKillDisable true > false | null | -
OomKillDisable true ! 7
MemorySwappiness 10 > null | -
MemorySwappiness 10 ! 7
MemorySwappiness 0 = null | -
KernelMemory 67108864 > 0 | null | -
KernelMemory 67108864 ! 7
KernelMemoryTCP 67108864 > 0 | null | -
KernelMemoryTCP 67108864 ! 7
BlkioWeight 300 > 0 | -
BlkioWeight 300 ! 7
BlkioWeightDevice [{"Path": "/dev/sda", "Weight": 200}] > [] | null | -
BlkioWeightDevice [{"Path": "/dev/sda", "Weight": 200}] ! 7
OomKillDisable false = null
# A limit that every host can do is missed.
PidsLimit 0 = -1 | null
PidsLimit 100 ! 0 | -1 | null
Memory 134217728 ! 0
MemoryReservation 67108864 ! 0
NanoCpus 500000000 ! 0
CpuShares 512 ! 0
CpusetCpus "0" ! ""
CpuRealtimePeriod 1000000 ! 0
CpuRealtimeRuntime 950000 ! 0
"#;

#[test]
fn only_equivalent_spellings_are_equal() {
    for row in SPELLINGS
        .lines()
        .filter(|row| !row.is_empty() && !row.starts_with('#'))
    {
        let (field, values) = row.split_once(' ').unwrap();
        let operator = ["=", ">", "!"]
            .into_iter()
            .find(|sign| values.contains(&format!(" {sign} ")));
        let (asked, found) = values.split_once(&format!(" {} ", operator.unwrap())).unwrap();
        let host_config = |value: &str| match value {
            "-" => json!({ "HostConfig": {} }),
            value => json!({ "HostConfig": { field: serde_json::from_str::<Value>(value).unwrap() } }),
        };
        for found in found.split(" | ") {
            let (asked, found) = (host_config(asked), host_config(found));
            for (old, new, is_same) in [
                (&asked, &found, operator != Some("!")),
                (&found, &asked, operator == Some("=")),
            ] {
                let paths = between_documents(old, new);
                let is_of_it = |path: &String| path.starts_with(&format!("/HostConfig/{field}"));
                assert!(
                    paths.iter().all(is_of_it) && paths.is_empty() == is_same,
                    "{row}: {old} {new} {paths:?}"
                );
            }
        }
    }
}

#[test]
fn a_network_is_found_by_its_name_or_by_its_id() {
    let networks = |networks: Value| json!({ "NetworkSettings": { "Networks": networks } });
    let of = |old: Value, new: Value| between_documents(&networks(old), &networks(new));
    let own = json!({"NetworkID": "3c", "DriverOpts": {"k": "v"}});
    assert_eq!(of(json!({"3c": own}), json!({"mine": own})), [""; 0]);
    let other = json!({"NetworkID": "4d", "DriverOpts": {"k": "v"}});
    assert_eq!(
        of(json!({"mine": own}), json!({"other": other})),
        [
            "/NetworkSettings/Networks/mine",
            "/NetworkSettings/Networks/other"
        ]
    );
    // Before its first start, a container has no id of a network.
    let (unnamed, unstarted) = (json!({"NetworkID": ""}), json!({"NetworkID": ""}));
    assert_eq!(
        of(json!({"mine": unnamed}), json!({"other": unstarted})),
        [
            "/NetworkSettings/Networks/mine",
            "/NetworkSettings/Networks/other"
        ]
    );
}

#[test]
fn mounts_are_compared_by_their_source() {
    let mount = |kind: &str, source: &str| {
        json!({ "Mounts": [{
            "Type": kind, "Name": if kind == "volume" { source } else { "" }, "Source": source, "Destination": "/data", "RW": true,
        }] })
    };
    let of = |old: Value, new: Value| between_documents(&old, &new);
    assert_eq!(of(mount("bind", "/a"), mount("bind", "/a")), [""; 0]);
    assert_eq!(
        of(mount("bind", "/a"), mount("bind", "/b")),
        ["/Mounts/data/Source"]
    );
    // For a mount of another type, the directory is created for the container.
    assert_eq!(of(mount("tmpfs", "/a"), mount("tmpfs", "/b")), [""; 0]);
    assert_eq!(of(mount("bind", "/a"), json!({"Mounts": []})), ["/Mounts/data"]);
    assert_eq!(of(json!({"Mounts": []}), mount("bind", "/a")), ["/Mounts/data"]);
}
