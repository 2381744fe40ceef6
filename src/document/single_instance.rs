//! What forbids two containers of one document to live at the same time.

use std::fmt;
use std::ops::RangeInclusive;

use serde_json::Value;

use super::dependencies::namespaces;
use super::{list, map, text};

const MIB: u64 = 1024 * 1024;

/// Devices that any number of processes use at once: the kernel's own, and those that hand each opener something of its
/// own. Of a disk, a serial line or a key nobody knows, so those are taken for one at a time. What is asked for by a
/// driver (`--gpus`) is shared by that driver.
const SHARED_DEVICES: [&str; 12] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/fuse",
    "/dev/kvm",
    "/dev/net/tun",
    "/dev/dri",
    "/dev/nvidia",
    "/dev/vhost-",
];

/// A reason why the old container must stop before its successor starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SingleInstance {
    /// It listens in the host's own network.
    HostNetwork,
    /// A fixed port of the host leads to it, or one of a range with room for one container only.
    PublishedPort {
        /// The host's port or range, with its address where one was given.
        host: String,
        /// The container's port, `3460/tcp`.
        container: String,
    },
    /// Its address in a network was chosen by its owner.
    FixedIp {
        /// The network.
        network: String,
        /// The address.
        address: String,
    },
    /// Its MAC address was chosen by its owner.
    FixedMac {
        /// The address.
        address: String,
    },
    /// It lives in a namespace of another container.
    ContainerNamespace {
        /// `network`, `pid` or `ipc`.
        namespace: &'static str,
        /// The other container, as the document names it.
        container: String,
    },
    /// It has a device of the host that may serve one process only.
    Device {
        /// Its path on the host.
        path: String,
    },
    /// The host has no room for a second one. Not read from the document; the caller knows the host.
    TooLittleMemory {
        /// Its limit, or its present use where it has none, in bytes.
        needed: u64,
        /// What is available on the host, in bytes.
        available: u64,
    },
}

impl SingleInstance {
    /// One word for metrics and logs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::HostNetwork => "host-network",
            Self::PublishedPort { .. } => "published-port",
            Self::FixedIp { .. } => "fixed-ip",
            Self::FixedMac { .. } => "fixed-mac",
            Self::ContainerNamespace { .. } => "container-namespace",
            Self::Device { .. } => "device",
            Self::TooLittleMemory { .. } => "too-little-memory",
        }
    }
}

impl fmt::Display for SingleInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostNetwork => write!(
                f,
                "it uses the host's network, where two would want the same ports"
            ),
            Self::PublishedPort { host, container } => {
                write!(
                    f,
                    "it publishes {container} on port {host} of the host, which only one can hold"
                )
            }
            Self::FixedIp { network, address } => {
                write!(f, "it has the fixed address {address} in the network {network}")
            }
            Self::FixedMac { address } => write!(f, "it has the fixed MAC address {address}"),
            Self::ContainerNamespace { namespace, container } => {
                write!(
                    f,
                    "it lives in the {namespace} namespace of the container {container}"
                )
            }
            Self::Device { path } => {
                write!(
                    f,
                    "it has the device {path} of the host, which may serve only one"
                )
            }
            Self::TooLittleMemory { needed, available } => write!(
                f,
                "a second one may need {} MiB of memory, and the host has {} MiB available",
                needed / MIB,
                available / MIB
            ),
        }
    }
}

/// Why two containers of this document cannot live at once; empty where they can.
pub fn single_instance_reasons(inspect: &Value) -> Vec<SingleInstance> {
    let mut conflicts = Vec::new();
    let network_mode = text(inspect, "/HostConfig/NetworkMode");
    if network_mode == "host" {
        conflicts.push(SingleInstance::HostNetwork);
    }
    conflicts.extend(devices(inspect));
    conflicts.extend(
        namespaces(inspect).map(|dependency| SingleInstance::ContainerNamespace {
            namespace: dependency.what,
            container: dependency.container,
        }),
    );
    // The engine ignores the rest where the container has no network of its own.
    if matches!(network_mode, "host" | "none") || super::networks::shares_namespace(network_mode) {
        return conflicts;
    }
    published_ports(inspect, &mut conflicts);
    fixed_addresses(inspect, &mut conflicts);
    let mac = text(inspect, "/Config/MacAddress");
    if !mac.is_empty() {
        conflicts.push(SingleInstance::FixedMac {
            address: mac.to_owned(),
        });
    }
    conflicts
}

