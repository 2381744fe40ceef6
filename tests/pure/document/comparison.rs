//! What a container differs in from the one it was made from, and what two containers share.

use delegate_upgrader::document::{self, Images, Obstacle};
use serde_json::{Value, json};

use kit::document::{image, inspect, inspected};

use super::rules::{
    ID, OLD_ENGINE, OTHER_ID, body, connected, container, create_request, differences, overrides,
    single_instance_reasons, upgrade_on, volume,
};

#[test]
fn reports_frozen_default_of_the_old_image() {
    let (old, new) = (
        json!({"Env": ["OPTS=1"], "Cmd": ["v1"]}),
        json!({"Env": ["OPTS=2"], "Cmd": ["v2"]}),
    );
    let container = inspect(ID, &json!({}), &old);
    let frozen = inspect(ID, &container["Config"], &new);
    let (old, new) = (image(&old), image(&new));
    let paths: Vec<_> = differences(&container, &frozen, Images { old: &old, new: &new })
        .iter()
        .map(|difference| difference.path().to_owned())
        .collect();
    assert_eq!(paths, ["/Config/Env/OPTS", "/Config/Cmd"]);
}

#[test]
fn reports_extra_mount_that_the_new_image_does_not_declare() {
    let old = container(&json!({}), json!({}));
    let mut new = old.clone();
    new["Mounts"] = json!([volume("v", "/declared", true), volume("v", "/more", true)]);
    let (old_image, new_image) = (image(&json!({})), image(&json!({"Volumes": {"/declared/": {}}})));
    new["Config"]["Volumes"] = json!({"/declared/": {}});
    let images = Images {
        old: &old_image,
        new: &new_image,
    };
    let differences = differences(&old, &new, images);
    assert_eq!(differences.len(), 1, "{differences:?}");
    assert_eq!(differences[0].path(), "/Mounts/more");
}

#[test]
fn differences_and_successors_show_no_secret() {
    let secret = "hunter2";
    let container = container(
        &json!({
            "Env": [format!("DELEGATE_TOKEN={secret}")],
            "Cmd": ["--token", secret],
            "Labels": {"token": secret},
            "Unknown": secret,
        }),
        json!({
            "LogConfig": {"Type": "splunk", "Config": {"splunk-token": secret}},
            "Mounts": [{"Type": "volume", "VolumeOptions": {"DriverConfig": {"Options": {"o": secret}}}}],
            "NetworkMode": "x",
        }),
    );
    let empty = inspect(ID, &json!({}), &json!({}));
    let image = image(&json!({}));
    let differences = differences(
        &container,
        &empty,
        Images {
            old: &image,
            new: &image,
        },
    );
    assert!(differences.len() >= 6, "{differences:?}");
    let told: Vec<_> = differences
        .iter()
        .flat_map(|difference| [difference.to_string(), format!("{difference:?}")])
        .collect();
    let told = told.join("\n");
    assert!(!told.contains(secret), "{told}");
    assert!(
        told.contains("/HostConfig/NetworkMode: \"x\" expected, nothing found"),
        "{told}"
    );
    assert!(
        told.contains("/Config/Env/DELEGATE_TOKEN: a value (not shown) expected"),
        "{told}"
    );

    let made = upgrade_on(OLD_ENGINE, &container, &json!({}), &json!({})).unwrap();
    assert!(!format!("{made:?}").contains(secret));
}

#[test]
fn ignores_notes_that_podman_adds() {
    let images = Images {
        old: &image(&json!({})),
        new: &image(&json!({})),
    };
    let with = |annotations: Value| container(&json!({}), json!({ "Annotations": annotations }));
    let old = with(json!({ "mine": "1" }));
    let noted = with(json!({ "mine": "1", "io.podman.annotations.pids-limit": "0" }));
    assert_eq!(differences(&old, &noted, images), []);
    let changed = with(json!({ "mine": "2" }));
    assert_eq!(differences(&old, &changed, images).len(), 1);
}

#[test]
fn no_restart_policy_has_two_spellings() {
    let images = Images {
        old: &image(&json!({})),
        new: &image(&json!({})),
    };
    let with = |policy: Value| container(&json!({}), json!({ "RestartPolicy": policy }));
    let unnamed = with(json!({ "Name": "", "MaximumRetryCount": 0 }));
    let none = with(json!({ "Name": "no", "MaximumRetryCount": 0 }));
    let always = with(json!({ "Name": "always", "MaximumRetryCount": 0 }));
    assert_eq!(differences(&none, &unnamed, images), []);
    assert_eq!(differences(&unnamed, &none, images), []);
    assert_eq!(differences(&unnamed, &always, images).len(), 1);
    assert_eq!(differences(&always, &unnamed, images).len(), 1);
}

