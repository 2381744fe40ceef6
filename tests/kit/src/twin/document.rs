//! From create body to container document, as the engine does it: image defaults merged in, the rest kept as given.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use chrono::{DateTime, SecondsFormat, Utc};
use delegate_upgrader::container::ApiVersion;
use serde_json::{Map, Value, json};

use super::container::{Link, Status};
use super::state::State;

/// The parts of a create body, with the image's defaults and the engine's own filled in.
#[derive(Clone, Debug)]
pub(super) struct Merged {
    pub config: Value,
    pub host_config: Value,
    pub endpoints: BTreeMap<String, Value>,
}

/// Completes a create body as the engine does.
pub(super) fn merge(body: &Value, image: &Value, id: &str) -> Merged {
    let mut config = body.as_object().cloned().unwrap_or_default();
    let mut host_config = object(config.remove("HostConfig"));
    let networking = object(config.remove("NetworkingConfig"));

    merge_image(&mut config, image);
    let mode = network_mode(&host_config);
    if text(&config, "Hostname").is_empty() {
        let own = match mode.as_str() {
            "host" => "host".to_owned(),
            shared if shared.starts_with("container:") => String::new(),
            _ => id[..12].to_owned(),
        };
        config.insert("Hostname".to_owned(), own.into());
    }

    host_config.insert("NetworkMode".to_owned(), mode.clone().into());
    host_config
        .entry("RestartPolicy")
        .and_modify(|policy| {
            if policy["Name"].as_str().is_none_or(str::is_empty) {
                policy["Name"] = "no".into();
            }
        })
        .or_insert_with(|| json!({ "Name": "no", "MaximumRetryCount": 0 }));
    host_config.entry("AutoRemove").or_insert(Value::Bool(false));
    host_config.entry("PortBindings").or_insert_with(|| json!({}));

    let mut endpoints: BTreeMap<String, Value> = object(networking.get("EndpointsConfig").cloned())
        .into_iter()
        .collect();
    if !mode.starts_with("container:") {
        let first = if mode == "default" { "bridge" } else { &mode };
        endpoints.entry(first.to_owned()).or_insert_with(|| json!({}));
    }
    Merged {
        config: Value::Object(config),
        host_config: Value::Object(host_config),
        endpoints,
    }
}

fn merge_image(config: &mut Map<String, Value>, image: &Value) {
    for key in ["User", "WorkingDir", "StopSignal"] {
        if text(config, key).is_empty() && !image[key].is_null() {
            config.insert(key.to_owned(), image[key].clone());
        }
    }
    for key in ["ExposedPorts", "Labels", "Volumes"] {
        let mut merged = object(Some(image[key].clone()));
        merged.extend(object(config.remove(key)));
        if !merged.is_empty() || key == "Labels" {
            config.insert(key.to_owned(), Value::Object(merged));
        }
    }

    let mut env = list(config.get("Env"));
    for default in list(image.get("Env")) {
        let taken = env.iter().any(|entry| variable(entry) == variable(&default));
        if !taken {
            env.push(default);
        }
    }
    config.insert("Env".to_owned(), env.into());

    if list(config.get("Entrypoint")).is_empty() {
        if list(config.get("Cmd")).is_empty() && !image["Cmd"].is_null() {
            config.insert("Cmd".to_owned(), image["Cmd"].clone());
        }
        if config.get("Entrypoint").is_none_or(Value::is_null) && !image["Entrypoint"].is_null() {
            config.insert("Entrypoint".to_owned(), image["Entrypoint"].clone());
        }
    }

    let default = object(image.get("Healthcheck").cloned());
    let mut check = object(config.remove("Healthcheck"));
    for (key, value) in default {
        let unset = check
            .get(&key)
            .is_none_or(|own| own.is_null() || *own == json!(0) || *own == json!([]));
        if unset {
            check.insert(key, value);
        }
    }
    if !check.is_empty() {
        config.insert("Healthcheck".to_owned(), Value::Object(check));
    }
}