fn published_ports(inspect: &Value, conflicts: &mut Vec<SingleInstance>) {
    let wanted: Vec<_> = bindings(inspect).collect();
    for binding in &wanted {
        let Some(ports) = binding.ports() else { continue };
        let rivals = wanted.iter().filter(|other| binding.is_rival(other, &ports));
        let room = usize::from(ports.end() - ports.start()) + 1;
        if room < 2 * rivals.count() {
            conflicts.push(binding.conflict());
        }
    }
}

fn devices(inspect: &Value) -> impl Iterator<Item = SingleInstance> {
    let devices = list(inspect, "/HostConfig/Devices").iter();
    devices
        .map(|device| text(device, "/PathOnHost"))
        .filter(|path| !is_shared(path))
        .map(|path| SingleInstance::Device {
            path: path.to_owned(),
        })
}

/// `/dev/nvidia` stands for `/dev/nvidia0`, `/dev/nvidiactl` and `/dev/nvidia-uvm`, `/dev/dri` for all below it.
fn is_shared(path: &str) -> bool {
    SHARED_DEVICES.iter().any(|shared| {
        let rest = path.strip_prefix(shared);
        let families = ["/dev/nvidia", "/dev/vhost-"];
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || families.contains(shared))
    })
}

/// A port of the container, and where on the host it is to be reached.
struct Binding<'a> {
    container: &'a str,
    address: &'a str,
    port: &'a str,
}

fn bindings(inspect: &Value) -> impl Iterator<Item = Binding<'_>> {
    let ports = map(inspect, "/HostConfig/PortBindings").into_iter().flatten();
    ports.flat_map(|(container, bindings)| {
        bindings.as_array().into_iter().flatten().map(|binding| Binding {
            container,
            address: text(binding, "/HostIp"),
            port: text(binding, "/HostPort"),
        })
    })
}

impl Binding<'_> {
    /// The ports of the host that will do; the engine takes the first free one. `None` is any at all, as no port and
    /// port 0 are.
    fn ports(&self) -> Option<RangeInclusive<u16>> {
        let (first, last) = self.port.split_once('-').unwrap_or((self.port, self.port));
        let ports = first.parse().ok()?..=last.parse().ok()?;
        (!ports.contains(&0) && !ports.is_empty()).then_some(ports)
    }

    /// Whether both may take the same port. Addresses are not looked at: most contain each other.
    fn is_rival(&self, other: &Self, ports: &RangeInclusive<u16>) -> bool {
        let overlaps =
            |theirs: RangeInclusive<u16>| theirs.start() <= ports.end() && ports.start() <= theirs.end();
        self.protocol() == other.protocol() && other.ports().is_some_and(overlaps)
    }

    fn protocol(&self) -> &str {
        self.container
            .split_once('/')
            .map_or("tcp", |(_, protocol)| protocol)
    }

    fn conflict(&self) -> SingleInstance {
        let host = match self.address {
            "" => self.port.to_owned(),
            address if address.contains(':') => format!("[{address}]:{}", self.port),
            address => format!("{address}:{}", self.port),
        };
        SingleInstance::PublishedPort {
            host,
            container: self.container.to_owned(),
        }
    }
}

fn fixed_addresses(inspect: &Value, conflicts: &mut Vec<SingleInstance>) {
    for (network, endpoint) in super::networks::settable(inspect) {
        let given =
            ["/IPAMConfig/IPv4Address", "/IPAMConfig/IPv6Address"].map(|pointer| text(&endpoint, pointer));
        let link_local = list(&endpoint, "/IPAMConfig/LinkLocalIPs").iter();
        for address in given.into_iter().chain(link_local.filter_map(Value::as_str)) {
            if !address.is_empty() {
                conflicts.push(SingleInstance::FixedIp {
                    network: network.clone(),
                    address: address.to_owned(),
                });
            }
        }
    }
}