/// What of a container's host configuration is reported as different after it was recreated.
fn differing(expected: Value, found: Value) -> Vec<String> {
    let image = image(&json!({}));
    let images = Images {
        old: &image,
        new: &image,
    };
    let [old, new] = [expected, found].map(|host_config| container(&json!({}), host_config));
    differences(&old, &new, images)
        .iter()
        .map(|difference| difference.path().to_owned())
        .collect()
}

#[test]
fn ignores_values_that_the_engine_fills_in_at_create() {
    for (field, expected, found) in [
        (
            "LogConfig",
            json!({"Type": "json-file", "Config": {"max-file": "3"}}),
            json!({"Type": "json-file", "Config": {"max-file": "3", "max-size": "10m"}}),
        ),
        (
            "LogConfig",
            json!({"Type": "json-file", "Config": null}),
            json!({"Type": "json-file", "Config": {}}),
        ),
        ("CgroupnsMode", json!(""), json!("private")),
        ("CgroupnsMode", Value::Null, json!("host")),
        ("IpcMode", json!(""), json!("private")),
        ("MaskedPaths", Value::Null, json!(["/proc/kcore"])),
        ("ReadonlyPaths", Value::Null, json!(["/proc/sys"])),
        ("ShmSize", json!(0), json!(67_108_864)),
        ("Runtime", json!(""), json!("runc")),
    ] {
        let (expected, found) = (json!({ field: expected }), json!({ field: found }));
        assert!(
            differing(expected.clone(), found.clone()).is_empty(),
            "{expected} {found}"
        );
        assert!(
            !differing(found.clone(), expected.clone()).is_empty(),
            "{found} {expected}"
        );
    }
    assert!(differing(json!({}), json!({"Runtime": "runc"})).is_empty());
}

#[test]
fn a_limit_that_is_not_set_has_several_spellings() {
    for (field, spellings, set) in [
        ("PidsLimit", vec![json!(0), json!(-1), Value::Null], json!(100)),
        ("OomKillDisable", vec![json!(false), Value::Null], json!(true)),
    ] {
        let set = json!({ field: set });
        for one in &spellings {
            let one = json!({ field: one });
            for other in &spellings {
                let other = json!({ field: other });
                assert!(differing(one.clone(), other.clone()).is_empty(), "{one} {other}");
            }
            assert_eq!(differing(one.clone(), set.clone()).len(), 1, "{one} {set}");
            // What a host cannot do is discarded.
            let missed = usize::from(field == "PidsLimit");
            assert_eq!(differing(set.clone(), one.clone()).len(), missed, "{set} {one}");
        }
    }
}

#[test]
fn reports_lost_owner_value_that_the_engine_might_fill_in() {
    let log = |options: Value| json!({"LogConfig": {"Type": "json-file", "Config": options}});
    for (expected, found) in [
        // An option lost, one changed, and one that was given empty.
        (log(json!({"max-size": "10m"})), log(json!({"max-file": "3"}))),
        (log(json!({"max-size": "10m"})), log(json!({"max-size": "20m"}))),
        (log(json!({"max-size": ""})), log(json!({"max-size": "10m"}))),
        (
            json!({"LogConfig": {"Type": "local", "Config": {}}}),
            json!({"LogConfig": {"Type": "json-file", "Config": {}}}),
        ),
        // No path is masked with `--security-opt systempaths=unconfined`.
        (
            json!({"MaskedPaths": []}),
            json!({"MaskedPaths": ["/proc/kcore"]}),
        ),
        (
            json!({"ReadonlyPaths": []}),
            json!({"ReadonlyPaths": ["/proc/sys"]}),
        ),
        (
            json!({"CgroupnsMode": "host"}),
            json!({"CgroupnsMode": "private"}),
        ),
        (json!({"ShmSize": 1}), json!({"ShmSize": 67_108_864})),
        // Nothing that the engine fills in.
        (json!({"Privileged": false}), json!({"Privileged": true})),
        (json!({"PidMode": ""}), json!({"PidMode": "host"})),
    ] {
        assert!(
            !differing(expected.clone(), found.clone()).is_empty(),
            "{expected} {found}"
        );
    }
}

