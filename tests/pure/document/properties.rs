//! Random owners, random images, random fields nobody has heard of.

use delegate_upgrader::container::{ApiVersion, Inspected};
use delegate_upgrader::document::{
    self, Difference, Images, Overrides, create_request, dependencies, single_instance_reasons,
    swarm_network, verify,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::daemon::{Daemon, show};
use kit::document::{image, inspect, inspected, merge, object, strings};

const OLD: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222222222222222222222222222";
const API: ApiVersion = ApiVersion::new(1, 51);

const OVERRIDES: Overrides<'_> = Overrides {
    reference: "new",
    by_id: None,
    labels: &[],
};

/// Few names and few values, so that owner and images often meet.
type Words = [&'static str; 3];
const COMMON: Words = ["a", "b", "c"];
const OTHER: Words = ["x", "y", "z"];

fn word(words: Words) -> impl Strategy<Value = String> {
    select(words.to_vec()).prop_map(str::to_owned)
}

fn command(words: Words) -> impl Strategy<Value = Value> {
    option::of(vec(word(words), 0..3)).prop_map(|words| json!(words))
}

fn set(path: &'static str, words: Words) -> impl Strategy<Value = Value> {
    btree_map(word(words), Just(json!({})), 0..3).prop_map(move |words| {
        words
            .into_iter()
            .map(|(word, value)| (format!("{path}{word}"), value))
            .collect::<Map<_, _>>()
            .into()
    })
}

fn healthcheck(words: Words) -> impl Strategy<Value = Value> {
    option::of((option::of(word(words)), 0..3_u8, 0..3_u8, 0..3_u8)).prop_map(|check| {
        check.map_or(Value::Null, |(test, interval, retries, start)| {
            json!({
                "Test": test.map(|test| vec!["CMD".to_owned(), test]),
                "Interval": interval,
                "Retries": retries,
                "StartInterval": start,
            })
        })
    })
}

/// What an owner gives, or an image.
fn config() -> impl Strategy<Value = Value> {
    config_of(COMMON)
}

fn config_of(words: Words) -> impl Strategy<Value = Value> {
    let scalar = || option::of(word(words));
    (
        (scalar(), scalar(), scalar()),
        btree_map(word(words), word(words), 0..3),
        btree_map(word(words), word(words), 0..3),
        (command(words), command(words), healthcheck(words)),
        (set("/", words), set("80/", words)),
    )
        .prop_map(
            |(scalars, env, labels, (entrypoint, command, healthcheck), (volumes, ports))| {
                let env: Vec<_> = env
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                json!({
                    "User": scalars.0.unwrap_or_default(),
                    "WorkingDir": scalars.1.unwrap_or_default(),
                    "StopSignal": scalars.2.unwrap_or_default(),
                    "Env": env,
                    "Labels": labels,
                    "Entrypoint": entrypoint,
                    "Cmd": command,
                    "Healthcheck": healthcheck,
                    "Volumes": volumes,
                    "ExposedPorts": ports,
                })
            },
        )
}

fn daemon() -> impl Strategy<Value = Daemon> {
    let log_options = btree_map(word(["max-size", "max-file", "mode"]), word(COMMON), 0..3);
    (any::<bool>(), any::<bool>(), log_options).prop_map(|(fills_in, cgroup_v2, log_options)| Daemon {
        fills_in,
        cgroup_v2,
        log_options: object(&json!(log_options)),
    })
}

/// What an owner asks for where engines fill in or discard something.
fn host_config() -> impl Strategy<Value = Value> {
    let one_of = |values: Value| select(values.as_array().unwrap().clone());
    let paths = || one_of(json!([null, [], ["/proc/mine"]]));
    let log_options = btree_map(word(["max-size", "max-file", "mode"]), word(OTHER), 0..3);
    let ulimit = json!({"Name": "nofile", "Soft": 3, "Hard": 3});
    (
        (
            one_of(json!([null, "", "host"])),
            one_of(json!([null, "", "private", "host"])),
        ),
        (paths(), paths(), log_options),
        (one_of(json!([null, "", "mine"])), one_of(json!([null, 0, 1]))),
        (one_of(json!([null, 0, -1, 100])), one_of(json!([null, false]))),
        one_of(json!([null, [], [ulimit]])),
    )
        .prop_map(
            |((cgroup, ipc), (masked, readonly, log), (runtime, shm), (pids, oom), ulimits)| {
                json!({
                    "CgroupnsMode": cgroup,
                    "IpcMode": ipc,
                    "MaskedPaths": masked,
                    "ReadonlyPaths": readonly,
                    "LogConfig": {"Type": "json-file", "Config": log},
                    "Runtime": runtime,
                    "ShmSize": shm,
                    "PidsLimit": pids,
                    "OomKillDisable": oom,
                    "Ulimits": ulimits,
                })
            },
        )
}

/// `default-ulimits` as they come in three observations.
fn default_ulimits() -> impl Strategy<Value = [Vec<Value>; 3]> {
    let ulimits: Vec<_> = ["core", "nofile", "nproc"]
        .map(|name| json!({"Name": name, "Soft": 1, "Hard": 2}))
        .into();
    let look = || Just(ulimits.clone()).prop_shuffle();
    [look(), look(), look()]
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z/:=.]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map("[A-Za-z]{1,5}", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A container document in which any known part may be anything.
fn broken_document() -> impl Strategy<Value = Value> {
    const PLACES: [&str; 16] = [
        "/Id",
        "/Config",
        "/Config/Env",
        "/Config/Labels",
        "/Config/Cmd",
        "/Config/Entrypoint",
        "/Config/Healthcheck",
        "/Config/Volumes",
        "/Config/Hostname",
        "/HostConfig",
        "/HostConfig/Binds",
        "/HostConfig/Mounts",
        "/HostConfig/PortBindings",
        "/NetworkSettings",
        "/NetworkSettings/Networks",
        "/Mounts",
    ];
    (config(), vec((0..PLACES.len(), anything()), 0..4)).prop_map(|(owner, faults)| {
        let mut document = inspect(
            OLD,
            &json!({"Config": owner, "HostConfig": {"Binds": [], "Mounts": [], "PortBindings": {}}}),
            &json!({}),
        );
        for (place, value) in faults {
            if let Some(slot) = document.pointer_mut(PLACES[place]) {
                *slot = value;
            }
        }
        document
    })
}

/// The successor's body and what the engine shows of the container made from it.
fn upgrade(id: &str, container: &Value, old: &Value, new: &Value) -> (Value, Value) {
    let (old_image, new_image) = (image(old), image(new));
    let images = Images {
        old: &old_image,
        new: &new_image,
    };
    let body = create_request(&inspected(container), images, &OVERRIDES, API)
        .unwrap()
        .body;
    let made = inspect(id, &body, new);
    (body, made)
}

fn differences(old: &Value, new: &Value, images: Images<'_>) -> Vec<Difference> {
    document::differences(&inspected(old), &inspected(new), images)
}

/// The order of a container's variables has no meaning.
fn settled(config: &Value) -> Value {
    let mut config = config.clone();
    let mut env = strings(&config["Env"]);
    env.sort();
    config["Env"] = json!(env);
    for field in ["Entrypoint", "Cmd"] {
        if config[field] == json!([]) {
            config[field] = Value::Null;
        }
    }
    if object(&config["Healthcheck"])
        .values()
        .all(|value| value.is_null() || *value == json!(0))
    {
        config["Healthcheck"] = Value::Null;
    }
    for field in ["Image", "Hostname"] {
        config[field] = Value::Null;
    }
    config
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_image_again_gives_the_same_container(owner in config(), defaults in config()) {
        let container = inspect(OLD, &owner, &defaults);
        let (_, made) = upgrade(NEW, &container, &defaults, &defaults);
        prop_assert_eq!(settled(&made["Config"]), settled(&container["Config"]));
    }

    #[test]
    fn a_second_upgrade_to_the_same_defaults_changes_nothing(owner in config(), old in config(), new in config()) {
        let container = inspect(OLD, &owner, &old);
        let (_, first) = upgrade(NEW, &container, &old, &new);
        let (_, second) = upgrade(OLD, &first, &new, &new);
        prop_assert_eq!(settled(&second["Config"]), settled(&first["Config"]));
    }

    #[test]
    fn no_value_of_the_owner_that_differs_from_the_images_is_dropped(
        owner in config(), old in config(), new in config(),
    ) {
        let container = inspect(OLD, &owner, &old);
        let (_, made) = upgrade(NEW, &container, &old, &new);
        let made = &made["Config"];
        for field in ["User", "WorkingDir", "StopSignal"] {
            if owner[field] != "" && owner[field] != old[field] {
                prop_assert_eq!(&made[field], &owner[field]);
            }
        }
        let old_env = strings(&old["Env"]);
        for entry in strings(&owner["Env"]) {
            if !old_env.contains(&entry) {
                prop_assert!(strings(&made["Env"]).contains(&entry), "{} was lost", entry);
            }
        }
        for (name, value) in object(&owner["Labels"]) {
            if old["Labels"].get(&name) != Some(&value) {
                prop_assert_eq!(&made["Labels"][&name], &value);
            }
        }
        for field in ["Volumes", "ExposedPorts"] {
            for name in object(&owner[field]).keys() {
                if old[field].get(name).is_none() {
                    prop_assert!(made[field].get(name).is_some(), "{} was lost", name);
                }
            }
        }
        for (field, value) in object(&owner["Healthcheck"]) {
            if value != json!(0) && !value.is_null() && old["Healthcheck"].get(&field) != Some(&value) {
                prop_assert_eq!(&made["Healthcheck"][&field], &value);
            }
        }
    }

    #[test]
    fn an_owner_unlike_the_old_image_gets_just_what_a_fresh_container_would_have(
        owner in config(), mut old in config_of(OTHER), new in config(),
    ) {
        // With no value in common nothing is unknowable, but for what looks the same on both sides.
        old["Healthcheck"] = Value::Null;
        if old["Entrypoint"] == json!([]) {
            old["Entrypoint"] = Value::Null;
        }
        let container = inspect(OLD, &owner, &old);
        let (_, made) = upgrade(NEW, &container, &old, &new);
        prop_assert_eq!(settled(&made["Config"]), settled(&merge(&owner, &new)));
    }

    #[test]
    fn nothing_is_unexplained_about_an_upgraded_container(owner in config(), old in config(), new in config()) {
        let container = inspect(OLD, &owner, &old);
        let (_, made) = upgrade(NEW, &container, &old, &new);
        let (old, new) = (image(&old), image(&new));
        let differences = differences(&container, &made, Images { old: &old, new: &new });
        prop_assert!(differences.is_empty(), "{:?}", differences);
    }

    #[test]
    fn nothing_is_unexplained_where_the_engine_was_another_one_before(
        asked in host_config(),
        (before, now) in (daemon(), daemon()),
        updated in option::of(select(vec![0, 100])),
        [first, second, third] in default_ulimits(),
    ) {
        let mut kept = before.create(&asked);
        if let Some(limit) = updated {
            kept["PidsLimit"] = json!(limit);
        }
        let looked_at = |id, kept, ulimits: &[Value]| {
            let mut document = inspect(id, &json!({}), &json!({}));
            document["HostConfig"] = show(kept, ulimits);
            document
        };
        let (body, _) = upgrade(NEW, &looked_at(OLD, &kept, &first), &json!({}), &json!({}));
        let old = looked_at(OLD, &kept, &second);
        let new = looked_at(NEW, &now.create(&body["HostConfig"]), &third);
        let image = image(&json!({}));
        let differences = differences(&old, &new, Images { old: &image, new: &image });
        prop_assert!(differences.is_empty(), "{:?}", differences);
    }

    #[test]
    fn fields_nobody_knows_survive_at_any_depth(owner in config(), defaults in config(), unknown in anything()) {
        let mut body = owner;
        body["Unknown"] = unknown.clone();
        body["HostConfig"] = json!({
            "NetworkMode": "mine",
            "Unknown": unknown,
            "LogConfig": {"Unknown": unknown},
            "Mounts": [{"Type": "volume", "Source": "v", "Target": "/v", "VolumeOptions": {"Unknown": unknown}}],
        });
        body["NetworkingConfig"] = json!({"EndpointsConfig": {"mine": {"Unknown": unknown}}});
        let container = inspect(OLD, &body, &defaults);
        let (made, _) = upgrade(NEW, &container, &defaults, &defaults);
        prop_assert_eq!(&made["Unknown"], &body["Unknown"]);
        prop_assert_eq!(&made["HostConfig"], &body["HostConfig"]);
        prop_assert_eq!(&made["NetworkingConfig"]["EndpointsConfig"]["mine"]["Unknown"], &unknown);
    }

    #[test]
    fn no_document_makes_it_panic(container in broken_document(), old in anything(), new in config()) {
        // A document without an id does not get as far as this.
        let Some(container) = Inspected::new(container) else { return Ok(()) };
        let (old, new) = (json!({"Config": old}), image(&new));
        for images in [Images { old: &old, new: &new }, Images { old: &new, new: &old }] {
            for api in [ApiVersion::new(1, 41), API] {
                let _ = create_request(&container, images, &OVERRIDES, api);
            }
            let _ = (document::differences(&container, &container, images), verify(&container, &container, images));
        }
        let _ = (single_instance_reasons(&container), dependencies(&container), swarm_network(&container));
    }
}
