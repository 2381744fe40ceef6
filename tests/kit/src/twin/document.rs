//! From create body to container document, as the engine does it: image defaults merged in, the rest kept as given.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use chrono::{DateTime, SecondsFormat, Utc};
use delegate_upgrader::container::ApiVersion;
use serde_json::{Map, Value, json};

use super::container::{Link, Status};
use super::state::State;
use crate::document::{self, object, strings};

/// The parts of a create body, with the image's defaults and the engine's own filled in.
#[derive(Clone, Debug)]
pub(super) struct Merged {
    pub config: Value,
    pub host_config: Value,
    pub endpoints: BTreeMap<String, Value>,
}

/// Completes a create body as the engine does.
pub(super) fn merge(body: &Value, image: &Value, id: &str) -> Merged {
    let mut owner = object(body);
    let mut host_config = object(&owner.remove("HostConfig").unwrap_or_default());
    let networking = owner.remove("NetworkingConfig").unwrap_or_default();
    let mut config = document::merge(&owner.into(), image);
    let mode = network_mode(&host_config);
    if config["Hostname"].as_str().unwrap_or_default().is_empty() {
        let own = match mode.as_str() {
            "host" => "host",
            shared if shared.starts_with("container:") => "",
            _ => &id[..12],
        };
        config["Hostname"] = own.into();
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

    let mut endpoints: BTreeMap<String, Value> = object(&networking["EndpointsConfig"]).into_iter().collect();
    if !mode.starts_with("container:") {
        let first = if mode == "default" { "bridge" } else { &mode };
        endpoints.entry(first.to_owned()).or_insert_with(|| json!({}));
    }
    Merged {
        config,
        host_config: Value::Object(host_config),
        endpoints,
    }
}

/// The network mode of a body's HostConfig, `default` if none is given.
pub(super) fn network_mode(host_config: &Map<String, Value>) -> String {
    let mode = host_config.get("NetworkMode").and_then(Value::as_str);
    mode.filter(|mode| !mode.is_empty())
        .unwrap_or("default")
        .to_owned()
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
        let mut endpoint = object(settings);
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
            let mut aliases = strings(&settings["Aliases"]);
            if !aliases.iter().any(|alias| alias == &id[..12]) {
                aliases.push(id[..12].to_owned());
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