#[test]
fn ignores_order_of_ulimits() {
    let [nofile, nproc] = ["nofile", "nproc"].map(|name| json!({"Name": name, "Soft": 1, "Hard": 2}));
    let ulimits = |entries: &[&Value]| json!({ "Ulimits": entries });
    assert!(differing(ulimits(&[&nofile, &nproc]), ulimits(&[&nproc, &nofile])).is_empty());
    let lower = json!({"Name": "nproc", "Soft": 1, "Hard": 1});
    for changed in [ulimits(&[&lower, &nofile]), ulimits(&[&nofile]), json!({})] {
        let different = differing(ulimits(&[&nofile, &nproc]), changed.clone());
        assert_eq!(different, ["/HostConfig/Ulimits"], "{changed}");
    }
}

#[test]
fn a_link_local_address_is_a_fixed_one() {
    let container = connected(
        "mine",
        json!({"mine": {"IPAMConfig": {"LinkLocalIPs": ["169.254.8.8", "fe80::8"]}}}),
    );
    let told: Vec<_> = single_instance_reasons(&container)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        told,
        [
            "it has the fixed address 169.254.8.8 in the network mine",
            "it has the fixed address fe80::8 in the network mine"
        ]
    );
}

#[test]
fn keeps_compose_labels_even_where_the_image_has_them() {
    let built = json!({"Labels": {
        "com.docker.compose.project": "p", "com.docker.compose.service": "delegate", "tools": "1",
    }});
    let composed = json!({"Labels": {
        "com.docker.compose.project": "p", "com.docker.compose.service": "delegate",
        "com.docker.compose.container-number": "1",
    }});
    let otherwise = json!({"Labels": {"com.docker.compose.project": "q", "tools": "2"}});
    let (old, new) = (image(&built), image(&otherwise));
    let images = Images { old: &old, new: &new };

    let container = inspect(ID, &composed, &built);
    let made = body(&container, &built);
    assert_eq!(made["Labels"], composed["Labels"]);
    let recreated = inspect(OTHER_ID, &made, &otherwise);
    assert_eq!(differences(&container, &recreated, images), []);
    let mut lost = recreated;
    lost["Config"]["Labels"]["com.docker.compose.project"] = json!("q");
    assert_eq!(differences(&container, &lost, images).len(), 1);

    // Without compose they are labels of the image like others.
    let container = inspect(ID, &json!({}), &built);
    let made = body(&container, &built);
    assert_eq!(made["Labels"], json!({}));
    let recreated = inspect(OTHER_ID, &made, &otherwise);
    assert_eq!(differences(&container, &recreated, images), []);
}

// The image's platform, and what a container has of another one

#[test]
fn compares_platforms_where_both_images_name_one() {
    let platform = |os: &str, architecture: &str| json!({"Id": "sha256:0", "Os": os, "Architecture": architecture, "Config": {}});
    let upgraded = |old: &Value, new: &Value| {
        let container = container(&json!({}), json!({}));
        create_request(&container, Images { old, new }, &overrides(), OLD_ENGINE).map(|_| ())
    };
    let amd64 = platform("linux", "amd64");
    for same in [
        platform("linux", "x86_64"),
        platform("linux", ""),
        platform("", "arm64"),
        json!({"Config": {}}),
    ] {
        assert_eq!(upgraded(&amd64, &same), Ok(()), "{same}");
        assert_eq!(upgraded(&same, &amd64), Ok(()), "{same}");
    }
    let other = Obstacle::OtherPlatform {
        old: "linux/amd64".to_owned(),
        new: "linux/arm64".to_owned(),
    };
    assert_eq!(upgraded(&amd64, &platform("linux", "aarch64")), Err(other));
}

#[test]
fn what_a_container_has_of_another_one_needs_it_in_different_ways() {
    let container = container(
        &json!({}),
        json!({"NetworkMode": "container:a", "PidMode": "container:b", "VolumesFrom": ["c"], "Links": ["/d:/own/d"]}),
    );
    let found: Vec<_> = document::dependencies(&inspected(&container))
        .into_iter()
        .map(|dependency| {
            let needs = (dependency.needs_it_running(), dependency.tracks_renames());
            (dependency.container, needs)
        })
        .collect();
    let expected = [
        ("a", (true, false)),
        ("b", (true, false)),
        ("c", (false, false)),
        ("d", (true, true)),
    ];
    assert_eq!(found, expected.map(|(name, needs)| (name.to_owned(), needs)));
}
