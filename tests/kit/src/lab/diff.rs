//! The changes of an upgrade, found without any of the code that made the successor.
//!
//! It knows more than that code: the owner's request. A value that nobody requested may change only if the old value comes
//! from the old image and the new value from the new image. Everything else must be equal, except the container's own id,
//! and anonymous volumes, which need a name to come along.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::checks::document::ENDPOINT_REPORTS;

/// The labels that the upgrader writes on new containers.
const OUR_LABELS: [&str; 14] = [
    "replaces",
    "name",
    "release",
    "previous-release",
    "previous-image",
    "previous-image-id",
    "former-images",
    "auto-remove",
    "fingerprint",
    "networks",
    "image",
    "rolled-back-from",
    "rolled-back-from-id",
    "copy",
];

/// Podman notes a requested limit in this annotation. The limit itself is compared.
const PODMAN_NOTE: &str = "io.podman.annotations.pids-limit";

pub struct Upgrade<'a> {
    /// The owner's create body.
    pub asked: &'a Value,
    pub old: &'a Value,
    pub new: &'a Value,
    pub old_image: &'a Value,
    pub new_image: &'a Value,
}

impl Upgrade<'_> {
    /// All differences without an excuse.
    pub fn losses(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.config(&mut found);
        self.host_config(&mut found);
        self.networks(&mut found);
        self.mounts(&mut found);
        for key in [
            "Platform",
            "Driver",
            "MountLabel",
            "ProcessLabel",
            "AppArmorProfile",
        ] {
            compare(&format!("/{key}"), &self.old[key], &self.new[key], &mut found);
        }
        found
    }

    fn config(&self, found: &mut Vec<String>) {
        for key in keys(&self.old["Config"], &self.new["Config"]) {
            let path = format!("/Config/{key}");
            let part = |document: &Value| by_name(&key, &document["Config"][&key]);
            let (old, new) = (part(self.old), part(self.new));
            let (old_image, new_image) = (part(self.old_image), part(self.new_image));
            let asked = by_name(&key, &self.asked[&key]);
            match key.as_str() {
                "Image" => {}
                "Hostname" if is_own_id(self.old, &old) && is_own_id(self.new, &new) => {}
                // These are compared entry by entry.
                "Env" | "Labels" | "ExposedPorts" | "Volumes" | "Healthcheck" => {
                    for name in keys(&old, &new) {
                        if key == "Labels" && is_our_label(&name) {
                            continue;
                        }
                        // Podman also writes it there.
                        if name == "HOSTNAME" && self.own_id_variable(&old, &new) {
                            continue;
                        }
                        let entry = [&asked, &old, &new, &old_image, &new_image].map(|map| &map[&name]);
                        from_image(&format!("{path}/{name}"), entry, found);
                    }
                }
                // The engine uses the image's command only if the owner gave neither an entry point nor a command.
                "Cmd" if !is_nothing(&self.asked["Entrypoint"]) => compare(&path, &old, &new, found),
                _ => from_image(&path, [&asked, &old, &new, &old_image, &new_image], found),
            }
        }
    }

    fn own_id_variable(&self, old: &Value, new: &Value) -> bool {
        [(self.old, old), (self.new, new)]
            .into_iter()
            .all(|(document, env)| {
                let value = text(&env["HOSTNAME"][0]).strip_prefix("HOSTNAME=");
                is_own_id(document, &json!(value))
            })
    }

    fn host_config(&self, found: &mut Vec<String>) {
        let (old, new) = (&self.old["HostConfig"], &self.new["HostConfig"]);
        for key in keys(old, new) {
            let path = format!("/HostConfig/{key}");
            match key.as_str() {
                "Binds" => compare_sets(&path, &self.with_volumes(old), &strings(&new["Binds"]), found),
                "Annotations" => {
                    let of_owner = |annotations: &Value| {
                        let mut annotations = annotations.clone();
                        if let Some(fields) = annotations.as_object_mut() {
                            fields.remove(PODMAN_NOTE);
                        }
                        annotations
                    };
                    compare(&path, &of_owner(&old[&key]), &of_owner(&new[&key]), found);
                }
                // A successor has a label instead, since otherwise it would vanish in the middle of an upgrade.
                "AutoRemove" => {
                    let is_emulated = |document: &Value| {
                        document["Config"]["Labels"]["io.delegate-upgrader.auto-remove"] == "true"
                    };
                    let shown = |value: &Value, document| json!([value, is_emulated(document)]);
                    let was = shown(&old[&key], self.old);
                    let expected = if self.old["Id"] == self.new["Id"] {
                        was
                    } else {
                        json!([false, was[0] == true || was[1] == true])
                    };
                    compare(&path, &expected, &shown(&new[&key], self.new), found);
                }
                // The engine shows links in any order.
                "Links" => compare_sets(&path, &strings(&old[&key]), &strings(&new[&key]), found),
                "Mounts" => {
                    let expected = self.mounts_with_sources(&old["Mounts"]);
                    compare(&path, &expected, &new["Mounts"], found);
                }
                _ => compare(&path, &old[&key], &new[&key], found),
            }
        }
    }

    /// The old binds, and a bind for each volume without a name, whose data must come along.
    fn with_volumes(&self, host_config: &Value) -> BTreeSet<String> {
        let mut binds = strings(&host_config["Binds"]);
        for mount in list(&self.old["Mounts"]) {
            let (name, to) = (volume(mount), text(&mount["Destination"]));
            let image = &self.old_image["Config"]["Volumes"][to];
            let anonymous = !self.asked["Volumes"][to].is_null() || !image.is_null();
            let is_volume = text(&mount["Type"]) == "volume";
            if binds.remove(to) || (is_volume && anonymous && !is_declared(host_config, to)) {
                binds.insert(format!("{name}:{to}"));
            }
        }
        binds
    }

    /// The old mounts; a volume without a name gets the name that the engine gave it.
    fn mounts_with_sources(&self, mounts: &Value) -> Value {
        let mut mounts = mounts.clone();
        for mount in mounts.as_array_mut().into_iter().flatten() {
            if text(&mount["Type"]) == "volume" && text(&mount["Source"]).is_empty() {
                let made = list(&self.old["Mounts"]).find(|made| made["Destination"] == mount["Target"]);
                mount["Source"] = json!(made.map(volume));
            }
        }
        mounts
    }

    fn networks(&self, found: &mut Vec<String>) {
        let networks = |document: &Value| document["NetworkSettings"]["Networks"].clone();
        let (old, new) = (networks(self.old), networks(self.new));
        for network in keys(&old, &new) {
            let path = format!("/NetworkSettings/Networks/{network}");
            if old[&network].is_null() || new[&network].is_null() {
                let there = |value: &Value| json!(!value.is_null());
                compare(&path, &there(&old[&network]), &there(&new[&network]), found);
                continue;
            }
            let (old, new) = (&old[&network], &new[&network]);
            for key in keys(old, new) {
                let path = format!("{path}/{key}");
                match key.as_str() {
                    "Aliases" => {
                        let of = |document: &Value, endpoint: &Value| {
                            let mut aliases = strings(&endpoint["Aliases"]);
                            aliases.retain(|alias| !is_own_id(document, &json!(alias)));
                            aliases
                        };
                        compare_sets(&path, &of(self.old, old), &of(self.new, new), found);
                    }
                    "MacAddress" if !self.asked_for_mac(&network) => {}
                    "IPAddress" if !is_nothing(&old["IPAMConfig"]["IPv4Address"]) => {
                        compare(&path, &old[&key], &new[&key], found);
                    }
                    "GlobalIPv6Address" if !is_nothing(&old["IPAMConfig"]["IPv6Address"]) => {
                        compare(&path, &old[&key], &new[&key], found);
                    }
                    "NetworkID" => compare(&path, &old[&key], &new[&key], found),
                    key if ENDPOINT_REPORTS.contains(&key) => {}
                    key => compare(&path, &old[key], &new[key], found),
                }
            }
        }
    }

    fn asked_for_mac(&self, network: &str) -> bool {
        let endpoint = &self.asked["NetworkingConfig"]["EndpointsConfig"][network];
        !is_nothing(&self.asked["MacAddress"]) || !is_nothing(&endpoint["MacAddress"])
    }

    fn mounts(&self, found: &mut Vec<String>) {
        let by_destination = |document: &Value| -> Value {
            let mounts = list(&document["Mounts"]);
            let named = mounts.map(|mount| (text(&mount["Destination"]).to_owned(), mount.clone()));
            named.collect::<Map<_, _>>().into()
        };
        let (old, new) = (by_destination(self.old), by_destination(self.new));
        for destination in keys(&old, &new) {
            let (old, new) = (&old[&destination], &new[&destination]);
            let path = format!("/Mounts{destination}");
            let of_new_image = !self.new_image["Config"]["Volumes"][&destination].is_null();
            if old.is_null() && of_new_image {
                continue;
            }
            if old.is_null() || new.is_null() {
                compare(&path, old, new, found);
                continue;
            }
            for key in keys(old, new) {
                match key.as_str() {
                    // This is only the original spelling. The other fields have its meaning.
                    "Mode" => {}
                    // This is where the engine shows the image's files to this one container.
                    "Source" if text(&old["Type"]) == "image" => {}
                    "Name" => compare(
                        &format!("{path}/Name"),
                        &json!(volume(old)),
                        &json!(volume(new)),
                        found,
                    ),
                    key => compare(&format!("{path}/{key}"), &old[key], &new[key], found),
                }
            }
        }
    }
}

