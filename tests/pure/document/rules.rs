//! The rules one by one, by the letters of reliability.md: networks (B), volumes (C), configuration (D).

use delegate_upgrader::container::label;
use delegate_upgrader::container::{ApiVersion, Inspected};
use delegate_upgrader::document::{
    self, CreateRequest, Difference, Images, Obstacle, Overrides, SingleInstance,
};
use serde_json::{Value, json};

use kit::document::{image, inspect, inspected, object};

pub(super) const ID: &str = "abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789";
const SHORT: &str = "abcdef012345";
pub(super) const OTHER_ID: &str = "123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0";
pub(super) const OLD_ENGINE: ApiVersion = ApiVersion::new(1, 41);
const NEW_ENGINE: ApiVersion = ApiVersion::new(1, 44);

pub(super) fn upgrade_on(
    api: ApiVersion,
    container: &Value,
    old: &Value,
    new: &Value,
) -> Result<CreateRequest, Obstacle> {
    let (old, new) = (image(old), image(new));
    let images = Images { old: &old, new: &new };
    create_request(container, images, &overrides(), api)
}

pub(super) fn overrides() -> Overrides<'static> {
    Overrides {
        reference: "harness/delegate:2",
        by_id: None,
        labels: &[],
    }
}

pub(super) fn create_request(
    container: &Value,
    images: Images<'_>,
    overrides: &Overrides<'_>,
    api: ApiVersion,
) -> Result<CreateRequest, Obstacle> {
    document::create_request(&inspected(container), images, overrides, api)
}

pub(super) fn differences(old: &Value, new: &Value, images: Images<'_>) -> Vec<Difference> {
    document::differences(&inspected(old), &inspected(new), images)
}

/// An upgrade that leaves the image as it is.
pub(super) const fn same(image: &Value) -> Images<'_> {
    let (old, new) = (image, image);
    Images { old, new }
}

/// The differences if neither image has defaults.
pub(super) fn bare_differences(old: &Value, new: &Value) -> Vec<Difference> {
    differences(old, new, same(&image(&json!({}))))
}

pub(super) fn single_instance_reasons(container: &Value) -> Vec<SingleInstance> {
    document::single_instance_reasons(&inspected(container))
}

/// The create body after an upgrade from an image with the defaults `old`.
pub(super) fn body(container: &Value, old: &Value) -> Value {
    upgrade_on(OLD_ENGINE, container, old, &json!({})).unwrap().body
}

/// A container with this configuration and nothing from its image.
pub(super) fn container(config: &Value, host_config: Value) -> Value {
    let mut document = inspect(ID, config, &json!({}));
    document["HostConfig"] = host_config;
    document
}

pub(super) fn connected(mode: &str, networks: Value) -> Value {
    let mut document = container(&json!({}), json!({"NetworkMode": mode}));
    document["NetworkSettings"]["Networks"] = networks;
    document
}

fn endpoints(body: &Value) -> &Value {
    &body["NetworkingConfig"]["EndpointsConfig"]
}

// D: configuration

#[test]
fn d1_defaults_of_the_old_image_are_not_frozen() {
    let old = json!({
        "User": "1001", "WorkingDir": "/v1", "StopSignal": "SIGTERM", "Env": ["PATH=/v1", "OPTS=1"],
        "Labels": {"version": "1"}, "ExposedPorts": {"3460/tcp": {}}, "Volumes": {"/data": {}},
        "Entrypoint": ["/v1"], "Cmd": ["run"], "Healthcheck": {"Test": ["CMD", "v1"], "Interval": 5},
    });
    let body = body(&inspect(ID, &json!({"Env": ["MINE=1"]}), &old), &old);
    for field in ["User", "WorkingDir", "StopSignal"] {
        assert_eq!(body.get(field), None, "{field}");
    }
    for field in ["Entrypoint", "Cmd", "Healthcheck"] {
        assert_eq!(body[field], Value::Null, "{field}");
    }
    for field in ["Labels", "ExposedPorts", "Volumes"] {
        assert_eq!(body[field], json!({}), "{field}");
    }
    assert_eq!(body["Env"], json!(["MINE=1"]));
}

