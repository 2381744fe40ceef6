//! Whole lives of a container on an engine: created by an owner, replaced, and replaced again.

use delegate_upgrader::container::{ApiVersion, Inspected, label};
use delegate_upgrader::document::{CreateRequest, Difference, Images, Obstacle, differences, verify};
use serde_json::{Value, json};

use super::shown::{connected, created};
use super::{Given, labels, list, made, object, owner};
use crate::document::inspected;

const OLD: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222222222222222222222222222";

pub(super) fn check(container: &Inspected, images: Images<'_>, api: ApiVersion) {
    let (old, new) = (owner::image(images.old), owner::image(images.new));
    let mut owner = owner::of(container.document());
    if is_called_as_an_engine_would(&owner) {
        return;
    }
    let mut first = created(OLD, &owner, &old);
    if has_no_command(&first) {
        owner["Cmd"] = json!(["run"]);
        first = created(OLD, &owner, &old);
    }
    let engine = Engine { api };
    let Some((_, same)) = engine.replace(NEW, &first, &old, &old) else {
        return;
    };
    assert_explained(&first, &same, &old, &old);
    let Some((call, second)) = engine.replace(NEW, &first, &old, &new) else {
        return;
    };
    assert_explained(&first, &second, &old, &new);
    assert_volumes_stay(&first, &second);
    let mut expected = labels(&inspected(&first));
    if !call.connect.is_empty() {
        let networks: Value = call.connect.iter().cloned().collect();
        expected.push((label::NETWORKS, networks.to_string()));
    }
    if inspected(&first).auto_remove() || inspected(&first).emulates_auto_remove() {
        expected.push((label::AUTO_REMOVE, "true".to_owned()));
    }
    assert_labels_are_of_one_release(&second, &expected);
    assert_noticed(&first, &second, &old, &new);

    // The new image may have a label of another manager.
    let Some((settled, third)) = engine.replace(OLD, &second, &new, &new) else {
        return;
    };
    assert_explained(&second, &third, &new, &new);
    let (again, fourth) = engine
        .replace(NEW, &third, &new, &new)
        .expect("it was replaced before");
    assert_explained(&third, &fourth, &new, &new);
    assert!(
        settled.body == again.body && settled.connect == again.connect,
        "a third replacement changes something:\n{:#}\n{:#}",
        settled.body,
        again.body
    );
}

/// Whether an alias of the owner's may equal what the engine derives from a future id.
fn is_called_as_an_engine_would(owner: &Value) -> bool {
    let endpoints = object(owner, "/NetworkingConfig/EndpointsConfig");
    let aliases = endpoints
        .into_iter()
        .flatten()
        .flat_map(|(_, endpoint)| list(endpoint, "/Aliases"));
    let made_up = [OLD, NEW].map(|id| json!(id[..12]));
    aliases.into_iter().any(|alias| made_up.contains(alias))
}

/// Whether an engine refuses to create it.
fn has_no_command(container: &Value) -> bool {
    let config = &container["Config"];
    list(config, "/Entrypoint").is_empty() && list(config, "/Cmd").is_empty()
}

/// Creates containers from other ones, like an engine with this API.
struct Engine {
    api: ApiVersion,
}

impl Engine {
    /// The create call for the successor and the successor's document; `None` if there cannot be one.
    fn replace(
        &self,
        id: &str,
        container: &Value,
        old: &Value,
        new: &Value,
    ) -> Option<(CreateRequest, Value)> {
        let container = inspected(container);
        let given = Given {
            is_by_id: false,
            labels: labels(&container),
        };
        match made(&container, Images { old, new }, &given, self.api) {
            Ok(made) => {
                let shown = connected(id, &made, new);
                let fresh = inspected(&created(id, &made.body, new));
                assert_eq!(fresh.networks_to_connect(), made.connect);
                assert_eq!(inspected(&shown).networks_to_connect(), []);
                assert!(!inspected(&shown).auto_remove(), "it would vanish when it stops");
                (!has_no_command(&shown)).then_some((made, shown))
            }
            Err(
                Obstacle::Managed { .. } | Obstacle::PodmanSecret { .. } | Obstacle::OtherPlatform { .. },
            ) => None,
            Err(obstacle) => panic!("an engine could show this: {obstacle}"),
        }
    }
}

/// The image and our own parts explain every difference.
fn assert_explained(container: &Value, made: &Value, old: &Value, new: &Value) {
    let found = verify(&inspected(container), &inspected(made), Images { old, new }).unwrap();
    assert!(found.is_empty(), "{found:?}\n{container:#}\n{made:#}");
}

fn assert_volumes_stay(before: &Value, after: &Value) {
    for mount in list(before, "/Mounts") {
        let stays = |other: &Value| {
            ["Type", "Destination", "Name", "RW"]
                .iter()
                .all(|field| other[field] == mount[field])
        };
        assert!(list(after, "/Mounts").iter().any(stays), "{mount} was lost");
    }
}

/// Values that we wrote on the previous container must not come back, not even from its image's labels.
fn assert_labels_are_of_one_release(container: &Value, labels: &[(&str, String)]) {
    for (name, value) in object(container, "/Config/Labels").into_iter().flatten() {
        let says_something = value.as_str() != Some("");
        if label::OURS.contains(&name.as_str()) && says_something {
            let is_given = |(given, expected): &(&str, String)| given == name && value == expected;
            assert!(labels.iter().any(is_given), "{name} of another release");
        }
    }
}

/// Without this check, a comparison that never finds anything would pass all others.
fn assert_noticed(container: &Value, made: &Value, old: &Value, new: &Value) {
    let images = Images { old, new };
    let unnoticed = |change: &dyn Fn(&mut Value)| {
        let mut changed = made.clone();
        change(&mut changed);
        let is_noticed = |found: &[Difference]| changed == *made || !found.is_empty();
        let (container, changed) = (inspected(container), inspected(&changed));
        !is_noticed(&differences(&container, &changed, images))
            || !is_noticed(&verify(&container, &changed, images).unwrap())
    };
    assert!(!unnoticed(&|made| made["HostConfig"]["Unheard"] = json!("of")));
    assert!(!unnoticed(&|made| made["Config"]["Unheard"] = json!("of")));
    assert!(!unnoticed(&|made| made["Config"]["User"] = json!("somebody else")));
    assert!(!unnoticed(
        &|made| made["HostConfig"]["Privileged"] = json!("surely not")
    ));
    let is_old = |mount: &Value| {
        let is_there = |other: &Value| other["Destination"] == mount["Destination"];
        list(container, "/Mounts").iter().any(is_there)
    };
    let Some(index) = list(made, "/Mounts").iter().rposition(is_old) else {
        return;
    };
    assert!(!unnoticed(&|made| {
        let writable = &mut made["Mounts"][index]["RW"];
        *writable = json!(*writable != json!(true));
    }));
    assert!(!unnoticed(&|made| {
        made["Mounts"].as_array_mut().unwrap().remove(index);
    }));
}
