//! What engines write differently, and what only looks alike: the comparison of a container with its recreated self.

use delegate_upgrader::container::Inspected;
use delegate_upgrader::document::{Images, differences};
use kit::document::{image, inspect};
use serde_json::{Value, json};

/// The paths of all differences between two containers that have these host configurations.
fn between(old: Value, new: Value) -> Vec<String> {
    let image = image(&json!({}));
    let images = Images {
        old: &image,
        new: &image,
    };
    let container = |name: &str, host_config: Value| {
        let mut document = inspect("0123456789abcdef", &json!({}), &json!({}));
        document["Name"] = name.into();
        document["HostConfig"] = host_config;
        Inspected::new(document).unwrap()
    };
    let found = differences(&container("/dd", old), &container("/dd.candidate", new), images);
    found
        .iter()
        .map(|difference| difference.path().to_owned())
        .collect()
}

#[test]
fn one_setting_in_two_spellings_is_no_difference() {
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
        assert_eq!(between(old.clone(), new.clone()), [""; 0], "{old} {new}");
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
            json!({"OomKillDisable": true}),
            json!({"OomKillDisable": false}),
            "OomKillDisable",
        ),
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
        let found = between(old.clone(), new.clone());
        let prefix = format!("/HostConfig/{path}");
        assert!(
            !found.is_empty() && found.iter().all(|path| path.starts_with(&prefix)),
            "{old} {new}: {found:?}"
        );
    }
}