#[test]
fn d2_keeps_owner_environment_verbatim() {
    let old = json!({"Env": ["OPTS=1", "EMPTY="]});
    for env in [
        json!(["OPTS=2"]),
        json!(["A=b=c", "A=d", "NO_VALUE", "EMPTY=x"]),
        json!(["OPTS"]),
        json!(["OPTS=1", "OPTS=2"]),
    ] {
        let container = inspect(ID, &json!({"Env": env}), &old);
        assert_eq!(body(&container, &old)["Env"], env);
    }
}

#[test]
#[rustfmt::skip]
fn d3_drops_only_host_names_generated_by_the_engine() {
    for (hostname, host_config, kept) in [
        (SHORT, json!({}), false),
        ("delegate-1", json!({}), true),
        ("abcdef012346", json!({}), true),
        ("database", json!({"NetworkMode": "container:database"}), false),
        ("build-host", json!({"NetworkMode": "host", "UTSMode": "host"}), false),
        ("build-host", json!({"NetworkMode": "host"}), true),
    ] {
        let body = body(
            &container(&json!({"Hostname": hostname}), host_config.clone()),
            &json!({}),
        );
        assert_eq!(body.get("Hostname").is_some(), kept, "{hostname} {host_config}");
    }
}

#[test]
fn d3_drops_a_hostname_variable_that_the_engine_set() {
    let old = container(
        &json!({"Env": [format!("HOSTNAME={SHORT}"), "MINE=1"]}),
        json!({}),
    );
    assert_eq!(body(&old, &json!({}))["Env"], json!(["MINE=1"]));
    let given = container(&json!({"Env": ["HOSTNAME=mine"]}), json!({}));
    assert_eq!(body(&given, &json!({}))["Env"], json!(["HOSTNAME=mine"]));

    let mut new = inspect(OTHER_ID, &json!({"Env": ["MINE=1"]}), &json!({}));
    new["HostConfig"] = json!({});
    assert_eq!(bare_differences(&old, &new), []);
    new["Config"]["Env"] = json!([format!("HOSTNAME={}", &OTHER_ID[..12]), "MINE=1"]);
    assert_eq!(bare_differences(&old, &new), []);
    new["Config"]["Env"] = json!([format!("HOSTNAME={SHORT}"), "MINE=1"]);
    assert_eq!(bare_differences(&old, &new).len(), 1);
}

#[test]
fn d5_a_healthcheck_keeps_the_owners_fields_and_no_others() {
    let old = json!({"Healthcheck": {
        "Test": ["CMD", "v1"], "Interval": 1, "Timeout": 2, "StartPeriod": 3, "StartInterval": 4, "Retries": 5,
    }});
    for field in ["Interval", "Timeout", "StartPeriod", "StartInterval", "Retries"] {
        let owner = json!({"Healthcheck": {field: 9}});
        let container = inspect(ID, &owner, &old);
        assert_eq!(
            body(&container, &old)["Healthcheck"],
            owner["Healthcheck"],
            "{field}"
        );
    }
    for test in [json!(["NONE"]), json!(["CMD-SHELL", "mine"])] {
        let owner = json!({"Healthcheck": {"Test": test}});
        let container = inspect(ID, &owner, &old);
        assert_eq!(body(&container, &old)["Healthcheck"], owner["Healthcheck"]);
    }
}

