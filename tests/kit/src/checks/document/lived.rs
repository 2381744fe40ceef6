//! Whole lives of a container on an engine: created by an owner, replaced, and replaced again.

use delegate_upgrader::container::ApiVersion;
use delegate_upgrader::container::label;
use delegate_upgrader::document::{CreateRequest, Images, Obstacle, differences};
use serde_json::{Value, json};

use super::shown::{connected, created};
use super::{labels, list, made, object, owner};

const OLD: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222222222222222222222222222";

pub(super) fn check(container: &Value, images: Images<'_>, api: ApiVersion) {
    let (old, new) = (owner::image(images.old), owner::image(images.new));
    let mut owner = owner::of(container);
    if is_called_as_an_engine_would(&owner) {
        return;
    }
    let mut first = created(OLD, &owner, &old);
    if has_no_command(&first) {
        owner["Cmd"] = json!(["run"]);
        first = created(OLD, &owner, &old);
    }
    let Some((_, same)) = replace(NEW, &first, &old, &old, api) else {
        return;
    };
    assert_explained(&first, &same, &old, &old);
    let Some((_, second)) = replace(NEW, &first, &old, &new, api) else {
        return;
    };
    assert_explained(&first, &second, &old, &new);
    assert_volumes_stay(&first, &second);
    assert_labels_are_of_one_release(&second);
    assert_noticed(&first, &second, &old, &new);

    // The new image may have another manager's label.
    let Some((settled, third)) = replace(OLD, &second, &new, &new, api) else {
        return;
    };
    assert_explained(&second, &third, &new, &new);
    let (again, fourth) = replace(NEW, &third, &new, &new, api).expect("it was replaced before");
    assert_explained(&third, &fourth, &new, &new);
    assert!(
        settled.body == again.body && settled.connect == again.connect,
        "a third replacement changes something:\n{:#}\n{:#}",
        settled.body,
        again.body
    );
}

/// Whether an alias of the owner's is one that the engine is about to make up, of an id that nobody knows before.
fn is_called_as_an_engine_would(owner: &Value) -> bool {
    let endpoints = object(owner, "/NetworkingConfig/EndpointsConfig");
    let aliases = endpoints
        .into_iter()
        .flatten()
        .flat_map(|(_, endpoint)| list(endpoint, "/Aliases"));
    let made_up = [OLD, NEW].map(|id| json!(id[..12]));
    aliases.into_iter().any(|alias| made_up.contains(alias))
}

/// What an engine refuses to create.
fn has_no_command(container: &Value) -> bool {
    let config = &container["Config"];
    list(config, "/Entrypoint").is_empty() && list(config, "/Cmd").is_empty()
}

/// The successor and what is shown of it; none where there can be none.
fn replace(
    id: &str,
    container: &Value,
    old: &Value,
    new: &Value,
    api: ApiVersion,
) -> Option<(CreateRequest, Value)> {
    match made(container, Images { old, new }, api) {
        Ok(made) => {
            let shown = connected(id, &made, new);
            (!has_no_command(&shown)).then_some((made, shown))
        }
        Err(Obstacle::Managed { .. } | Obstacle::OtherPlatform { .. }) => None,
        Err(obstacle) => panic!("an engine could show this: {obstacle}"),
    }
}

fn assert_explained(container: &Value, made: &Value, old: &Value, new: &Value) {
    let differences = differences(container, made, Images { old, new });
    assert!(differences.is_empty(), "{differences:?}\n{container:#}\n{made:#}");
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

/// What we wrote on the container before may come by no way, its image's labels included.
fn assert_labels_are_of_one_release(container: &Value) {
    for (name, value) in object(container, "/Config/Labels").into_iter().flatten() {
        let says_something = value.as_str() != Some("");
        if label::OURS.contains(&name.as_str()) && says_something {
            let is_given = |(given, expected): &(&str, String)| given == name && value == expected;
            assert!(labels().iter().any(is_given), "{name} of another release");
        }
    }
}

/// A comparison that finds nothing, ever, would pass all else.
fn assert_noticed(container: &Value, made: &Value, old: &Value, new: &Value) {
    let images = Images { old, new };
    let unnoticed = |change: &dyn Fn(&mut Value)| {
        let mut changed = made.clone();
        change(&mut changed);
        changed != *made && differences(container, &changed, images).is_empty()
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
