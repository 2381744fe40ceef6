//! What engines write differently, and what only looks alike: the comparison of a container with its recreated self.

use delegate_upgrader::container::Inspected;
use delegate_upgrader::document::{Images, differences};
use kit::document::{image, inspect, object};
use serde_json::{Value, json};

/// The paths of all differences between two containers that have these host configurations.
fn between(old: &Value, new: &Value) -> Vec<String> {
    between_documents(&json!({ "HostConfig": old }), &json!({ "HostConfig": new }))
}

/// The paths of all differences between two containers that have these parts in their documents.
fn between_documents(old: &Value, new: &Value) -> Vec<String> {
    let image = image(&json!({}));
    let images = Images {
        old: &image,
        new: &image,
    };
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

#[test]
fn equivalent_spellings_are_equal() {
    for (old, new) in [
        (
            json!({"Links": ["/db:/dd/db", "/mq:/dd/q"]}),
            json!({"Links": ["/mq:/dd.candidate/q", "/db:/dd.candidate/db"]}),
        ),
        (json!({"Links": ["/db:/dd/db"]}), json!({"Links": ["db:db"]})),
        (
            json!({"RestartPolicy": {"Name": ""}}),
            json!({"RestartPolicy": {"Name": "no"}}),
        ),
        (
            json!({"Annotations": {"a": "1"}}),
            json!({"Annotations": {"a": "1", "io.podman.annotations.pids-limit": "0"}}),
        ),
        (json!({"PidsLimit": 0}), json!({"PidsLimit": null})),
        (json!({"PidsLimit": -1}), json!({"PidsLimit": null})),
        (json!({"OomKillDisable": false}), json!({"OomKillDisable": null})),
        (
            json!({"Ulimits": [{"Name": "nofile", "Hard": 2}, {"Name": "core", "Hard": 1}]}),
            json!({"Ulimits": [{"Name": "core", "Hard": 1}, {"Name": "nofile", "Hard": 2}]}),
        ),
        (json!({"ShmSize": 0}), json!({"ShmSize": 67_108_864})),
        (
            json!({"IpcMode": "", "CgroupnsMode": "", "Runtime": ""}),
            json!({"IpcMode": "private", "CgroupnsMode": "private", "Runtime": "runc"}),
        ),
        (
            json!({"MaskedPaths": null}),
            json!({"MaskedPaths": ["/proc/acpi"], "ReadonlyPaths": ["/proc/bus"]}),
        ),
        (
            json!({"LogConfig": {"Type": "json-file", "Config": {}}}),
            json!({"LogConfig": {"Type": "json-file", "Config": {"max-size": "10m"}}}),
        ),
        (
            json!({"LogConfig": {"Type": "json-file", "Config": null}}),
            json!({"LogConfig": {"Type": "json-file", "Config": {"max-size": "10m"}}}),
        ),
    ] {
        assert_eq!(between(&old, &new), [""; 0], "{old} {new}");
    }
}

/// The host cannot do it: the old one does not have it in effect either.
#[test]
fn ignores_discarded_values_and_reports_added_ones() {
    for (field, asked, discarded) in [
        ("OomKillDisable", json!(true), vec![json!(false), Value::Null]),
        ("MemorySwappiness", json!(10), vec![Value::Null]),
        ("MemorySwappiness", json!(0), vec![Value::Null]),
        ("KernelMemory", json!(64 << 20), vec![json!(0), Value::Null]),
        ("KernelMemoryTCP", json!(64 << 20), vec![json!(0), Value::Null]),
        ("BlkioWeight", json!(300), vec![json!(0)]),
        (
            "BlkioWeightDevice",
            json!([{"Path": "/dev/sda", "Weight": 200}]),
            vec![json!([]), Value::Null],
        ),
    ] {
        let asked = json!({ field: asked });
        for discarded in discarded {
            let discarded = json!({ field: discarded });
            assert_eq!(between(&asked, &discarded), [""; 0], "{asked} {discarded}");
        }
        assert_eq!(between(&asked, &json!({})), [""; 0], "{asked}");
        if asked != json!({"MemorySwappiness": 0}) {
            let path = format!("/HostConfig/{field}");
            assert_eq!(between(&json!({}), &asked), [path.as_str()], "{asked}");
            assert_eq!(between(&asked, &json!({ field: 7 })), [path.as_str()], "{asked}");
        }
    }
}

#[test]
fn reports_lost_limit_that_every_host_supports() {
    for (field, asked, lost) in [
        ("Memory", json!(128 << 20), json!(0)),
        ("MemoryReservation", json!(64 << 20), json!(0)),
        ("NanoCpus", json!(500_000_000), json!(0)),
        ("CpuShares", json!(512), json!(0)),
        ("CpusetCpus", json!("0"), json!("")),
        ("PidsLimit", json!(100), Value::Null),
        ("CpuRealtimePeriod", json!(1_000_000), json!(0)),
        ("CpuRealtimeRuntime", json!(950_000), json!(0)),
    ] {
        let found = between(&json!({ field: asked }), &json!({ field: lost }));
        assert_eq!(found, [format!("/HostConfig/{field}")]);
    }
}

#[test]
fn another_setting_is_a_difference_however_alike_it_looks() {
    for (old, new, path) in [
        (
            json!({"Links": ["/db:/dd/db"]}),
            json!({"Links": ["/db:/dd.candidate/mq"]}),
            "Links",
        ),
        (
            json!({"Links": ["/db:/dd/db"]}),
            json!({"Links": ["/other:/dd.candidate/db"]}),
            "Links",
        ),
        (json!({"Links": ["/db:/dd/db"]}), json!({"Links": []}), "Links"),
        (
            json!({"RestartPolicy": {"Name": "always"}}),
            json!({"RestartPolicy": {"Name": ""}}),
            "RestartPolicy",
        ),
        (
            json!({"Annotations": {"a": "1"}}),
            json!({"Annotations": {"a": "2"}}),
            "Annotations",
        ),
        (json!({"PidsLimit": 100}), json!({"PidsLimit": null}), "PidsLimit"),
        (json!({"PidsLimit": null}), json!({"PidsLimit": 100}), "PidsLimit"),
        (
            json!({"Ulimits": [{"Name": "core", "Hard": 1}]}),
            json!({"Ulimits": [{"Name": "core", "Hard": 2}]}),
            "Ulimits",
        ),
        (
            json!({"ShmSize": 1_048_576}),
            json!({"ShmSize": 67_108_864}),
            "ShmSize",
        ),
        (
            json!({"IpcMode": "host"}),
            json!({"IpcMode": "private"}),
            "IpcMode",
        ),
        // Nothing is to be masked.
        (
            json!({"MaskedPaths": []}),
            json!({"MaskedPaths": ["/proc/acpi"]}),
            "MaskedPaths",
        ),
        (
            json!({"LogConfig": {"Type": "json-file", "Config": {"max-size": "1m"}}}),
            json!({"LogConfig": {"Type": "json-file", "Config": {"max-size": "10m"}}}),
            "LogConfig",
        ),
        (
            json!({"LogConfig": {"Type": "json-file", "Config": {"max-size": "1m"}}}),
            json!({"LogConfig": {"Type": "json-file", "Config": {}}}),
            "LogConfig",
        ),
    ] {
        let found = between(&old, &new);
        let prefix = format!("/HostConfig/{path}");
        assert!(
            !found.is_empty() && found.iter().all(|path| path.starts_with(&prefix)),
            "{old} {new}: {found:?}"
        );
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
    // Before its first start a container has no network's id.
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
fn a_mount_has_the_same_source() {
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
    // The directory of another type is made for the container.
    assert_eq!(of(mount("tmpfs", "/a"), mount("tmpfs", "/b")), [""; 0]);
    assert_eq!(of(mount("bind", "/a"), json!({"Mounts": []})), ["/Mounts/data"]);
    assert_eq!(of(json!({"Mounts": []}), mount("bind", "/a")), ["/Mounts/data"]);
}