#[test]
fn d6_entrypoint_and_command_keep_their_source() {
    let both = json!({"Entrypoint": ["/e"], "Cmd": ["c"]});
    let entrypoint = json!({"Entrypoint": ["/e"], "Cmd": null});
    let command = json!({"Entrypoint": null, "Cmd": ["c"]});
    let cleared = json!({"Entrypoint": [""], "Cmd": ["c"]});
    for (image, owner, expected) in [
        // Nothing given.
        (&both, json!([null, null]), json!([null, null])),
        (&entrypoint, json!([null, null]), json!([null, null])),
        (&command, json!([null, null]), json!([null, null])),
        // A command is given.
        (&both, json!([null, ["mine"]]), json!([null, ["mine"]])),
        (&entrypoint, json!([null, ["mine"]]), json!([null, ["mine"]])),
        (&command, json!([null, ["mine"]]), json!([null, ["mine"]])),
        // An entry point is given: the image's command is gone and must not come back.
        (&both, json!([["/mine"], null]), json!([["/mine"], null])),
        (&command, json!([["/mine"], null]), json!([["/mine"], null])),
        (&both, json!([["/mine"], []]), json!([["/mine"], []])),
        (&both, json!([["/mine"], ["mine"]]), json!([["/mine"], ["mine"]])),
        // The image's own entry point is repeated without a command.
        (&both, json!([["/e"], null]), json!([["/e"], null])),
        (&both, json!([["/e"], []]), json!([["/e"], []])),
        (&entrypoint, json!([["/e"], []]), json!([["/e"], []])),
        // The entry point is removed.
        (&both, json!([[""], ["mine"]]), json!([[""], ["mine"]])),
        (&both, json!([[""], ["c"]]), json!([[""], ["c"]])),
        // The entry point is empty, so the image's command still applies.
        (&both, json!([[], null]), json!([[], null])),
        (&both, json!([[], ["mine"]]), json!([[], ["mine"]])),
        // The image cleared its base image's values: the owner cleared nothing.
        (&cleared, json!([null, null]), json!([null, null])),
        (&cleared, json!([null, ["mine"]]), json!([null, ["mine"]])),
        (&cleared, json!([["/mine"], null]), json!([["/mine"], null])),
    ] {
        let given = json!({"Entrypoint": owner[0], "Cmd": owner[1]});
        let body = body(&inspect(ID, &given, image), image);
        assert_eq!(
            json!([body["Entrypoint"], body["Cmd"]]),
            expected,
            "{owner} on {image}"
        );
    }
}

#[test]
fn an_image_may_express_no_entrypoint_as_an_empty_string() {
    let [old, cleared] =
        [json!([]), json!([""])].map(|entrypoint| json!({"Entrypoint": entrypoint, "Cmd": ["c"]}));
    for (old, new) in [(&old, &cleared), (&cleared, &old), (&cleared, &cleared)] {
        let container = inspect(ID, &json!({}), old);
        let made = inspect(
            ID,
            &upgrade_on(OLD_ENGINE, &container, old, new).unwrap().body,
            new,
        );
        let (old, new) = (image(old), image(new));
        let images = Images { old: &old, new: &new };
        assert_eq!(differences(&container, &made, images), []);
    }
}

#[test]
fn our_own_labels_are_replaced_and_the_owners_stay() {
    let container = container(
        &json!({"Labels": {"mine": "1", label::ENABLE: "true", label::RELEASE: "1", label::PREVIOUS_IMAGE: "old"}}),
        json!({}),
    );
    let image = image(&json!({}));
    let labels = [(label::RELEASE, "2".to_owned())];
    let overrides = Overrides {
        labels: &labels,
        ..overrides()
    };
    let made = create_request(&container, same(&image), &overrides, OLD_ENGINE).unwrap();
    assert_eq!(
        made.body["Labels"],
        json!({"mine": "1", label::ENABLE: "true", label::RELEASE: "2"})
    );
    assert_eq!(made.body["Image"], "harness/delegate:2");
}

