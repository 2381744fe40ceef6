//! Compares a recreated container with the one it replaces.
//!
//! This does not ask what [`super::successor`] would have done. For every setting it asks where the old value came
//! from: what the old image gave must now be what the new image gives, and all else must be as it was. So it also
//! finds a default of the old image that was frozen into the new container.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::defaults::{self, Command};
use super::{Images, is_unset, list, map, networks, same_or_unset, short_id, text, volumes};
use crate::container::label;

/// A setting of a recreated container that is not what it should be.
///
/// The values may be secrets. `Display` and `Debug` show only those that cannot be.
#[derive(Clone, PartialEq)]
pub struct Difference {
    path: String,
    expected: Value,
    found: Value,
}

impl Difference {
    fn new(path: impl Into<String>, expected: Option<&Value>, found: Option<&Value>) -> Self {
        Self {
            path: path.into(),
            expected: expected.cloned().unwrap_or_default(),
            found: found.cloned().unwrap_or_default(),
        }
    }

    /// Where: the keys on the way to it, `/Config/Env/NAME`. Names in lists and maps are part of it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What it should be, `null` for not set. May be a secret.
    pub fn expected(&self) -> &Value {
        &self.expected
    }

    /// What it is, `null` for not set. May be a secret.
    pub fn found(&self) -> &Value {
        &self.found
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} expected, {} found",
            self.path,
            Shown(&self.path, &self.expected),
            Shown(&self.path, &self.found)
        )
    }
}

impl fmt::Debug for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Difference({self})")
    }
}

/// Where strings are no secrets. Environment, commands, labels, log and driver options may all hold tokens, and a
/// field nobody knows yet may hold anything.
const PUBLIC: [&str; 29] = [
    "/Config/User",
    "/Config/WorkingDir",
    "/Config/StopSignal",
    "/Config/Hostname",
    "/Config/Domainname",
    "/Config/MacAddress",
    "/Config/ExposedPorts",
    "/Config/Volumes",
    "/HostConfig/Binds",
    "/HostConfig/CapAdd",
    "/HostConfig/CapDrop",
    "/HostConfig/CgroupParent",
    "/HostConfig/CgroupnsMode",
    "/HostConfig/CpusetCpus",
    "/HostConfig/CpusetMems",
    "/HostConfig/Devices",
    "/HostConfig/Dns",
    "/HostConfig/ExtraHosts",
    "/HostConfig/GroupAdd",
    "/HostConfig/IpcMode",
    "/HostConfig/Links",
    "/HostConfig/NetworkMode",
    "/HostConfig/PidMode",
    "/HostConfig/PortBindings",
    "/HostConfig/RestartPolicy",
    "/HostConfig/Runtime",
    "/HostConfig/UTSMode",
    "/HostConfig/UsernsMode",
    "/HostConfig/VolumesFrom",
];

struct Shown<'a>(&'a str, &'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(path, value) = self;
        let public = || {
            PUBLIC.iter().any(|prefix| {
                path.strip_prefix(prefix)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        match value {
            Value::Null => f.write_str("nothing"),
            Value::Bool(_) | Value::Number(_) => write!(f, "{value}"),
            _ if public() => write!(f, "{value}"),
            _ => f.write_str("a value (not shown)"),
        }
    }
}

/// What differs between a container and its recreated self without the images explaining it.
///
/// `old` and `new` are inspect documents, `images` those of the images they run. The new container need not have
/// been started.
pub fn differences(old: &Value, new: &Value, images: Images<'_>) -> Vec<Difference> {
    let nothing = Map::new();
    let part = |value, pointer| map(value, pointer).unwrap_or(&nothing);
    let mut comparison = Comparison {
        old,
        new,
        old_config: part(old, "/Config"),
        new_config: part(new, "/Config"),
        old_image: part(images.old, "/Config"),
        new_image: part(images.new, "/Config"),
        differences: Vec::new(),
    };
    comparison.scalars();
    comparison.env();
    comparison.labels();
    comparison.ports_and_volumes();
    comparison.command();
    comparison.healthcheck();
    comparison.names();
    comparison.mac();
    comparison.other_config();
    comparison.host_config();
    comparison.networks();
    comparison.mounts();
    comparison.differences
}

struct Comparison<'a> {
    old: &'a Value,
    new: &'a Value,
    old_config: &'a Map<String, Value>,
    new_config: &'a Map<String, Value>,
    old_image: &'a Map<String, Value>,
    new_image: &'a Map<String, Value>,
    differences: Vec<Difference>,
}

