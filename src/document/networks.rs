//! The networks a container is connected to, as what may be set when they are connected.

use serde_json::{Map, Value};

use super::{map, short_id, text};
use crate::container::ApiVersion;

/// From here on a create call takes any number of endpoints, and a MAC address for each.
const MANY_ENDPOINTS: ApiVersion = ApiVersion::new(1, 44);

/// What the engine reports about an endpoint and nobody can set. Anything else is kept, known or not.
///
/// `MacAddress` can be set, but what is shown here is the address in use, mostly made up by the engine.
const REPORTED: [&str; 10] = [
    "NetworkID",
    "EndpointID",
    "Gateway",
    "IPAddress",
    "IPPrefixLen",
    "IPv6Gateway",
    "GlobalIPv6Address",
    "GlobalIPv6PrefixLen",
    "MacAddress",
    "DNSNames",
];

/// Endpoints by when they are connected.
pub(super) struct Endpoints {
    /// In the create body, by network.
    pub(super) at_create: Map<String, Value>,
    /// After it, in this order.
    pub(super) connect: Vec<(String, Value)>,
}

/// The endpoints of the successor. Moves a MAC address in `config` to where this API version wants it.
pub(super) fn endpoints(config: &mut Map<String, Value>, inspect: &Value, api: ApiVersion) -> Endpoints {
    let mut at_create = settable(inspect);
    let first = first_network(inspect);
    let mut connect = Vec::new();
    if api >= MANY_ENDPOINTS {
        move_mac(config, &mut at_create, first);
    } else if at_create.len() > 1 {
        // The one that the network mode names; if it was disconnected since, any will do.
        let first = first
            .or_else(|| at_create.keys().next().map(String::as_str))
            .unwrap_or_default()
            .to_owned();
        let (now, later): (Map<_, _>, Map<_, _>) =
            at_create.into_iter().partition(|(network, _)| *network == first);
        at_create = now;
        connect = later.into_iter().collect();
    }
    if shares_namespace(text(inspect, "/HostConfig/NetworkMode")) {
        // What is shown is the other container's; the engine refuses it here.
        config.remove("MacAddress");
    }
    Endpoints { at_create, connect }
}

/// `Config.MacAddress` is shown only where the owner set it. From API 1.44 it belongs into the first network's
/// endpoint, and API 1.52 refuses it anywhere else.
fn move_mac(config: &mut Map<String, Value>, endpoints: &mut Map<String, Value>, first: Option<&str>) {
    let Some(mac) = config.get("MacAddress").filter(|mac| !super::is_unset(Some(mac))) else {
        return;
    };
    if let Some(Value::Object(endpoint)) = first.and_then(|first| endpoints.get_mut(first)) {
        endpoint.insert("MacAddress".to_owned(), mac.clone());
        config.remove("MacAddress");
    }
}

/// All endpoints by network, reduced to what may be set.
pub(super) fn settable(inspect: &Value) -> Map<String, Value> {
    let mode = text(inspect, "/HostConfig/NetworkMode");
    // These modes are all there is to say: the engine connects them itself, or there is nothing to connect.
    if matches!(mode, "host" | "none") || shares_namespace(mode) {
        return Map::new();
    }
    let own_alias = short_id(inspect);
    distinct(inspect)
        .map(|(network, endpoint)| {
            let mut endpoint = endpoint.as_object().cloned().unwrap_or_default();
            drop_chosen_addresses(&mut endpoint);
            endpoint.retain(|field, _| !REPORTED.contains(&field.as_str()));
            keep_aliases(&mut endpoint, network, &own_alias);
            (network.to_owned(), Value::Object(endpoint))
        })
        .collect()
}

/// Where an address that was asked for is shown, and where the one in use.
const ADDRESSES: [(&str, &str); 2] = [("IPv4Address", "IPAddress"), ("IPv6Address", "GlobalIPv6Address")];

/// In a network of Swarm the address that was chosen for a container shows as if it had been asked for, as long as the
/// container runs.
fn drop_chosen_addresses(endpoint: &mut Map<String, Value>) {
    let network = endpoint.get("NetworkID").and_then(Value::as_str);
    if !network.is_some_and(is_id_of_swarm) {
        return;
    }
    let in_use = ADDRESSES.map(|(_, in_use)| endpoint.get(in_use).cloned());
    let Some(Value::Object(given)) = endpoint.get_mut("IPAMConfig") else {
        return;
    };
    for ((field, _), in_use) in ADDRESSES.into_iter().zip(in_use) {
        if given.get(field) == in_use.as_ref() {
            given.remove(field);
        }
    }
    if given.is_empty() {
        endpoint.remove("IPAMConfig");
    }
}

/// A network of Swarm that the container is in.
pub fn network_of_swarm(inspect: &Value) -> Option<&str> {
    distinct(inspect)
        .find(|(_, endpoint)| is_id_of_swarm(text(endpoint, "/NetworkID")))
        .map(|(network, _)| network)
}

/// The ids of the engine's own networks are 64 hexadecimal digits.
fn is_id_of_swarm(network: &str) -> bool {
    network.len() == 25
        && network
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
}

/// The networks with their endpoints, each once.
///
/// Given a network by the beginning of its id, the engine shows the endpoint twice after the start: under what was
/// given, and under the network's name.
pub(super) fn distinct(inspect: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let networks = map(inspect, "/NetworkSettings/Networks");
    let named = move |id: &str| {
        networks.into_iter().flatten().any(|(network, endpoint)| {
            text(endpoint, "/NetworkID") == id && !id.starts_with(network.as_str())
        })
    };
    networks
        .into_iter()
        .flatten()
        .filter(move |(network, endpoint)| {
            let id = text(endpoint, "/NetworkID");
            !(id.starts_with(network.as_str()) && named(id))
        })
        .map(|(network, endpoint)| (network.as_str(), endpoint))
}

/// The engine adds the container's short id to its aliases itself, and refuses aliases on its own networks.
fn keep_aliases(endpoint: &mut Map<String, Value>, network: &str, own_alias: &str) {
    if matches!(network, "default" | "bridge" | "host" | "none") {
        endpoint.remove("Aliases");
    }
    if let Some(Value::Array(aliases)) = endpoint.get_mut("Aliases") {
        aliases.retain(|alias| alias.as_str() != Some(own_alias));
    }
}

/// The key of the network that `HostConfig.NetworkMode` names: by name, id or the beginning of an id.
pub(super) fn first_network(inspect: &Value) -> Option<&str> {
    let mode = match text(inspect, "/HostConfig/NetworkMode") {
        "" | "default" => "bridge",
        mode => mode,
    };
    distinct(inspect)
        .find(|(network, _)| *network == mode)
        .or_else(|| distinct(inspect).find(|(_, endpoint)| text(endpoint, "/NetworkID").starts_with(mode)))
        .map(|(network, _)| network)
}

/// Whether a network mode is another container's namespace.
pub(super) fn shares_namespace(mode: &str) -> bool {
    mode.starts_with("container:")
}