#[test]
fn successor_ignores_our_labels_in_a_committed_image() {
    let committed =
        json!({"Labels": {"tools": "1", label::RELEASE: "7", label::ROLLED_BACK_FROM: "harness/delegate:3"}});
    let old = image(&json!({}));
    let new = image(&committed);
    let images = Images { old: &old, new: &new };
    let labels = [(label::RELEASE, "2".to_owned())];
    let container = container(&json!({}), json!({}));
    let overrides = Overrides {
        labels: &labels,
        ..overrides()
    };
    let made = create_request(&container, images, &overrides, OLD_ENGINE).unwrap();
    let shown = inspect(ID, &made.body, &committed);
    assert_eq!(
        shown["Config"]["Labels"],
        json!({"tools": "1", label::RELEASE: "2", label::ROLLED_BACK_FROM: ""})
    );
    assert_eq!(
        Inspected::new(shown).unwrap().label(label::ROLLED_BACK_FROM),
        None
    );
}

#[test]
fn a_published_port_stays_exposed_even_if_the_old_image_exposed_it() {
    let old = json!({"ExposedPorts": {"80/tcp": {}, "81/tcp": {}}});
    let mut container = inspect(ID, &json!({"ExposedPorts": {"80/tcp": {}}}), &old);
    container["HostConfig"] = json!({"PortBindings": {"80/tcp": [{"HostPort": "8080"}]}});
    assert_eq!(body(&container, &old)["ExposedPorts"], json!({"80/tcp": {}}));
}

// B: networks

#[test]
fn b1_below_api_1_44_one_network_is_created_and_the_others_connected() {
    let networks = json!({
        "a": {"NetworkID": "1a", "Aliases": ["x", SHORT]},
        "b": {"NetworkID": "2b", "IPAMConfig": {"IPv4Address": "10.0.0.9"}},
        "c": {"NetworkID": "3c", "GwPriority": 7, "Links": ["db:d"], "DriverOpts": {"k": "v"}},
    });
    let a = json!({"Aliases": ["x"]});
    let b = json!({"Aliases": [], "IPAMConfig": {"IPv4Address": "10.0.0.9"}});
    let c = json!({"GwPriority": 7, "Links": ["db:d"], "DriverOpts": {"k": "v"}});
    let mut container = connected("b", networks);
    container["NetworkSettings"]["Networks"]["b"]["Aliases"] = json!([SHORT]);
    let made = upgrade_on(OLD_ENGINE, &container, &json!({}), &json!({})).unwrap();
    assert_eq!(endpoints(&made.body), &json!({"b": b}));
    assert_eq!(
        made.connect,
        [("a".to_owned(), a.clone()), ("c".to_owned(), c.clone())]
    );

    let made = upgrade_on(NEW_ENGINE, &container, &json!({}), &json!({})).unwrap();
    assert_eq!(endpoints(&made.body), &json!({"a": a, "b": b, "c": c}));
    assert_eq!(made.connect, []);
}

#[test]
fn b3_aliases_are_dropped_if_the_engine_refuses_them() {
    let body = body(
        &connected("default", json!({"bridge": {"Aliases": ["x"]}})),
        &json!({}),
    );
    assert_eq!(endpoints(&body), &json!({"bridge": {}}));
    for mode in ["host", "none", "container:x"] {
        let body = self::body(&connected(mode, json!({mode: {"Aliases": ["x"]}})), &json!({}));
        assert_eq!(body.get("NetworkingConfig"), None, "{mode}");
    }
}

