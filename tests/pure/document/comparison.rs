//! The differences between a container and its original, and the parts that two containers share.

use std::time::Duration;

use delegate_upgrader::container::Role;
use delegate_upgrader::document::{self, Images, Obstacle};
use delegate_upgrader::health::{Health, HealthStatus, Probe};
use delegate_upgrader::rollout::{History, Member, StopTimeoutSource};
use serde_json::{Value, json};

use kit::document::{image, inspect, inspected};

use super::rules::{
    ID, OLD_ENGINE, OTHER_ID, bare_differences, body, connected, container, create_request, differences,
    overrides, upgrade_on, volume,
};

/// The settings of a container in the form in which they are compared while its candidate is there, and whether a candidate
/// with a different spelling has the same ones.
fn settings(host_config: &Value) -> String {
    let container = inspected(&container(&json!({}), host_config.clone()));
    let health = Health {
        status: HealthStatus::Healthy,
        probe: Probe::Running,
        detail: String::new(),
        failed_checks: 0,
    };
    Member::read(
        &container,
        Role::Serving,
        health,
        (Duration::ZERO, StopTimeoutSource::Setting),
        History::default(),
    )
    .settings
}

/// If several ulimits are the daemon's own, an engine shows them in a different order at each inspect.
#[test]
fn sets_are_compared_as_sets_and_lists_as_lists() {
    let ulimit = |name: &str, soft: u64| json!({"Name": name, "Soft": soft, "Hard": 9});
    for (field, one, other, is_set) in [
        ("Ulimits", ulimit("nofile", 1), ulimit("core", 2), true),
        ("CapAdd", json!("CAP_A"), json!("CAP_B"), true),
        ("CapDrop", json!("CAP_A"), json!("CAP_B"), true),
        ("GroupAdd", json!("1"), json!("2"), true),
        ("Binds", json!("/a:/a"), json!("/b:/b"), true),
        ("MaskedPaths", json!("/a"), json!("/b"), true),
        ("ReadonlyPaths", json!("/a"), json!("/b"), true),
        ("Dns", json!("1.1.1.1"), json!("9.9.9.9"), false),
        ("DnsSearch", json!("a"), json!("b"), false),
        ("ExtraHosts", json!("a:1.1.1.1"), json!("a:9.9.9.9"), false),
        ("VolumesFrom", json!("a"), json!("b"), false),
        ("DeviceCgroupRules", json!("c 1:3 mr"), json!("a 7:* rmw"), false),
        ("SecurityOpt", json!("label=type:a"), json!("label=type:b"), false),
    ] {
        let [forth, back] = [json!({field: [one, other]}), json!({field: [other, one]})];
        assert_eq!(settings(&forth) == settings(&back), is_set, "{field}");
        let [old, new] = [&forth, &back].map(|config| container(&json!({}), config.clone()));
        let found = bare_differences(&old, &new);
        assert_eq!(found.is_empty(), is_set, "{field}: {found:?}");
    }
    assert_ne!(
        settings(&json!({"Ulimits": [ulimit("core", 1)]})),
        settings(&json!({"Ulimits": [ulimit("core", 2)]}))
    );
}

#[test]
#[rustfmt::skip]
fn shows_each_change_with_both_values() {
    let told = |before: Value, now: Value| {
        let [before, now] = [before, now].map(|config| inspected(&container(&json!({}), config)));
        document::changes(&now, &before)
    };
    for (before, now, expected) in [
        (json!({"Memory": 1}), json!({"Memory": 2, "AutoRemove": true}), "/HostConfig/Memory was 1, and is 2"),
        (
            json!({"RestartPolicy": {"Name": ""}}),
            json!({"RestartPolicy": {"Name": "always"}}),
            "/HostConfig/RestartPolicy/Name was \"no\", and is \"always\"",
        ),
        (json!({"Sysctls": {"a": "secret"}}), json!({}), "/HostConfig/Sysctls was a value (not shown), and is nothing"),
        (json!({}), json!({}), ""),
    ] {
        assert_eq!(told(before, now), expected);
    }
    let [alone, both] =
        [json!({"a": {}}), json!({"a": {}, "b": {}})].map(|networks| inspected(&connected("a", networks)));
    let expected = "/NetworkSettings/Networks/b was false, and is true";
    assert_eq!(document::changes(&both, &alone), expected);
}

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
    let (from, to) = (image(&json!({})), image(&json!({"Volumes": {"/declared/": {}}})));
    new["Config"]["Volumes"] = json!({"/declared/": {}});
    let differences = differences(&old, &new, Images { old: &from, new: &to });
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
    let differences = bare_differences(&container, &empty);
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
fn keeps_compose_labels_even_if_the_image_has_them() {
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

    // Without Compose, these are ordinary labels of the image.
    let container = inspect(ID, &json!({}), &built);
    let made = body(&container, &built);
    assert_eq!(made["Labels"], json!({}));
    let recreated = inspect(OTHER_ID, &made, &otherwise);
    assert_eq!(differences(&container, &recreated, images), []);
}

// The image's platform, and resources that a container has from another one

#[test]
fn compares_platforms_if_both_images_name_one() {
    let platform = |os: &str, architecture: &str| json!({"Id": "sha256:0", "Os": os, "Architecture": architecture, "Config": {}});
    let upgraded = |old: &Value, new: &Value| {
        let container = container(&json!({}), json!({}));
        create_request(&container, Images { old, new }, &overrides(), OLD_ENGINE).map(|_| ())
    };
    let amd64 = platform("linux", "amd64");
    for same in [platform("linux", "x86_64"), platform("linux", "")] {
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
fn dependencies_need_the_other_container_in_different_ways() {
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
