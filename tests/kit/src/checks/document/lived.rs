//! Whole lives of a container on an engine: created by an owner, replaced, and replaced again.

use delegate_upgrader::container::{ApiVersion, Inspected, label};
use delegate_upgrader::document::{
    CreateRequest, Difference, Images, Obstacle, differences, missing_endpoints, verify,
};
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
    let Some((_, second)) = engine.replace(NEW, &first, &old, &new) else {
        return;
    };
    assert_explained(&first, &second, &old, &new);
    assert_volumes_stay(&first, &second);
    assert_labels_are_of_one_release(&second, &labels(&inspected(&first)));
    assert_noticed(&first, &second, &old, &new);

    // The new image may have another manager's label.
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
    engine.stand_by(&second, &new);
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

/// Creates containers from other ones, as an engine with this API shows them.
struct Engine {
    api: ApiVersion,
}

impl Engine {
    /// The create call for the successor and what is shown of it; none where there can be none.
    fn replace(
        &self,
        id: &str,
        container: &Value,
        old: &Value,
        new: &Value,
    ) -> Option<(CreateRequest, Value)> {
        self.copy(id, container, old, new, false)
    }

    fn copy(
        &self,
        id: &str,
        container: &Value,
        old: &Value,
        new: &Value,
        is_standby: bool,
    ) -> Option<(CreateRequest, Value)> {
        let container = inspected(container);
        let given = Given {
            is_standby,
            is_by_id: false,
            labels: labels(&container),
        };
        match made(&container, Images { old, new }, &given, self.api) {
            Ok(made) => {
                let shown = connected(id, &made, new);
                let fresh = inspected(&created(id, &made.body, new));
                assert_eq!(missing_endpoints(&container, &fresh, self.api), made.connect);
                assert_eq!(missing_endpoints(&container, &inspected(&shown), self.api), []);
                (!has_no_command(&shown)).then_some((made, shown))
            }
            Err(
                Obstacle::Managed { .. } | Obstacle::PodmanSecret { .. } | Obstacle::OtherPlatform { .. },
            ) => None,
            Err(obstacle) => panic!("an engine could show this: {obstacle}"),
        }
    }

    /// A standby takes the place of a container whose engine removes it, and the container is made from it again.
    fn stand_by(&self, original: &Value, image: &Value) {
        let (_, standby) = self
            .copy(OLD, original, image, image, true)
            .expect("it was replaced before");
        assert_explained(original, &standby, image, image);
        assert!(
            !inspected(&standby).auto_remove(),
            "it would vanish when it stops"
        );
        let (_, again) = self
            .copy(NEW, &standby, image, image, false)
            .expect("it was replaced before");
        assert_explained(&standby, &again, image, image);
        let images = Images {
            old: image,
            new: image,
        };
        let found = differences(&inspected(original), &inspected(&again), images);
        assert!(found.is_empty(), "{found:?}\n{original:#}\n{again:#}");
    }
}

/// Nothing of it is another, also after its predecessor has lost its restart policy, as before each stop.
fn assert_explained(container: &Value, made: &Value, old: &Value, new: &Value) {
    let mut stopped = container.clone();
    if let Some(policy) = stopped.pointer_mut("/HostConfig/RestartPolicy") {
        *policy = json!({"Name": "no", "MaximumRetryCount": 0});
    }
    for before in [container, &stopped] {
        let found = verify(&inspected(before), &inspected(made), Images { old, new }).unwrap();
        assert!(found.is_empty(), "{found:?}\n{before:#}\n{made:#}");
    }
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
fn assert_labels_are_of_one_release(container: &Value, labels: &[(&str, String)]) {
    for (name, value) in object(container, "/Config/Labels").into_iter().flatten() {
        let says_something = value.as_str() != Some("");
        if label::OURS.contains(&name.as_str()) && says_something {
            let is_given = |(given, expected): &(&str, String)| given == name && value == expected;
            assert!(labels.iter().any(is_given), "{name} of another release");
        }
    }
}

/// A comparison that finds nothing, ever, would pass all else.
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