/// One setting that an image may give. `[asked, old, new, old image's, new image's]`.
fn from_image(path: &str, [asked, old, new, old_image, new_image]: [&Value; 5], found: &mut Vec<String>) {
    let may_change = is_nothing(asked) && same(old, old_image);
    compare(path, if may_change { new_image } else { old }, new, found);
}

/// The environment as a map from names to entries; other lists and maps stay as they are. A port or a volume either exists
/// or not: its value says nothing.
fn by_name(key: &str, value: &Value) -> Value {
    match (key, value) {
        ("Env", _) => {
            let mut map = Map::new();
            for entry in list(value) {
                let name = text(entry).split('=').next().unwrap_or_default();
                let entries = map.entry(name.to_owned()).or_insert_with(|| json!([]));
                entries.as_array_mut().expect("made above").push(entry.clone());
            }
            map.into()
        }
        ("ExposedPorts" | "Volumes", Value::Object(map)) => {
            let there = map.keys().map(|key| (key.clone(), json!(true)));
            there.collect::<Map<_, _>>().into()
        }
        _ => value.clone(),
    }
}

/// Whether the owner named the mount at this place.
fn is_declared(host_config: &Value, destination: &str) -> bool {
    let binds = strings(&host_config["Binds"]);
    let mut bound = binds.iter().map(|bind| bind.split(':').nth(1).unwrap_or(bind));
    bound.any(|to| to == destination)
        || list(&host_config["Mounts"]).any(|mount| text(&mount["Target"]) == destination)
}

