//! Networks, endpoints, names and ports.

use serde_json::{Value, json};

use crate::row::Row;
use crate::surroundings::{HELPER, NETWORK, NETWORK_6, NETWORK_MAC, OTHER_NETWORK, Surroundings};

pub(crate) fn rows(around: &Surroundings) -> Vec<Row> {
    let mut rows = names();
    rows.extend(ports());
    rows.extend(endpoints(around));
    rows.extend(several());
    rows
}

fn names() -> Vec<Row> {
    vec![
        host!("extra hosts", { "ExtraHosts": ["a.example:192.0.2.1", "b.example:host-gateway"] }),
        host!("dns", { "Dns": ["192.0.2.53", "192.0.2.54"] }),
        host!("dns options", { "DnsOptions": ["ndots:2", "rotate"] }),
        host!("dns search", { "DnsSearch": ["a.example", "b.example"] }),
        host!("links", { "Links": [format!("{HELPER}:db")] }),
        host!("links, two", { "Links": [format!("{HELPER}:db"), format!("{HELPER}:cache")] }),
    ]
}

fn ports() -> Vec<Row> {
    let published = |title, port: &str, bindings: Value| row!(title, { "ExposedPorts": { port: {} }, "HostConfig": { "PortBindings": { port: bindings } } });
    vec![
        row!("exposed ports", { "ExposedPorts": { "8080/tcp": {}, "53/udp": {}, "9/sctp": {} } }),
        row!("exposed port, image with another", { "ExposedPorts": { "8080/tcp": {} } }).rich(),
        published("published port", "3460/tcp", json!([{ "HostPort": "21001" }])),
        published(
            "published port of an address",
            "3460/tcp",
            json!([{ "HostIp": "127.0.0.1", "HostPort": "21002" }]),
        ),
        published(
            "published port twice",
            "3460/tcp",
            json!([{ "HostPort": "21003" }, { "HostIp": "127.0.0.1", "HostPort": "21004" }]),
        ),
        published(
            "published port of a range",
            "3460/tcp",
            json!([{ "HostPort": "21010-21019" }]),
        ),
        published(
            "published port of a range of two",
            "3460/tcp",
            json!([{ "HostPort": "21031-21032" }]),
        ),
        published(
            "published port of a range of one",
            "3460/tcp",
            json!([{ "HostPort": "21033-21033" }]),
        ),
        published(
            "published port of a range of an address",
            "3460/tcp",
            json!([{ "HostIp": "127.0.0.1", "HostPort": "21034-21039" }]),
        ),
        row!("published ports of one range that one container fills", {
            "ExposedPorts": { "3460/tcp": {}, "3461/tcp": {} },
            "HostConfig": { "PortBindings": {
                "3460/tcp": [{ "HostPort": "21041-21042" }], "3461/tcp": [{ "HostPort": "21041-21042" }],
            } },
        }),
        row!("published ports of one range with room for two containers", {
            "ExposedPorts": { "3460/tcp": {}, "3461/tcp": {} },
            "HostConfig": { "PortBindings": {
                "3460/tcp": [{ "HostPort": "21043-21046" }], "3461/tcp": [{ "HostPort": "21043-21046" }],
            } },
        }),
        row!("published port and a range", {
            "ExposedPorts": { "3460/tcp": {}, "3460/udp": {} },
            "HostConfig": { "PortBindings": {
                "3460/tcp": [{ "HostPort": "21047" }], "3460/udp": [{ "HostPort": "21047-21049" }],
            } },
        }),
        published("published port, any", "3460/tcp", json!([{ "HostPort": "" }])),
        published(
            "published udp port",
            "5353/udp",
            json!([{ "HostIp": "0.0.0.0", "HostPort": "21020" }]),
        ),
        published(
            "published port of ipv6",
            "3460/tcp",
            json!([{ "HostIp": "::1", "HostPort": "21021" }]),
        ),
        published(
            "published port that the image exposes",
            "9101/tcp",
            json!([{ "HostPort": "21022" }]),
        )
        .rich(),
        host!("publish all", { "PublishAllPorts": true }).rich(),
    ]
}