#[test]
fn b5_a_mac_address_is_kept_only_if_the_owner_set_it() {
    let shown =
        json!({"mine": {"MacAddress": "02:00:00:00:00:01"}, "other": {"MacAddress": "02:00:00:00:00:02"}});
    let mut container = connected("mine", shown);
    for api in [OLD_ENGINE, NEW_ENGINE] {
        let made = upgrade_on(api, &container, &json!({}), &json!({})).unwrap();
        assert!(
            !format!("{:?}{:?}", made.body, made.connect).contains("02:00"),
            "{api}"
        );
    }
    container["Config"]["MacAddress"] = json!("02:00:00:00:00:01");
    let made = upgrade_on(OLD_ENGINE, &container, &json!({}), &json!({})).unwrap();
    assert_eq!(made.body["MacAddress"], "02:00:00:00:00:01");
    assert_eq!(endpoints(&made.body), &json!({"mine": {}}));
    // Since 1.52 the engine refuses it at the top level.
    let made = upgrade_on(NEW_ENGINE, &container, &json!({}), &json!({})).unwrap();
    assert_eq!(made.body.get("MacAddress"), None);
    assert_eq!(
        endpoints(&made.body),
        &json!({"mine": {"MacAddress": "02:00:00:00:00:01"}, "other": {}})
    );
}

#[test]
fn b9_the_first_network_is_found_by_name_id_and_short_id() {
    let id = "fedcba9876543210fedcba9876543210";
    for mode in ["mine", id, "fedcba987654"] {
        let container = connected(
            mode,
            json!({"another": {"NetworkID": "00"}, "mine": {"NetworkID": id}}),
        );
        let made = upgrade_on(OLD_ENGINE, &container, &json!({}), &json!({})).unwrap();
        assert_eq!(endpoints(&made.body), &json!({"mine": {}}), "{mode}");
        assert_eq!(made.body["HostConfig"]["NetworkMode"], mode);
    }
}

#[test]
fn b9_an_endpoint_that_is_shown_twice_is_connected_once() {
    let id = "fedcba9876543210fedcba9876543210";
    let endpoint = json!({"NetworkID": id, "IPAMConfig": {"IPv4Address": "10.0.0.9"}});
    let container = connected(
        "fedcba987654",
        json!({"fedcba987654": endpoint, "mine": endpoint}),
    );
    let made = upgrade_on(OLD_ENGINE, &container, &json!({}), &json!({})).unwrap();
    assert_eq!(
        endpoints(&made.body),
        &json!({"mine": {"IPAMConfig": {"IPv4Address": "10.0.0.9"}}})
    );
    assert_eq!(made.connect, []);
    assert_eq!(single_instance_reasons(&container).len(), 1);
}

#[test]
fn b_a_disconnected_first_network_is_not_connected_again() {
    let container = connected("gone", json!({"a": {}, "b": {}}));
    let made = upgrade_on(OLD_ENGINE, &container, &json!({}), &json!({})).unwrap();
    assert_eq!(endpoints(&made.body), &json!({"a": {}}));
    assert_eq!(made.connect, [("b".to_owned(), json!({}))]);
}

// C: volumes

pub(super) fn volume(name: &str, destination: &str, writable: bool) -> Value {
    json!({"Type": "volume", "Name": name, "Destination": destination, "RW": writable, "Driver": "local"})
}

#[test]
fn c1_anonymous_volumes_keep_their_data() {
    let mut container = container(&json!({"Volumes": {"/own/": {}}}), json!({"Binds": ["/bind"]}));
    container["HostConfig"]["Mounts"] = json!([{"Type": "volume", "Target": "/mount"}]);
    container["Mounts"] = json!([
        volume("v4", "/with:colon", true),
        volume("v3", "/mount", true),
        {"Type": "volume", "Source": "/var/lib/docker/volumes/v2/_data", "Destination": "/bind", "RW": true},
        volume("v1", "/own", false),
    ]);
    let body = body(&container, &json!({}));
    assert_eq!(body["HostConfig"]["Binds"], json!(["v2:/bind", "v1:/own:ro"]));
    assert_eq!(
        body["HostConfig"]["Mounts"],
        json!([
            {"Type": "volume", "Target": "/mount", "Source": "v3"},
            {"Type": "volume", "Target": "/with:colon", "Source": "v4", "ReadOnly": false},
        ])
    );
}

