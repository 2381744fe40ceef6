//! The parts of a container that a create body must carry over, however odd the container's document.

use std::collections::BTreeMap;

use delegate_upgrader::container::{ApiVersion, label};
use delegate_upgrader::document::{CreateRequest, Images};
use serde_json::{Map, Value, json};

use super::owner::is_volume_name;
use super::paths::{bind_destination, clean};
use super::{ENDPOINT_REPORTS, Given, IMAGE_ID, REFERENCE, list, object, text};

pub(super) fn check(
    container: &Value,
    images: Images<'_>,
    given: &Given,
    made: &CreateRequest,
    api: ApiVersion,
) {
    let nothing = Map::new();
    let carried = Carried {
        container,
        config: object(container, "/Config").unwrap_or(&nothing),
        image: object(images.old, "/Config").unwrap_or(&nothing),
        new_labels: object(images.new, "/Config/Labels"),
        body: made.body.as_object().expect("a body is an object"),
        connect: &made.connect,
        given,
    };
    let image = if given.is_by_id { IMAGE_ID } else { REFERENCE };
    assert_eq!(carried.body.get("Image"), Some(&json!(image)));
    carried.labels();
    carried.env();
    carried.fields();
    carried.names();
    carried.sets();
    carried.command();
    carried.healthcheck();
    carried.host_config();
    carried.volumes();
    carried.networks(api);
}

struct Carried<'a> {
    container: &'a Value,
    config: &'a Map<String, Value>,
    image: &'a Map<String, Value>,
    new_labels: Option<&'a Map<String, Value>>,
    body: &'a Map<String, Value>,
    connect: &'a [(String, Value)],
    given: &'a Given,
}