impl<'a> Comparison<'a> {
    fn require(&mut self, path: impl Into<String>, expected: Option<&Value>, found: Option<&Value>) {
        if !same_or_unset(expected, found) {
            self.differences.push(Difference::new(path, expected, found));
        }
    }

    fn scalars(&mut self) {
        for field in defaults::SCALARS {
            let old = self.old_config.get(field);
            let expected = if same_or_unset(old, self.old_image.get(field)) {
                self.new_image.get(field)
            } else {
                old
            };
            self.require(format!("/Config/{field}"), expected, self.new_config.get(field));
        }
    }

    fn env(&mut self) {
        let sources = [self.old_config, self.new_config, self.new_image];
        let names: BTreeSet<&str> = sources
            .into_iter()
            .flat_map(defaults::env_of)
            .map(defaults::env_name)
            .collect();
        let made_up = [self.old, self.new].map(super::automatic_hostname_variable);
        for name in names {
            let [mut old, mut new] =
                [self.old_config, self.new_config].map(|config| defaults::env_entries(config, name));
            for (entries, made_up) in [&mut old, &mut new].into_iter().zip(&made_up) {
                entries.retain(|entry| *made_up != **entry);
            }
            let default = defaults::env_entries(self.new_image, name);
            let from_image = old.is_empty()
                || defaults::env_is_default(&old, &defaults::env_entries(self.old_image, name));
            let (expected, as_expected) = if from_image {
                let as_expected = defaults::env_is_default(&new, &default);
                (default, as_expected)
            } else {
                let as_expected = new == old;
                (old, as_expected)
            };
            if !as_expected {
                let value = |entries: Vec<&str>| (!entries.is_empty()).then(|| Value::from(entries));
                self.differences.push(Difference::new(
                    format!("/Config/Env/{name}"),
                    value(expected).as_ref(),
                    value(new).as_ref(),
                ));
            }
        }
    }

    fn labels(&mut self) {
        let [old, new, old_image, new_image] = self.maps("Labels");
        let is_composed = old.is_some_and(defaults::is_composed);
        for name in keys([old, new, new_image]) {
            if label::OURS.contains(&name) {
                continue;
            }
            let value = lookup(old, name);
            let is_composes = is_composed && defaults::is_label_of_compose(name);
            let expected = if value == lookup(old_image, name) && !is_composes {
                lookup(new_image, name)
            } else {
                value.or(lookup(new_image, name))
            };
            if expected != lookup(new, name) {
                self.differences.push(Difference::new(
                    format!("/Config/Labels/{name}"),
                    expected,
                    lookup(new, name),
                ));
            }
        }
    }