#[test]
fn c4_declared_mounts_are_never_duplicated() {
    let host_config = json!({
        "Binds": ["named:/named/:ro", "/srv:/bind"],
        "Mounts": [
            {"Type": "volume", "Source": "given", "Target": "/given/", "VolumeOptions": {"Subpath": "s"}},
            {"Type": "bind", "Source": "/srv", "Target": "/srv", "BindOptions": {"Propagation": "rslave"}},
        ],
        "Tmpfs": {"/tmp": "size=1m"},
    });
    let mut container = container(
        &json!({"Volumes": {"/named": {}, "/given": {}}}),
        host_config.clone(),
    );
    container["Mounts"] = json!([
        volume("named", "/named", false),
        volume("given", "/given", true),
        {"Type": "bind", "Source": "/srv", "Destination": "/bind"},
        {"Type": "tmpfs", "Destination": "/tmp"},
    ]);
    assert_eq!(body(&container, &json!({}))["HostConfig"], host_config);
}

#[test]
fn c3_takes_volumes_from_the_same_container_again() {
    let host_config = json!({"VolumesFrom": ["other:ro"], "Binds": null});
    let mut container = container(&json!({"Volumes": {"/own": {}}}), host_config);
    container["Mounts"] = json!([volume("theirs", "/theirs", false), volume("ours", "/own", true)]);
    assert_eq!(
        body(&container, &json!({}))["HostConfig"]["Binds"],
        json!(["ours:/own"])
    );
}

// Obstacles and conflicts

#[test]
fn containers_managed_by_other_tools_are_left_alone() {
    for (label, kind) in [
        ("com.docker.swarm.task.id", Some("managed")),
        ("io.kubernetes.pod.uid", Some("managed")),
        ("PODMAN_SYSTEMD_UNIT", Some("managed")),
        ("com.docker.compose.project", None),
    ] {
        let container = container(&json!({"Labels": {label: "x"}}), json!({}));
        let obstacle = upgrade_on(OLD_ENGINE, &container, &json!({}), &json!({})).err();
        assert_eq!(obstacle.as_ref().map(Obstacle::kind), kind, "{label}");
        assert!(obstacle.is_none_or(|obstacle| obstacle.to_string().contains(label)));
    }
}

/// Podman 5.4.2 shows the secret's name, whatever the variable's name.
#[test]
fn a_variable_from_a_podman_secret_is_an_obstacle() {
    let told = |env: Value| {
        let container = container(&json!({ "Env": env }), json!({}));
        let obstacle = upgrade_on(OLD_ENGINE, &container, &json!({}), &json!({})).err();
        obstacle.map(|obstacle| (obstacle.kind(), obstacle.to_string()))
    };
    let (kind, told_of_it) = told(json!(["A=1", "delegate-token=*******"])).expect("an obstacle");
    assert_eq!(kind, "podman_secret");
    assert!(told_of_it.starts_with("the Podman secret delegate-token is one of its variables"));
    assert_eq!(told(json!(["A=1", "STARS=**", "DELEGATE_TOKEN=x*******"])), None);
}

/// Podman 5.4.2 shows all three for `--cpus`, and answers 500 to a create request with them.
#[test]
fn requests_cpus_once_although_podman_shows_them_twice() {
    let asked = |shown: Value| {
        let container = container(&json!({}), shown);
        let created = upgrade_on(OLD_ENGINE, &container, &json!({}), &json!({})).unwrap();
        let cpus = ["NanoCpus", "CpuPeriod", "CpuQuota"];
        cpus.map(|field| created.body["HostConfig"][field].as_i64())
    };
    assert_eq!(
        asked(json!({ "NanoCpus": 1_500_000_000, "CpuPeriod": 100_000, "CpuQuota": 150_000 })),
        [None, Some(100_000), Some(150_000)]
    );
    let docker = json!({ "NanoCpus": 1_500_000_000, "CpuPeriod": 0, "CpuQuota": 0 });
    assert_eq!(asked(docker), [Some(1_500_000_000), Some(0), Some(0)]);
}

