//! The networks a container is connected to, with the settings that a new connection takes.

use serde_json::{Map, Value};

use super::unset::is_unset;
use crate::container::json::text_at;
use crate::container::{ApiVersion, Inspected};

/// From here on a create call takes any number of endpoints, and a MAC address for each.
const MANY_ENDPOINTS: ApiVersion = ApiVersion::new(1, 44);

/// The fields of an endpoint that the engine reports and no create call can set. Anything else is kept, known or not.
///
/// `MacAddress` can be set, but what is shown here is the address in use, mostly made up by the engine.
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

/// The endpoints of a container to be created, by the call that connects them.
pub(super) struct Endpoints {
    /// Those in the create body, by network.
    pub(super) at_create: Map<String, Value>,
    /// Those to connect after it, in this order.
    pub(super) connect: Vec<(String, Value)>,
}

/// The endpoints of the successor. Moves a MAC address in `config` to the place that this API version expects.
pub(super) fn endpoints(config: &mut Map<String, Value>, old: &Inspected, api: ApiVersion) -> Endpoints {
    let first = first_network(old);
    let (mut at_create, connect) = split(old, api);
    if api >= MANY_ENDPOINTS {
        move_mac(config, &mut at_create, first);
    }
    if shares_namespace(old.network_mode()) {
        // The document shows the address of the other container; the engine refuses it here.
        config.remove("MacAddress");
    }
    Endpoints { at_create, connect }
}

/// The endpoints that go into the create body, and those that are connected after it.
fn split(old: &Inspected, api: ApiVersion) -> (Map<String, Value>, Vec<(String, Value)>) {
    let all = settable(old);
    if api >= MANY_ENDPOINTS || all.len() < 2 {
        return (all, Vec::new());
    }
    // The one that the network mode names; if it was disconnected since, any will do.
    let first = first_network(old)
        .or_else(|| all.keys().next().map(String::as_str))
        .unwrap_or_default()
        .to_owned();
    let (at_create, later): (Map<_, _>, Map<_, _>) =
        all.into_iter().partition(|(network, _)| *network == first);
    (at_create, later.into_iter().collect())
}

/// `Config.MacAddress` is shown only where the owner set it. From API 1.44 it belongs into the first network's
/// endpoint, and API 1.52 refuses it anywhere else.
fn move_mac(config: &mut Map<String, Value>, endpoints: &mut Map<String, Value>, first: Option<&str>) {
    let Some(mac) = config.get("MacAddress").filter(|mac| !is_unset(Some(mac))) else {
        return;
    };
    if let Some(Value::Object(endpoint)) = first.and_then(|first| endpoints.get_mut(first)) {
        endpoint.insert("MacAddress".to_owned(), mac.clone());
        config.remove("MacAddress");
    }
}

/// The container's endpoints by network, each reduced to what may be set.
fn settable(container: &Inspected) -> Map<String, Value> {
    let id = container.id();
    own(container)
        .map(|(network, endpoint)| {
            let mut endpoint = endpoint.as_object().cloned().unwrap_or_default();
            endpoint.retain(|field, _| !REPORTED.contains(&field.as_str()));
            keep_aliases(&mut endpoint, network, id.short());
            (network.to_owned(), Value::Object(endpoint))
        })
        .collect()
}

/// A Swarm network that the container is in.
pub fn swarm_network(container: &Inspected) -> Option<&str> {
    distinct(container)
        .find(|(_, endpoint)| is_swarm_id(text_at(endpoint, "/NetworkID")))
        .map(|(network, _)| network)
}

/// Swarm's ids are 25 letters and digits; those of the engine's own networks are 64 hexadecimal digits.
fn is_swarm_id(network: &str) -> bool {
    network.len() == 25
        && network
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
}

/// The networks that the container is connected to by itself, with their endpoints.
pub(super) fn own(container: &Inspected) -> impl Iterator<Item = (&str, &Value)> {
    let mode = container.network_mode();
    // These modes say it all: the engine connects them itself, or there is nothing to connect.
    let has_none = matches!(mode, "host" | "none") || shares_namespace(mode);
    distinct(container).filter(move |_| !has_none)
}

/// The networks with their endpoints, each once.
///
/// Given a network by the beginning of its id, the engine shows the endpoint twice after the start: under what was
/// given, and under the network's name.
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

/// The engine adds the container's short id to its aliases itself, and refuses aliases on its own networks.
fn keep_aliases(endpoint: &mut Map<String, Value>, network: &str, own_alias: &str) {
    if !takes_aliases(network) {
        endpoint.remove("Aliases");
    }
    if let Some(Value::Array(aliases)) = endpoint.get_mut("Aliases") {
        aliases.retain(|alias| alias.as_str() != Some(own_alias));
    }
}

/// Whether the engine takes aliases in this network: not in those that it makes itself.
pub(super) fn takes_aliases(network: &str) -> bool {
    !matches!(network, "default" | "bridge" | "host" | "none")
}

/// The key of the network that `HostConfig.NetworkMode` names: by name, id or the beginning of an id.
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
