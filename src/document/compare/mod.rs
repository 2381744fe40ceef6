//! Compares a recreated container with the container it replaces.
//!
//! For every setting, this module asks for the source of the old value. A value from the old image must now be the value
//! from the new image, and everything else must be unchanged. So it also finds defaults of the old image that were frozen
//! into the new container. It reads the containers themselves, not the output of [`super::create_request`], but it shares
//! two parts with that function: how the engine merges defaults (`defaults`), and how anonymous volumes are kept
//! (`volumes::keep_anonymous`). It cannot find faults in these. `tests/fidelity/diff.rs` is a comparison that shares no code
//! with this crate.

mod changes;
mod normalise;
mod shown;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

pub use self::changes::changes;
pub use self::shown::Difference;
use super::defaults::{self, Command};
use super::unset::same_or_unset;
use super::{Images, Obstacle, names, networks, volumes};
use crate::container::json::{object_at, text_at};
use crate::container::{Inspected, compose, label};

/// Returns the differences between a recreated container and the one it replaces that their images do not explain.
///
/// `images` are the images of the two containers. The new container may be one that was never started.
pub fn differences(old: &Inspected, new: &Inspected, images: Images<'_>) -> Vec<Difference> {
    let nothing = Map::new();
    let mut comparison = Comparison {
        old,
        new,
        old_config: old.object("/Config").unwrap_or(&nothing),
        new_config: new.object("/Config").unwrap_or(&nothing),
        old_image: object_at(images.old, "/Config").unwrap_or(&nothing),
        new_image: object_at(images.new, "/Config").unwrap_or(&nothing),
        differences: Vec::new(),
    };
    comparison.scalars();
    comparison.env();
    comparison.labels();
    comparison.ports_and_volumes();
    comparison.command();
    comparison.healthcheck();
    comparison.names();
    comparison.other_config();
    comparison.host_config();
    comparison.networks();
    comparison.mounts();
    comparison.differences
}

/// Compares a container that we created with its original, before it may replace the original. Returns their
/// [`differences`], ignoring `--rm`, which no container that we create has.
///
/// # Errors
/// An [`Obstacle`] if the documents do not permit a faithful successor.
pub fn verify(old: &Inspected, new: &Inspected, images: Images<'_>) -> Result<Vec<Difference>, Obstacle> {
    super::check(old, images)?;
    let mut expected = old.clone();
    expected.replace("/HostConfig/AutoRemove", Value::from(false));
    Ok(differences(&expected, new, images))
}

struct Comparison<'a> {
    old: &'a Inspected,
    new: &'a Inspected,
    old_config: &'a Map<String, Value>,
    new_config: &'a Map<String, Value>,
    old_image: &'a Map<String, Value>,
    new_image: &'a Map<String, Value>,
    differences: Vec<Difference>,
}

impl<'a> Comparison<'a> {
    fn differ(&mut self, path: impl Into<String>, expected: Option<&Value>, found: Option<&Value>) {
        self.differences.push(Difference::new(path, expected, found));
    }

    fn require(&mut self, path: impl Into<String>, expected: Option<&Value>, found: Option<&Value>) {
        if !same_or_unset(expected, found) {
            self.differ(path, expected, found);
        }
    }

    fn scalars(&mut self) {
        let configs = [self.old_config, self.new_config, self.old_image, self.new_image];
        self.merged("/Config", configs.map(Some), defaults::SCALARS);
    }

    /// Compares fields that have the image's value if the owner set none, in the old container, the new one and their images.
    fn merged(
        &mut self,
        path: &str,
        [old, new, old_image, new_image]: [Option<&Map<String, Value>>; 4],
        fields: impl IntoIterator<Item = &'a str>,
    ) {
        for field in fields {
            let value = lookup(old, field);
            let expected = if same_or_unset(value, lookup(old_image, field)) {
                lookup(new_image, field)
            } else {
                value
            };
            self.require(format!("{path}/{field}"), expected, lookup(new, field));
        }
    }

    fn env(&mut self) {
        let sources = [self.old_config, self.new_config, self.new_image];
        let names: BTreeSet<&str> = sources
            .into_iter()
            .flat_map(defaults::env_of)
            .map(defaults::env_name)
            .collect();
        let made_up = [self.old, self.new].map(names::automatic_variable);
        for name in names {
            let [mut old, mut new] =
                [self.old_config, self.new_config].map(|config| defaults::env_entries(config, name));
            for (entries, made_up) in [&mut old, &mut new].into_iter().zip(&made_up) {
                entries.retain(|entry| *made_up != **entry);
            }
            let default = defaults::env_entries(self.new_image, name);
            let from_image = old.is_empty()
                || defaults::env_is_of_image(name, &old, &defaults::env_entries(self.old_image, name));
            let (expected, as_expected) = if from_image {
                let as_expected = defaults::env_is_default(&new, &default);
                (default, as_expected)
            } else {
                let as_expected = new == old;
                (old, as_expected)
            };
            if !as_expected {
                let value = |entries: Vec<&str>| (!entries.is_empty()).then(|| Value::from(entries));
                let (expected, new) = (value(expected), value(new));
                self.differ(format!("/Config/Env/{name}"), expected.as_ref(), new.as_ref());
            }
        }
    }