/// The network mode of a body's HostConfig, `default` if none is given.
pub(super) fn network_mode(host_config: &Map<String, Value>) -> String {
    match text(host_config, "NetworkMode") {
        "" => "default".to_owned(),
        mode => mode.to_owned(),
    }
}

/// A network with this name belongs to Swarm.
const OVERLAY: &str = "overlay";

/// The endpoints of a container as its document shows them.
pub(super) fn networks(
    endpoints: &BTreeMap<String, Value>,
    addresses: &BTreeMap<String, Ipv4Addr>,
    id: &str,
    own_alias: bool,
) -> Value {
    let mut networks = Map::new();
    for (network, settings) in endpoints {
        let mut endpoint = object(Some(settings.clone()));
        let address = addresses
            .get(network)
            .map(Ipv4Addr::to_string)
            .unwrap_or_default();
        endpoint.insert("IPAddress".to_owned(), address.into());
        let network_id = match network.as_str() {
            OVERLAY => "hy2w7sj3rgvqkcn81d0m4tzxa".to_owned(),
            _ => format!("network-{network}"),
        };
        endpoint.insert("NetworkID".to_owned(), network_id.into());
        let built_in = ["bridge", "host", "none"].contains(&network.as_str());
        if own_alias && !built_in {
            let mut aliases = list(endpoint.get("Aliases"));
            if !aliases.contains(&Value::from(&id[..12])) {
                aliases.push(id[..12].into());
            }
            endpoint.insert("Aliases".to_owned(), aliases.into());
        }
        networks.insert(network.clone(), Value::Object(endpoint));
    }
    Value::Object(networks)
}

/// A time as the engine writes it; the year 1 for never.
pub(super) fn time(at: Option<DateTime<Utc>>) -> String {
    at.map_or_else(
        || "0001-01-01T00:00:00Z".to_owned(),
        |at| at.to_rfc3339_opts(SecondsFormat::Nanos, true),
    )
}

fn object(value: Option<Value>) -> Map<String, Value> {
    match value {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

fn list(value: Option<&Value>) -> Vec<Value> {
    value.and_then(Value::as_array).cloned().unwrap_or_default()
}

fn text<'a>(object: &'a Map<String, Value>, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn variable(entry: &Value) -> &str {
    entry
        .as_str()
        .unwrap_or_default()
        .split('=')
        .next()
        .unwrap_or_default()
}

impl State {
    /// The container's document.
    pub(super) fn document(&mut self, index: usize) -> Value {
        let (now, manager_reachable) = (self.now, self.manager_reachable);
        self.containers[index].probe_until(now, manager_reachable);
        let container = &self.containers[index];
        let restarting = matches!(container.status, Status::Restarting { .. });
        let mut state = json!({
            "Status": container.status.word(),
            "Running": container.is_running(),
            "Paused": matches!(container.status, Status::Paused(_)),
            "Restarting": restarting,
            "OOMKilled": false,
            "Dead": false,
            "Pid": i32::from(container.life().is_some()),
            "ExitCode": container.exit_code,
            "Error": container.error,
            "StartedAt": time(container.started.map(|at| self.wall(at))),
            "FinishedAt": time(container.finished.map(|at| self.wall(at))),
        });
        if let Some(health) = container.health_document(|at| time(Some(self.wall(at)))) {
            state["Health"] = health;
        }
        let mut host_config = container.body.host_config.clone();
        if !container.links.is_empty() {
            let shown = |link: &Link| format!("/{}:/{}/{}", link.name, container.name, link.alias);
            host_config["Links"] = container.links.iter().map(shown).collect();
        }
        let own_alias = self.settings.api < ApiVersion::new(1, 44);
        json!({
            "Id": container.id,
            "Name": format!("/{}", container.name),
            "Created": time(Some(self.wall(container.created))),
            "State": state,
            "Image": container.image_id,
            "RestartCount": container.restart_count,
            "Platform": "linux",
            "Config": container.body.config,
            "HostConfig": host_config,
            "NetworkSettings": {
                "Networks": networks(
                    &container.body.endpoints, &container.addresses, &container.id, own_alias),
            },
            "Mounts": [],
        })
    }
}
