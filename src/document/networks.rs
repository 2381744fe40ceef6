//! The networks of a container, with the settings that a new connection accepts.

use serde_json::{Map, Value};

use super::unset::is_unset;
use crate::container::json::text_at;
use crate::container::{ApiVersion, Inspected};

/// Since this version, a create call accepts any number of endpoints, and a MAC address for each.
const MANY_ENDPOINTS: ApiVersion = ApiVersion::new(1, 44);

/// The endpoint fields that the engine reports but no create call can set. All others are kept, even unknown ones.
///
/// `MacAddress` can be set, but the engine reports the address in use, which it mostly generated itself.
pub(super) const REPORTED: [&str; 10] = [
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

/// The endpoints of a container to create, grouped by the call that connects them.
pub(super) struct Endpoints {
    /// The endpoints in the create body, by network.
    pub(super) at_create: Map<String, Value>,
    /// The endpoints to connect after the creation, in this order.
    pub(super) connect: Vec<(String, Value)>,
}

/// Returns the endpoints of the successor. Moves a MAC address in `config` to the place that this API version expects.
pub(super) fn endpoints(config: &mut Map<String, Value>, old: &Inspected, api: ApiVersion) -> Endpoints {
    let first = first_network(old);
    let (mut at_create, mut connect) = (settable(old), Map::new());
    if api >= MANY_ENDPOINTS {
        move_mac(config, &mut at_create, first);
    } else {
        // The network in the network mode. If it was disconnected in the meantime, any network works.
        let created = first.or_else(|| own(old).next().map(|(network, _)| network));
        (at_create, connect) = at_create
            .into_iter()
            .partition(|(network, _)| Some(network.as_str()) == created);
    }
    if shares_namespace(old.network_mode()) {
        // The document shows the other container's address, which the engine refuses here.
        config.remove("MacAddress");
    }
    let connect = connect.into_iter().collect();
    Endpoints { at_create, connect }
}

/// `Config.MacAddress` appears only if the owner set it. Since API 1.44 it belongs in the first network's endpoint, and API
/// 1.52 refuses it anywhere else.
fn move_mac(config: &mut Map<String, Value>, endpoints: &mut Map<String, Value>, first: Option<&str>) {
    let Some(mac) = config.get("MacAddress").filter(|mac| !is_unset(Some(mac))) else {
        return;
    };
    if let Some(Value::Object(endpoint)) = first.and_then(|first| endpoints.get_mut(first)) {
        endpoint.insert("MacAddress".to_owned(), mac.clone());
        config.remove("MacAddress");
    }
}

/// Returns the container's endpoints by network, reduced to the fields that may be set.
fn settable(container: &Inspected) -> Map<String, Value> {
    let id = container.id();
    own(container)
        .map(|(network, endpoint)| {
            let mut endpoint = endpoint.as_object().cloned().unwrap_or_default();
            let is_refused = |field: &str| field == "Aliases" && !takes_aliases(network);
            endpoint.retain(|field, _| !REPORTED.contains(&field.as_str()) && !is_refused(field));
            // The engine adds the short id itself.
            if let Some(Value::Array(aliases)) = endpoint.get_mut("Aliases") {
                aliases.retain(|alias| alias.as_str() != Some(id.short()));
            }
            (network.to_owned(), Value::Object(endpoint))
        })
        .collect()
}

/// Returns a Swarm network that the container is in.
pub fn swarm_network(container: &Inspected) -> Option<&str> {
    distinct(container)
        .find(|(_, endpoint)| is_swarm_id(text_at(endpoint, "/NetworkID")))
        .map(|(network, _)| network)
}

/// Swarm's ids are 25 letters and digits, while those of the engine's own networks are 64 hexadecimal digits.
fn is_swarm_id(network: &str) -> bool {
    network.len() == 25
        && network
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
}

/// Returns the networks that the container itself is connected to, with their endpoints.
pub(super) fn own(container: &Inspected) -> impl Iterator<Item = (&str, &Value)> {
    let mode = container.network_mode();
    // With these modes the engine connects the container itself, or there is nothing to connect.
    let has_none = matches!(mode, "host" | "none") || shares_namespace(mode);
    distinct(container).filter(move |_| !has_none)
}

/// Returns the networks with their endpoints, each once.
///
/// If a network was given by the beginning of its id, the engine lists the endpoint twice after the start: under the given
/// text and under the network's name.
fn distinct(container: &Inspected) -> impl Iterator<Item = (&str, &Value)> {
    let networks = container.object("/NetworkSettings/Networks");
    let named = move |id: &str| {
        networks.into_iter().flatten().any(|(network, endpoint)| {
            text_at(endpoint, "/NetworkID") == id && !id.starts_with(network.as_str())
        })
    };
    networks
        .into_iter()
        .flatten()
        .filter(move |(network, endpoint)| {
            let id = text_at(endpoint, "/NetworkID");
            !(id.starts_with(network.as_str()) && named(id))
        })
        .map(|(network, endpoint)| (network.as_str(), endpoint))
}

/// Whether the engine accepts aliases in this network. The networks that it creates itself refuse them.
pub(super) fn takes_aliases(network: &str) -> bool {
    !matches!(network, "default" | "bridge" | "host" | "none")
}

/// Returns the key of the network that `HostConfig.NetworkMode` gives by name, id or the beginning of an id.
pub(super) fn first_network(container: &Inspected) -> Option<&str> {
    let mode = match container.network_mode() {
        "" | "default" => "bridge",
        mode => mode,
    };
    distinct(container)
        .find(|(network, _)| *network == mode)
        .or_else(|| {
            distinct(container).find(|(_, endpoint)| text_at(endpoint, "/NetworkID").starts_with(mode))
        })
        .map(|(network, _)| network)
}

/// Whether a network mode is another container's namespace.
pub(super) fn shares_namespace(mode: &str) -> bool {
    mode.starts_with("container:")
}