    fn labels(&mut self) {
        let [old, new, old_image, new_image] = self.maps("Labels");
        let is_composed = old.is_some_and(compose::made);
        for name in keys([old, new, new_image]) {
            if label::OURS.contains(&name) {
                continue;
            }
            let value = lookup(old, name);
            let is_composes = is_composed && compose::is_label(name);
            let expected = if value == lookup(old_image, name) && !is_composes {
                lookup(new_image, name)
            } else {
                value.or(lookup(new_image, name))
            };
            if expected != lookup(new, name) {
                self.differ(format!("/Config/Labels/{name}"), expected, lookup(new, name));
            }
        }
    }

    fn ports_and_volumes(&mut self) {
        let nothing = Map::new();
        let host_config = self.old.object("/HostConfig").unwrap_or(&nothing);
        for field in ["ExposedPorts", "Volumes"] {
            let [old, new, old_image, new_image] = self.maps(field);
            for name in keys([old, new, new_image]) {
                let has = |map| lookup(map, name).is_some();
                let bound = field == "ExposedPorts" && defaults::is_bound(host_config, name);
                let expected = has(new_image) || (has(old) && (!has(old_image) || bound));
                if expected != has(new) {
                    let [expected, found] = [expected, has(new)].map(|has| has.then_some(&Value::Bool(true)));
                    self.differ(format!("/Config/{field}/{name}"), expected, found);
                }
            }
        }
    }

    fn command(&mut self) {
        let origin = Command::of(self.old_config, self.old_image);
        let entrypoint = if origin.own_entrypoint {
            self.old_config.get("Entrypoint")
        } else {
            defaults::entrypoint_of_image(self.new_image)
        };
        let command = if origin.own_command {
            self.old_config.get("Cmd")
        } else {
            self.new_image.get("Cmd")
        };
        for (field, expected) in [("Entrypoint", entrypoint), ("Cmd", command)] {
            self.require(format!("/Config/{field}"), expected, self.new_config.get(field));
        }
    }

    fn healthcheck(&mut self) {
        let maps @ [old, new, _, new_image] = self.maps("Healthcheck");
        self.merged("/Config/Healthcheck", maps, keys([old, new, new_image]));
    }

    fn names(&mut self) {
        if networks::shares_namespace(self.old.network_mode()) {
            return;
        }
        let automatic = names::is_automatic(self.old);
        if !(automatic && names::is_automatic(self.new)) {
            let own = Value::from(self.new.id().short());
            let expected = if automatic {
                Some(&own)
            } else {
                self.old_config.get("Hostname")
            };
            self.require("/Config/Hostname", expected, self.new_config.get("Hostname"));
        }
        let [expected, found] = [self.old_config, self.new_config].map(|config| config.get("Domainname"));
        self.require("/Config/Domainname", expected, found);
    }

    /// Compares every field without its own rule, whether it is known or not.
    fn other_config(&mut self) {
        const RULED: [&str; 12] = [
            "Image",
            "Env",
            "Labels",
            "ExposedPorts",
            "Volumes",
            "Entrypoint",
            "Cmd",
            "Healthcheck",
            "Hostname",
            "Domainname",
            "NetworkingConfig",
            "HostConfig",
        ];
        for field in keys([Some(self.old_config), Some(self.new_config), None]) {
            if !RULED.contains(&field) && !defaults::SCALARS.contains(&field) {
                deep(
                    &format!("/Config/{field}"),
                    self.old_config.get(field),
                    self.new_config.get(field),
                    &mut self.differences,
                );
            }
        }
    }

    fn host_config(&mut self) {
        let mut old = self.old.object("/HostConfig").cloned().unwrap_or_default();
        let mut new = self.new.object("/HostConfig").cloned().unwrap_or_default();
        volumes::keep_anonymous(&mut old, self.old);
        normalise::host_configs(&mut old, &mut new);
        if same_network_mode(self.old, self.new) {
            old.remove("NetworkMode");
            new.remove("NetworkMode");
        }
        deep(
            "/HostConfig",
            Some(&Value::Object(old)),
            Some(&Value::Object(new)),
            &mut self.differences,
        );
    }