/// The name of a mounted volume; if the engine leaves it out, it comes from the local driver's directory.
fn volume(mount: &Value) -> String {
    let source = text(&mount["Source"]).trim_end_matches("/_data");
    let name = text(&mount["Name"]);
    let name = if name.is_empty() {
        source.rsplit('/').next().unwrap_or_default()
    } else {
        name
    };
    name.to_owned()
}

fn compare(path: &str, was: &Value, is: &Value, found: &mut Vec<String>) {
    if let (Some(a), Some(b)) = (was.as_object(), is.as_object())
        && !(a.is_empty() || b.is_empty())
    {
        for key in keys(was, is) {
            compare(&format!("{path}/{key}"), &was[&key], &is[&key], found);
        }
    } else if !same(was, is) {
        found.push(format!("{path}: expected {was}, found {is}"));
    }
}

fn compare_sets(path: &str, was: &BTreeSet<String>, is: &BTreeSet<String>, found: &mut Vec<String>) {
    if was != is {
        found.push(format!("{path}: expected {was:?}, found {is:?}"));
    }
}

/// Equal, or both missing. `[]` and `{}` count as missing in fields that the engine writes either way.
fn same(a: &Value, b: &Value) -> bool {
    a == b || (is_nothing(a) && is_nothing(b))
}

pub fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_own_id(document: &Value, value: &Value) -> bool {
    let text = text(value);
    text.len() >= 12 && self::text(&document["Id"]).starts_with(text)
}

fn is_our_label(name: &str) -> bool {
    name.strip_prefix("io.delegate-upgrader.")
        .is_some_and(|rest| OUR_LABELS.contains(&rest))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn strings(value: &Value) -> BTreeSet<String> {
    list(value).map(|entry| text(entry).to_owned()).collect()
}

pub fn keys(a: &Value, b: &Value) -> BTreeSet<String> {
    let of = |value: &Value| {
        value
            .as_object()
            .map(|map| map.keys().cloned().collect::<Vec<_>>())
    };
    [a, b].into_iter().filter_map(of).flatten().collect()
}