#[test]
fn a21_requests_the_platform_if_the_store_keeps_several() {
    let mut container = container(&json!({}), json!({}));
    assert_eq!(
        upgrade_on(NEW_ENGINE, &container, &json!({}), &json!({}))
            .unwrap()
            .platform,
        None
    );
    container["ImageManifestDescriptor"] =
        json!({"platform": {"os": "linux", "architecture": "arm", "variant": "v7"}});
    let made = upgrade_on(NEW_ENGINE, &container, &json!({}), &json!({})).unwrap();
    assert_eq!(made.platform.as_deref(), Some("linux/arm/v7"));
}

/// The next image may lack the variable, and then its container would not be a delegate.
#[test]
fn the_delegate_name_is_kept_even_if_it_came_from_the_image() {
    let container = container(&json!({"Env": ["DELEGATE_NAME=dd", "MODE=x"]}), json!({}));
    let old = json!({"Env": ["DELEGATE_NAME=dd", "MODE=x"]});
    assert_eq!(body(&container, &old)["Env"], json!(["DELEGATE_NAME=dd"]));
}

#[test]
#[rustfmt::skip]
fn rejects_a_malformed_document_and_names_the_path() {
    for (pointer, value, told) in [
        ("/HostConfig", json!(null), "/HostConfig must be an object"),
        ("/Config/Env", json!({"A": "b"}), "/Config/Env must be a list of strings"),
        ("/Config/Cmd", json!("sh"), "/Config/Cmd must be a list of strings"),
    ] {
        let mut container = container(&json!({"Env": [], "Cmd": []}), json!({}));
        *container.pointer_mut(pointer).unwrap() = value;
        let obstacle = upgrade_on(OLD_ENGINE, &container, &json!({}), &json!({})).unwrap_err();
        assert_eq!(
            obstacle.to_string(),
            format!("cannot read the container document: {told}")
        );
    }
}

/// Documents of 28.5 with containerd's store, in which another image has the same layer in a different compression. An
/// image without defaults is a different case.
#[test]
fn unknown_image_defaults_are_not_treated_as_absent() {
    let container = container(&json!({"Env": ["PATH=/bin"], "Cmd": ["run"]}), json!({}));
    let known = image(&json!({}));
    let nulls =
        json!({"Cmd": null, "Entrypoint": null, "Env": null, "Labels": null, "User": "", "Volumes": null});
    for unknown in [
        json!({"Id": "sha256:f", "Architecture": "", "Os": "", "RootFS": {}, "Config": nulls}),
        json!({"Id": "sha256:f", "Architecture": "amd64", "Os": "linux", "Config": null}),
        json!({"Id": "sha256:f", "Architecture": "amd64", "Os": "linux"}),
    ] {
        for (old, new, which) in [(&unknown, &known, "old image"), (&known, &unknown, "new image")] {
            let refused = create_request(&container, Images { old, new }, &overrides(), OLD_ENGINE);
            assert_eq!(refused.unwrap_err(), Obstacle::ImageUnknown { which });
        }
    }
    assert!(upgrade_on(OLD_ENGINE, &container, &nulls, &nulls).is_ok());
}