    fn ports_and_volumes(&mut self) {
        let nothing = Map::new();
        let host_config = map(self.old, "/HostConfig").unwrap_or(&nothing);
        for field in ["ExposedPorts", "Volumes"] {
            let [old, new, old_image, new_image] = self.maps(field);
            for name in keys([old, new, new_image]) {
                let has = |map| lookup(map, name).is_some();
                let bound = field == "ExposedPorts" && defaults::is_bound(host_config, name);
                let expected = has(new_image) || (has(old) && (!has(old_image) || bound));
                if expected != has(new) {
                    self.differences.push(Difference::new(
                        format!("/Config/{field}/{name}"),
                        expected.then_some(&Value::Bool(true)),
                        has(new).then_some(&Value::Bool(true)),
                    ));
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
        let [old, new, old_image, new_image] = self.maps("Healthcheck");
        for field in keys([old, new, new_image]) {
            let value = lookup(old, field);
            let expected = if same_or_unset(value, lookup(old_image, field)) {
                lookup(new_image, field)
            } else {
                value
            };
            self.require(
                format!("/Config/Healthcheck/{field}"),
                expected,
                lookup(new, field),
            );
        }
    }

    fn names(&mut self) {
        if networks::shares_namespace(text(self.old, "/HostConfig/NetworkMode")) {
            return;
        }
        let automatic = super::has_automatic_hostname(self.old);
        if !(automatic && super::has_automatic_hostname(self.new)) {
            let own = Value::from(short_id(self.new));
            let expected = if automatic {
                Some(&own)
            } else {
                self.old_config.get("Hostname")
            };
            self.require("/Config/Hostname", expected, self.new_config.get("Hostname"));
        }
        self.require(
            "/Config/Domainname",
            self.old_config.get("Domainname"),
            self.new_config.get("Domainname"),
        );
    }

    /// From API 1.52 the address that was asked for shows in the endpoint only.
    fn mac(&mut self) {
        let Some(expected) = self
            .old_config
            .get("MacAddress")
            .filter(|mac| !is_unset(Some(mac)))
        else {
            self.require("/Config/MacAddress", None, self.new_config.get("MacAddress"));
            return;
        };
        let endpoint = networks::first_network(self.new)
            .and_then(|network| map(self.new, "/NetworkSettings/Networks")?.get(network))
            .and_then(|endpoint| endpoint.get("MacAddress"));
        let found = self.new_config.get("MacAddress").or(endpoint);
        self.require("/Config/MacAddress", Some(expected), found);
    }

    /// Every field without a rule of its own, known or not.
    fn other_config(&mut self) {
        const RULED: [&str; 13] = [
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
            "MacAddress",
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
        let mut old = map(self.old, "/HostConfig").cloned().unwrap_or_default();
        let mut new = map(self.new, "/HostConfig").cloned().unwrap_or_default();
        volumes::keep_anonymous(&mut old, self.old);
        for side in [&mut old, &mut new] {
            normalise_links(side);
            name_no_restart_policy(side);
            drop_notes(side);
            drop_unset_limits(side);
            sort_ulimits(side);
        }
        drop_what_was_filled_in(&mut old, &mut new);
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

    fn networks(&mut self) {
        let old = networks::settable(self.old);
        let mut new = networks::settable(self.new);
        for (network, endpoint) in &old {
            // The engine may have replaced an id by the name it stands for.
            let found = new.remove(network).or_else(|| {
                let id = text(
                    self.old,
                    &format!("/NetworkSettings/Networks/{}/NetworkID", escape(network)),
                );
                let name = networks_by_id(self.new, id)?;
                new.remove(name)
            });
            let path = format!("/NetworkSettings/Networks/{network}");
            let Some(found) = found else {
                self.differences.push(Difference::new(path, Some(endpoint), None));
                continue;
            };
            let nothing = Map::new();
            let (endpoint, found) = (
                endpoint.as_object().unwrap_or(&nothing),
                found.as_object().unwrap_or(&nothing),
            );
            for field in keys([Some(endpoint), Some(found), None]) {
                let (expected, actual) = (endpoint.get(field), found.get(field));
                let same = if field == "Aliases" {
                    as_set(expected) == as_set(actual)
                } else {
                    same_or_unset(expected, actual)
                };
                if !same {
                    self.differences
                        .push(Difference::new(format!("{path}/{field}"), expected, actual));
                }
            }
        }
        for (network, endpoint) in new {
            self.differences.push(Difference::new(
                format!("/NetworkSettings/Networks/{network}"),
                None,
                Some(&endpoint),
            ));
        }
    }

    /// Mounts by their destination: the data itself must be the same.
    fn mounts(&mut self) {
        let (old, new) = (list(self.old, "/Mounts"), list(self.new, "/Mounts"));
        let at = |mounts: &'a [Value], destination: &str| {
            mounts
                .iter()
                .find(|mount| text(mount, "/Destination") == destination)
        };
        for mount in old {
            let destination = text(mount, "/Destination");
            let path = format!("/Mounts{destination}");
            let Some(found) = at(new, destination) else {
                self.differences.push(Difference::new(path, Some(mount), None));
                continue;
            };
            if text(mount, "/Type") == "volume" {
                let (expected, found) = (volumes::name(mount).into(), volumes::name(found).into());
                self.require(format!("{path}/Name"), Some(&expected), Some(&found));
            }
            // `Mode` is how it was written; the source of other types is a directory made for the container.
            let fields: &[&str] = match text(mount, "/Type") {
                "bind" | "volume" => &["Type", "Source", "Driver", "RW", "Propagation"],
                _ => &["Type", "RW", "Propagation"],
            };
            for field in fields {
                self.require(format!("{path}/{field}"), mount.get(*field), found.get(*field));
            }
        }
        let declared = |destination: &str| {
            self.new_image
                .get("Volumes")
                .and_then(Value::as_object)
                .into_iter()
                .flat_map(Map::keys)
                .any(|path| volumes::clean(path) == destination)
        };
        let more: Vec<_> = new
            .iter()
            .filter(|mount| {
                let destination = text(mount, "/Destination");
                at(old, destination).is_none() && !declared(destination)
            })
            .map(|mount| {
                Difference::new(
                    format!("/Mounts{}", text(mount, "/Destination")),
                    None,
                    Some(mount),
                )
            })
            .collect();
        self.differences.extend(more);
    }

    /// A field of the old and new container and of their images, as maps.
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

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn networks_by_id<'a>(inspect: &'a Value, id: &str) -> Option<&'a str> {
    map(inspect, "/NetworkSettings/Networks")?
        .iter()
        .find(|(_, endpoint)| !id.is_empty() && text(endpoint, "/NetworkID") == id)
        .map(|(name, _)| name.as_str())
}

fn as_set(value: Option<&Value>) -> BTreeSet<&str> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Whether two network modes mean the same: `default` is the bridge, and at the start 28.5 replaces the beginning
/// of a network's id by the whole id.
fn same_network_mode(old: &Value, new: &Value) -> bool {
    let mode = |inspect| text(inspect, "/HostConfig/NetworkMode");
    if mode(old) == mode(new) {
        return true;
    }
    let network = networks::first_network;
    network(old).is_some() && network(old) == network(new)
}

/// A link shows with the container's own name, `/db:/NAME/alias`.
fn normalise_links(host_config: &mut Map<String, Value>) {
    if let Some(Value::Array(links)) = host_config.get_mut("Links") {
        let mut plain: Vec<String> = links
            .iter()
            .filter_map(Value::as_str)
            .map(|link| {
                let (target, alias) = link.split_once(':').unwrap_or((link, link));
                let alias = alias.rsplit_once('/').map_or(alias, |(_, alias)| alias);
                format!("{}:{alias}", target.trim_start_matches('/'))
            })
            .collect();
        plain.sort();
        *links = plain.into_iter().map(Value::from).collect();
    }
}

/// No restart policy has two spellings. `docker run` says `no`; for other clients that give none the engine keeps an
/// empty name. What is remembered on labels, and what an update can set, is `no`.
fn name_no_restart_policy(host_config: &mut Map<String, Value>) {
    if let Some(Value::Object(policy)) = host_config.get_mut("RestartPolicy")
        && is_unset(policy.get("Name"))
    {
        policy.insert("Name".to_owned(), Value::from("no"));
    }
}

/// Podman notes beside a limit that one was asked for, 0 too. The limit itself is compared.
fn drop_notes(host_config: &mut Map<String, Value>) {
    if let Some(Value::Object(annotations)) = host_config.get_mut("Annotations") {
        annotations.remove("io.podman.annotations.pids-limit");
    }
}

/// Inspect adds the daemon's own ones, in a random order.
fn sort_ulimits(host_config: &mut Map<String, Value>) {
    if let Some(Value::Array(ulimits)) = host_config.get_mut("Ulimits") {
        ulimits.sort_by(|one, other| text(one, "/Name").cmp(text(other, "/Name")));
    }
}

/// A limit that is not set has several spellings: an update to -1 shows as 0, and at the create the engine makes `null`
/// of 0, and of all that the host's cgroups cannot do.
fn drop_unset_limits(host_config: &mut Map<String, Value>) {
    if is_unset(host_config.get("OomKillDisable")) {
        host_config.remove("OomKillDisable");
    }
    let pids = host_config.get("PidsLimit");
    if is_unset(pids) || pids.and_then(Value::as_i64) == Some(-1) {
        host_config.remove("PidsLimit");
    }
}

/// What the engine fills in at the create where the body has nothing. An older engine, or another configuration of this
/// one, left it blank when the old container was made.
const FILLED_IN: [&str; 6] = [
    "CgroupnsMode",
    "IpcMode",
    "MaskedPaths",
    "ReadonlyPaths",
    "Runtime",
    "ShmSize",
];

fn drop_what_was_filled_in(old: &mut Map<String, Value>, new: &mut Map<String, Value>) {
    for field in FILLED_IN {
        // An empty list of paths is the owner's: nothing is to be masked.
        let is_unset = |value: Option<&Value>| is_unset(value) && !value.is_some_and(Value::is_array);
        if is_unset(old.get(field)) {
            old.remove(field);
            new.remove(field);
        }
    }
    if let (Some(Value::Object(old)), Some(Value::Object(new))) =
        (old.get("LogConfig"), new.get_mut("LogConfig"))
    {
        drop_default_log_options(old, new);
    }
}

/// The daemon's own options are added to those of the container, each where the container has none of that name.
fn drop_default_log_options(old: &Map<String, Value>, new: &mut Map<String, Value>) {
    let Some(Value::Object(found)) = new.get_mut("Config") else {
        return;
    };
    match old.get("Config") {
        Some(Value::Object(given)) => found.retain(|option, _| given.contains_key(option)),
        None | Some(Value::Null) => {
            new.remove("Config");
        }
        Some(_) => {}
    }
}

/// Reports every place where two values differ; `null` is the same as absence, and nothing else is.
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