    /// Compares every endpoint, ignoring what the engine chose for it.
    fn networks(&mut self) {
        let path = |network: &str| format!("/NetworkSettings/Networks/{network}");
        let mut unclaimed: BTreeMap<&str, &Value> = networks::own(self.new).collect();
        for (network, endpoint) in networks::own(self.old) {
            // The engine may have replaced an id with the name of its network.
            let id = text_at(endpoint, "/NetworkID");
            let has_id = |other: &Value| !id.is_empty() && text_at(other, "/NetworkID") == id;
            let found = unclaimed.remove(network).or_else(|| {
                let (name, _) = unclaimed.iter().find(|(_, other)| has_id(other))?;
                let name = *name;
                unclaimed.remove(name)
            });
            match found {
                Some(found) => self.endpoint(network, endpoint, found),
                None => self.differ(path(network), Some(endpoint), None),
            }
        }
        for (network, endpoint) in unclaimed {
            self.differ(path(network), None, Some(endpoint));
        }
    }

    fn endpoint(&mut self, network: &str, expected: &Value, found: &Value) {
        for field in keys([expected.as_object(), found.as_object(), None]) {
            let path = format!("/NetworkSettings/Networks/{network}/{field}");
            let (expected, found) = (expected.get(field), found.get(field));
            if field == "Aliases" {
                let is_same = aliases(self.old, expected) == aliases(self.new, found);
                if networks::takes_aliases(network) && !is_same {
                    self.differ(path, expected, found);
                }
            } else if !networks::REPORTED.contains(&field) {
                self.require(path, expected, found);
            }
        }
    }

    /// Compares mounts by destination: the data itself must be the same.
    fn mounts(&mut self) {
        let (old, new) = (self.old.list("/Mounts"), self.new.list("/Mounts"));
        let at = |mounts: &'a [Value], destination: &str| {
            mounts
                .iter()
                .find(|mount| text_at(mount, "/Destination") == destination)
        };
        for mount in old {
            let destination = text_at(mount, "/Destination");
            let path = format!("/Mounts{destination}");
            let Some(found) = at(new, destination) else {
                self.differ(path, Some(mount), None);
                continue;
            };
            if text_at(mount, "/Type") == "volume" {
                let (expected, found) = (volumes::name(mount).into(), volumes::name(found).into());
                self.require(format!("{path}/Name"), Some(&expected), Some(&found));
            }
            // `Mode` depends on how a mount was written, and the source of other types is a directory for the container.
            let fields: &[&str] = match text_at(mount, "/Type") {
                "bind" | "volume" => &["Type", "Source", "Driver", "RW", "Propagation"],
                _ => &["Type", "RW", "Propagation"],
            };
            for field in fields {
                self.require(format!("{path}/{field}"), mount.get(*field), found.get(*field));
            }
        }
        let new_image = self.new_image;
        let declared = |destination: &str| {
            new_image
                .get("Volumes")
                .and_then(Value::as_object)
                .into_iter()
                .flat_map(Map::keys)
                .any(|path| volumes::clean(path) == destination)
        };
        for mount in new {
            let destination = text_at(mount, "/Destination");
            if at(old, destination).is_none() && !declared(destination) {
                self.differ(format!("/Mounts{destination}"), None, Some(mount));
            }
        }
    }

    /// Returns a field of the old container, the new container and their images, as maps.
    fn maps(&self, field: &str) -> [Option<&'a Map<String, Value>>; 4] {
        [self.old_config, self.new_config, self.old_image, self.new_image]
            .map(|config| config.get(field).and_then(Value::as_object))
    }
}

fn keys(maps: [Option<&Map<String, Value>>; 3]) -> BTreeSet<&str> {
    maps.into_iter()
        .flatten()
        .flat_map(Map::keys)
        .map(String::as_str)
        .collect()
}

fn lookup<'a>(map: Option<&'a Map<String, Value>>, key: &str) -> Option<&'a Value> {
    map?.get(key)
}

/// Returns the aliases that the owner gave, without the container's short id, which the engine adds.
fn aliases<'a>(container: &Inspected, value: Option<&'a Value>) -> BTreeSet<&'a str> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|alias| *alias != container.id().short())
        .collect()
}

/// Whether two network modes mean the same: `default` is the bridge, and at the start 28.5 replaces the beginning of a
/// network's id with the whole id.
fn same_network_mode(old: &Inspected, new: &Inspected) -> bool {
    let first = networks::first_network;
    old.network_mode() == new.network_mode() || (first(old).is_some() && first(old) == first(new))
}

/// Reports every place where two values differ. A missing value equals `null` and nothing else.
fn deep(path: &str, expected: Option<&Value>, found: Option<&Value>, differences: &mut Vec<Difference>) {
    if let (Some(Value::Object(a)), Some(Value::Object(b))) = (expected, found) {
        for key in keys([Some(a), Some(b), None]) {
            deep(&format!("{path}/{key}"), a.get(key), b.get(key), differences);
        }
        return;
    }
    if expected.unwrap_or(&Value::Null) != found.unwrap_or(&Value::Null) {
        differences.push(Difference::new(path, expected, found));
    }
}