#[test]
#[rustfmt::skip]
fn only_unshareable_resources_prevent_running_two_containers() {
    let port = |host: Value| json!({"NetworkMode": "default", "PortBindings": {"3460/tcp": [host]}});
    let device = |path: &str| json!({"Devices": [{"PathOnHost": path, "PathInContainer": "/dev/x"}]});
    let ports = |one: &str, host: &str, other: &str, other_host: &str| json!({"PortBindings": {one: [{"HostPort": host}], other: [{"HostPort": other_host}]}});
    for (host_config, kinds) in [
        (json!({"NetworkMode": "bridge", "PublishAllPorts": true}), vec![]),
        (json!({"NetworkMode": "host", "PidMode": "host", "IpcMode": "host"}), vec!["host_network"]),
        (port(json!({"HostPort": "3460"})), vec!["published_port"]),
        (port(json!({"HostPort": "8000-8000"})), vec!["published_port"]),
        (port(json!({"HostPort": "8000-8001"})), vec![]),
        (ports("80/tcp", "8000-8001", "81/tcp", "8000-8001"), vec!["published_port"; 2]),
        (ports("80/tcp", "8000-8003", "81/tcp", "8000-8003"), vec![]),
        (ports("80/tcp", "8000-8001", "80/udp", "8000-8001"), vec![]),
        (ports("80/tcp", "8000-8001", "81/tcp", "9000-9001"), vec![]),
        (ports("80/tcp", "8000-8004", "81/tcp", "8004-8005"), vec!["published_port"]),
        (ports("80/tcp", "8000-8009", "81/tcp", "8005"), vec!["published_port"]),
        (ports("80/tcp", "65535", "81/tcp", "0-65535"), vec!["published_port"]),
        (port(json!({"HostPort": "0"})), vec![]),
        (port(json!({"HostIp": "127.0.0.1", "HostPort": ""})), vec![]),
        (json!({"NetworkMode": "container:x"}), vec!["container_namespace"]),
        (json!({"PidMode": "container:x", "IpcMode": "container:y"}), vec!["container_namespace"; 2]),
        (json!({"IpcMode": "private"}), vec![]),
        (device("/dev/ttyUSB0"), vec!["device"]),
        (device("/dev/sdb"), vec!["device"]),
        (device("/dev/nullity"), vec!["device"]),
        (device("/dev/fuse"), vec![]),
        (json!({"Binds": ["/srv/data:/data:rw,Z"]}), vec!["private_label"]),
        (json!({"Binds": ["/srv/Z:/data:z", "/Z:/Z", "a:/a:Zz,ro"]}), vec![]),
        (device("/dev/net/tun"), vec![]),
        (device("/dev/dri/renderD128"), vec![]),
        (device("/dev/nvidia0"), vec![]),
        (json!({"DeviceRequests": [{"Driver": "nvidia", "Count": -1}]}), vec![]),
    ] {
        let found = single_instance_reasons(&container(&json!({}), host_config.clone()));
        let found: Vec<_> = found.iter().map(SingleInstance::kind).collect();
        assert_eq!(found, kinds, "{host_config}");
    }
}

#[test]
#[rustfmt::skip]
fn a_reason_names_the_address_that_two_cannot_share() {
    let on_port =
        |host: &str| json!({"HostConfig": {"PortBindings": {"1/tcp": [{"HostIp": host, "HostPort": "80"}]}}});
    let addressed =
        |config: Value| json!({"NetworkSettings": {"Networks": {"mine": {"IPAMConfig": config}}}});
    for (parts, told) in [
        (on_port(""), "on host port 80,"),
        (on_port("127.0.0.1"), "on host port 127.0.0.1:80,"),
        (on_port("::1"), "on host port [::1]:80,"),
        (addressed(json!({"IPv6Address": "fd00::9"})), "it has the fixed address fd00::9 in the network mine"),
        (
            addressed(json!({"LinkLocalIPs": ["169.254.8.8", "fe80::8"]})),
            "it has the fixed address 169.254.8.8 in the network mine; it has the fixed address fe80::8 in the network mine",
        ),
        (json!({"Config": {"MacAddress": "02:00:00:00:00:01"}}), "it has the fixed MAC address 02:00:00:00:00:01"),
    ] {
        let mut container = connected("mine", json!({"mine": {}}));
        container.as_object_mut().unwrap().extend(object(&parts));
        let sentences = single_instance_reasons(&container);
        let sentences: Vec<_> = sentences.iter().map(ToString::to_string).collect();
        assert!(sentences.join("; ").contains(told), "{sentences:?}");
    }
}