fn endpoints(around: &Surroundings) -> Vec<Row> {
    let address = |field: &str, address: &str| json!({ "IPAMConfig": { field: address } });
    vec![
        host!("network by name", { "NetworkMode": NETWORK }),
        host!("network by id", { "NetworkMode": around.network_id }),
        host!("network by short id", { "NetworkMode": around.network_id.get(..12) }),
        host!("network bridge", { "NetworkMode": "bridge" }),
        host!("network default", { "NetworkMode": "default" }),
        host!("network macvlan", { "NetworkMode": NETWORK_MAC }),
        Row::endpoint(
            "fixed address of macvlan",
            NETWORK_MAC,
            address("IPv4Address", "10.233.7.7"),
        ),
        endpoint!("aliases", NETWORK, { "Aliases": ["one", "two.example"] }),
        Row::endpoint("fixed address", NETWORK, address("IPv4Address", "10.231.7.7")),
        Row::endpoint(
            "fixed address of ipv6",
            NETWORK_6,
            address("IPv6Address", "fd00:f1d::77"),
        ),
        endpoint!("link-local addresses", NETWORK, { "IPAMConfig": { "LinkLocalIPs": ["169.254.34.68"] } }),
        endpoint!("links in a network", NETWORK, { "Links": [format!("{HELPER}:db")] }),
        endpoint!("driver options", NETWORK, { "DriverOpts": { "com.example.option": "1" } }),
        endpoint!("driver option for a sysctl", NETWORK, { "DriverOpts": {
            "com.docker.network.endpoint.sysctls": "net.ipv4.conf.IFNAME.log_martians=1",
        } }),
        endpoint!("mac address of the endpoint", NETWORK, { "MacAddress": "92:d0:c6:0a:29:33" }),
        endpoint!("gateway priority", NETWORK, { "GwPriority": 7 }),
        row!("mac address", { "MacAddress": "92:d0:c6:0a:29:34" }),
        row!("mac address in a network", { "MacAddress": "92:d0:c6:0a:29:35", "HostConfig": { "NetworkMode": NETWORK } }),
        endpoint!("aliases, addresses and options together", NETWORK, {
            "Aliases": ["three"], "IPAMConfig": { "IPv4Address": "10.231.7.8" },
            "DriverOpts": { "com.example.option": "2" },
        }),
    ]
}

fn several() -> Vec<Row> {
    let first = |title, endpoint: Value| Row::endpoint(title, NETWORK, endpoint);
    vec![
        first("two networks", json!({})).connected(OTHER_NETWORK, json!({ "Aliases": ["second"] })),
        first(
            "two networks with addresses",
            json!({ "IPAMConfig": { "IPv4Address": "10.231.7.9" } }),
        )
        .connected(
            OTHER_NETWORK,
            json!({ "IPAMConfig": { "IPv4Address": "10.232.7.9" } }),
        ),
        first("two networks with priority", json!({ "GwPriority": 1 })).connected(
            OTHER_NETWORK,
            json!({ "GwPriority": 100, "DriverOpts": { "com.example.option": "3" } }),
        ),
        host!("the default bridge and a network", { "NetworkMode": "default" }).connected(
            NETWORK,
            json!({ "Aliases": ["fourth"], "Links": [format!("{HELPER}:db")] }),
        ),
        first(
            "mac address in the second network",
            json!({ "Aliases": ["fifth"] }),
        )
        .connected(OTHER_NETWORK, json!({ "MacAddress": "92:d0:c6:0a:29:36" }))
        .limit("inspect shows a MAC address in use, and not who chose it, but for the first network's"),
        row!("two networks in the create body", {
            "HostConfig": { "NetworkMode": NETWORK },
            "NetworkingConfig": { "EndpointsConfig": {
                NETWORK: { "Aliases": ["sixth"] },
                OTHER_NETWORK: { "Aliases": ["seventh"], "IPAMConfig": { "IPv4Address": "10.232.7.10" } },
            } },
        }),
    ]
}