impl Carried<'_> {
    fn in_body(&self, pointer: &str) -> Option<&Value> {
        let (field, rest) = pointer.split_once('/').unwrap_or((pointer, ""));
        let value = self.body.get(field)?;
        if rest.is_empty() {
            Some(value)
        } else {
            value.pointer(&format!("/{rest}"))
        }
    }

    /// Whether the container has `--rm`, or replaces a container with it.
    fn should_auto_remove(&self) -> bool {
        let remembers = fields(self.config, "Labels").get(label::AUTO_REMOVE) == Some(&json!("true"));
        let policy = &self.container["HostConfig"]["RestartPolicy"]["Name"];
        let has_no_policy = policy.as_str().is_none_or(|name| name.is_empty() || name == "no");
        (remembers && has_no_policy) || self.container["HostConfig"]["AutoRemove"] == json!(true)
    }

    /// Our labels on the new container, with their values.
    fn given_labels(&self) -> BTreeMap<&str, String> {
        let labels = self.given.labels.iter().cloned();
        let mut expected: BTreeMap<&str, String> = labels.collect();
        if self.given.is_by_id {
            expected.insert(label::IMAGE, REFERENCE.to_owned());
        }
        if self.should_auto_remove() {
            expected.insert(label::AUTO_REMOVE, "true".to_owned());
        }
        if !self.connect.is_empty() {
            let networks: Map<String, Value> = self.connect.iter().cloned().collect();
            expected.insert(label::NETWORKS, Value::Object(networks).to_string());
        }
        expected
    }

    fn labels(&self) {
        let all = self.body["Labels"].as_object().expect("labels are an object");
        let own = fields(self.config, "Labels");
        let given = self.given_labels();
        for (name, value) in all {
            if let Some(given) = given.get(name.as_str()) {
                assert_eq!(value, given);
            } else if label::OURS.contains(&name.as_str()) {
                assert_eq!(value, "", "{name} of another release");
                assert!(self.new_labels.is_some_and(|labels| labels.contains_key(name)));
            } else {
                assert_eq!(own.get(name), Some(value), "label {name}");
            }
        }
        for name in given.keys() {
            assert!(all.contains_key(*name), "{name} is not on it");
        }
        let defaults = fields(self.image, "Labels");
        for (name, value) in &own {
            let ours = label::OURS.contains(&name.as_str());
            assert!(
                ours || all.contains_key(name) || defaults.get(name) == Some(value),
                "label {name} was lost"
            );
        }
    }

    fn env(&self) {
        let entries = |of: &Map<String, Value>| of.get("Env").and_then(Value::as_array).cloned();
        let kept = entries(self.body).unwrap_or_default();
        let defaults = entries(self.image).unwrap_or_default();
        let mut kept = kept.iter().peekable();
        for entry in entries(self.config).unwrap_or_default() {
            if kept.next_if(|next| **next == entry).is_none() {
                assert!(defaults.contains(&entry), "a variable was lost");
            }
        }
        assert!(kept.next().is_none(), "a variable came from nowhere");
    }

    /// Fields without a rule of their own stay the same; scalars do, or get the image's value.
    fn fields(&self) {
        const RULED: [&str; 12] = [
            "Image",
            "Labels",
            "Env",
            "ExposedPorts",
            "Volumes",
            "Entrypoint",
            "Cmd",
            "Healthcheck",
            "Hostname",
            "Domainname",
            "MacAddress",
            "HostConfig",
        ];
        const SCALARS: [&str; 4] = ["User", "WorkingDir", "StopSignal", "ArgsEscaped"];
        for (field, value) in self.config {
            let found = self.body.get(field);
            if SCALARS.contains(&field.as_str()) {
                let is_default = blank_or(self.image.get(field), value);
                assert!(found == Some(value) || (found.is_none() && is_default), "{field}");
            } else if !RULED.contains(&field.as_str()) && field != "NetworkingConfig" {
                assert_eq!(found, Some(value), "{field}");
            }
        }
        for field in self.body.keys() {
            let known = RULED.contains(&field.as_str()) || field == "NetworkingConfig";
            assert!(known || self.config.contains_key(field), "{field} from nowhere");
        }
    }

    fn names(&self) {
        let borrowed = text(self.container, "/HostConfig/NetworkMode").starts_with("container:");
        let given = text(self.container, "/Config/Hostname");
        let automatic = text(self.container, "/Id").starts_with(given) && given.len() <= 12;
        let of_host = text(self.container, "/HostConfig/UTSMode") == "host";
        for (field, may_go) in [
            ("Hostname", borrowed || automatic || of_host),
            ("Domainname", borrowed),
        ] {
            match self.body.get(field) {
                None => assert!(may_go || !self.config.contains_key(field), "{field} was lost"),
                found => assert_eq!(found, self.config.get(field)),
            }
        }
        let mac = self.config.get("MacAddress").filter(|mac| **mac != json!(""));
        if let Some(mac) = mac.filter(|mac| !mac.is_null())
            && !borrowed
        {
            let in_endpoint = self
                .at_create()
                .into_values()
                .any(|endpoint| endpoint["MacAddress"] == *mac);
            assert!(self.body.get("MacAddress") == Some(mac) || in_endpoint);
        }
    }

    fn sets(&self) {
        let bindings = object(self.container, "/HostConfig/PortBindings");
        for field in ["ExposedPorts", "Volumes"] {
            let (kept, own) = (fields(self.body, field), fields(self.config, field));
            let defaults = fields(self.image, field);
            for (name, value) in &own {
                let bound = field == "ExposedPorts" && bindings.is_some_and(|all| all.contains_key(name));
                match kept.get(name) {
                    None => assert!(defaults.contains_key(name) && !bound, "{field} {name} was lost"),
                    found => assert_eq!(found, Some(value)),
                }
            }
            assert!(kept.keys().all(|name| own.contains_key(name)));
        }
    }

    fn command(&self) {
        let given = |field| self.config.get(field).unwrap_or(&Value::Null);
        let made = |field| self.body.get(field).unwrap_or(&Value::Null);
        let entrypoint = made("Entrypoint");
        let taken_away = *entrypoint == json!([""]) && given("Entrypoint").is_null();
        assert!(entrypoint.is_null() || taken_away || entrypoint == given("Entrypoint"));
        let command = made("Cmd");
        assert!(command.is_null() || command == given("Cmd"));
    }

    fn healthcheck(&self) {
        let (kept, own) = (
            fields(self.body, "Healthcheck"),
            fields(self.config, "Healthcheck"),
        );
        let defaults = fields(self.image, "Healthcheck");
        for (field, value) in &own {
            match kept.get(field) {
                None => assert!(blank_or(defaults.get(field), value), "Healthcheck {field}"),
                found => assert_eq!(found, Some(value)),
            }
        }
        assert!(kept.keys().all(|field| own.contains_key(field)));
    }

    /// Every field survives, known or unknown. Anonymous volumes get names, and volumes may be added.
    fn host_config(&self) {
        let own = fields(self.config_parent(), "HostConfig");
        let made = fields(self.body, "HostConfig");
        for (field, value) in &own {
            let found = made.get(field);
            match field.as_str() {
                "Binds" => same_start(value, found, |old, new| {
                    let named = |(old, new): (&str, &str)| {
                        !old.contains(':') && new.strip_suffix(old).is_some_and(|name| name.ends_with(':'))
                    };
                    old.as_str().zip(new.as_str()).is_some_and(named)
                }),
                "Mounts" => same_start(value, found, |old, new| {
                    let mut named = old.clone();
                    named["Source"] = new["Source"].clone();
                    text(old, "/Source").is_empty() && named == *new
                }),
                "AutoRemove" => {}
                _ => assert_eq!(found, Some(value), "HostConfig {field}"),
            }
        }
        let more = |field: &&String| !own.contains_key(*field);
        assert!(
            made.keys()
                .filter(more)
                .all(|field| ["Binds", "Mounts", "AutoRemove"].contains(&field.as_str()))
        );
        // No container that we create may vanish when it stops.
        assert_ne!(made.get("AutoRemove"), Some(&json!(true)));
    }

    fn config_parent(&self) -> &Map<String, Value> {
        self.container.as_object().expect("it was accepted")
    }

    /// No volume of the container itself is left behind, and none replaces another mount.
    fn volumes(&self) {
        let made = &self.body["HostConfig"];
        let binds = list(made, "/Binds").iter().filter_map(Value::as_str);
        let mounts = list(made, "/Mounts").iter();
        let mut taken = BTreeMap::new();
        for destination in binds
            .map(bind_destination)
            .chain(mounts.map(|mount| text(mount, "/Target")))
        {
            *taken.entry(clean(destination)).or_insert(0_usize) += 1;
        }
        let mut before = BTreeMap::new();
        let host_config = &self.container["HostConfig"];
        for bind in list(host_config, "/Binds").iter().filter_map(Value::as_str) {
            *before.entry(clean(bind_destination(bind))).or_insert(0_usize) += 1;
        }
        for mount in list(host_config, "/Mounts") {
            *before.entry(clean(text(mount, "/Target"))).or_insert(0_usize) += 1;
        }
        for (destination, count) in &taken {
            let allowed = before.get(destination).copied().unwrap_or(1);
            assert!(*count <= allowed, "{} is mounted twice", destination.display());
        }
        let declared: Vec<_> = fields(self.config, "Volumes")
            .keys()
            .map(|path| clean(path))
            .collect();
        let borrows = !blank_or(None, &host_config["VolumesFrom"]);
        for mount in list(self.container, "/Mounts") {
            let (name, destination) = (text(mount, "/Name"), text(mount, "/Destination"));
            if text(mount, "/Type") != "volume" || !is_volume_name(name) || destination.is_empty() {
                continue;
            }
            let destination = clean(destination);
            assert!(
                taken.contains_key(&destination) || (borrows && !declared.contains(&destination)),
                "the volume at {} is left behind",
                destination.display()
            );
        }
    }

    fn at_create(&self) -> Map<String, Value> {
        let endpoints = self.in_body("NetworkingConfig/EndpointsConfig");
        endpoints.and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// Every network occurs once, with all of its permitted settings.
    fn networks(&self, api: ApiVersion) {
        let mode = text(self.container, "/HostConfig/NetworkMode");
        if self.config.contains_key("NetworkingConfig")
            || matches!(mode, "host" | "none")
            || mode.starts_with("container:")
        {
            return;
        }
        let at_create = self.at_create();
        if api >= ApiVersion::new(1, 44) {
            assert!(self.connect.is_empty());
        } else {
            assert!(at_create.len() <= 1);
        }
        let mut made = at_create.clone();
        for (network, endpoint) in self.connect {
            assert!(made.insert(network.clone(), endpoint.clone()).is_none());
        }
        for (network, endpoint) in object(self.container, "/NetworkSettings/Networks")
            .into_iter()
            .flatten()
        {
            let Some(found) = made.remove(network) else {
                // The network is shown a second time, under a prefix of its id.
                assert!(text(endpoint, "/NetworkID").starts_with(network.as_str()));
                continue;
            };
            for field in ENDPOINT_REPORTS {
                assert!(found.get(field).is_none(), "{field} cannot be set");
            }
            for (field, value) in endpoint.as_object().into_iter().flatten() {
                let ruled =
                    ENDPOINT_REPORTS.contains(&field.as_str()) || field == "MacAddress" || field == "Aliases";
                assert!(ruled || found.get(field) == Some(value), "{field} of a network");
            }
            for alias in list(&found, "/Aliases") {
                assert!(list(endpoint, "/Aliases").contains(alias));
            }
            if let Some(mac) = found.get("MacAddress") {
                assert_eq!(self.config.get("MacAddress"), Some(mac));
            }
        }
        assert!(made.is_empty(), "a network from nowhere");
    }
}

fn fields(of: &Map<String, Value>, field: &str) -> Map<String, Value> {
    of.get(field)
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

/// The values are equal, or neither means anything to the engine.
fn blank_or(default: Option<&Value>, value: &Value) -> bool {
    let blank = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(entries) => entries.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    };
    default == Some(value) || (blank(value) && default.is_none_or(blank))
}

/// A list that begins like the old one, except for permitted changes of its entries.
fn same_start(old: &Value, new: Option<&Value>, may_become: impl Fn(&Value, &Value) -> bool) {
    let Some(entries) = old.as_array() else {
        let added = new.is_some_and(Value::is_array);
        assert!(added || new == Some(old));
        return;
    };
    let new = new.and_then(Value::as_array).expect("still a list");
    assert!(new.len() >= entries.len());
    for (old, new) in entries.iter().zip(new) {
        assert!(old == new || may_become(old, new), "{old} has become {new}");
    }
}
