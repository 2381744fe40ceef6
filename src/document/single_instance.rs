//! The reasons why two containers with one document cannot run at the same time.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::DependencyKind;
use super::dependencies::namespaces;
use super::networks;
use crate::container::Inspected;
use crate::container::json::{list_at, text_at};
use crate::text::size;

/// Devices that any number of processes can use at once: the kernel's own, and those that give each process its own
/// instance. Any other device, such as a disk, a serial line or a key, counts as usable by one process at a time. Devices
/// that are requested by driver (`--gpus`) are shared by that driver.
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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "the sentence of each says what it is")]
pub enum SingleInstance {
    #[error("it uses host networking; two instances would compete for the same ports")]
    HostNetwork,
    /// It publishes a fixed host port, or a port of a range with room for one container only.
    #[error("it publishes {container} on host port {host}, which only one container can bind")]
    PublishedPort {
        /// The host's port or range, with its address if one was given.
        host: String,
        /// The container's port, such as `3460/tcp`.
        container: String,
    },
    /// The owner chose its address in a network.
    #[error("it has the fixed address {address} in the network {network}")]
    FixedIp {
        network: String,
        /// The IPv4, IPv6 or link-local address.
        address: String,
    },
    /// The owner chose its MAC address.
    #[error("it has the fixed MAC address {address}")]
    FixedMac { address: String },
    #[error("it shares the {kind} of container {container}")]
    ContainerNamespace {
        kind: DependencyKind,
        /// The other container, as the document names it.
        container: String,
    },
    /// It uses a device of the host that may serve only one process.
    #[error("it uses the host device {path}, which may serve only one process")]
    Device { path: String },
    /// It mounts a directory with `Z`. With SELinux, the engine gives that directory to the last container that started.
    #[error(
        "it mounts {path} with the option Z, for one container only: SELinux would take it from the other one"
    )]
    PrivateLabel {
        /// The path on the host, or the volume's name.
        path: String,
    },
    /// All host ports of a published range, or all addresses of its network, are taken. This is not read from the document:
    /// the engine refused to start a second instance.
    #[error("the host has no free port or address for a second instance ({problem})")]
    NoFreePort { problem: String },
    /// The host has too little memory for a second instance. The caller finds this out, since the document does not show it.
    #[error(
        "a second instance may need {} of memory, and the host has {} available",
        size::needed(*.needed), size::text(*.available)
    )]
    TooLittleMemory {
        /// Its memory limit, or its present use if it has no limit, in bytes.
        needed: u64,
        /// The memory available on the host, in bytes.
        available: u64,
    },
}

impl SingleInstance {
    /// Returns one word for metrics, JSON and logs, such as `published_port`.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

/// Returns the reasons why two containers with this document cannot run at once. Empty if they can.
pub fn single_instance_reasons(container: &Inspected) -> Vec<SingleInstance> {
    let network_mode = container.network_mode();
    let mut reasons = Vec::new();
    if network_mode == "host" {
        reasons.push(SingleInstance::HostNetwork);
    }
    reasons.extend(devices(container));
    reasons.extend(private_labels(container));
    reasons.extend(
        namespaces(container).map(|dependency| SingleInstance::ContainerNamespace {
            kind: dependency.kind,
            container: dependency.container,
        }),
    );
    // The engine ignores the remaining settings if the container has no network of its own.
    if matches!(network_mode, "host" | "none") || networks::shares_namespace(network_mode) {
        return reasons;
    }
    reasons.extend(published_ports(container));
    reasons.extend(fixed_addresses(container));
    let mac = container.text("/Config/MacAddress");
    if !mac.is_empty() {
        reasons.push(SingleInstance::FixedMac {
            address: mac.to_owned(),
        });
    }
    reasons
}

/// Returns why a second container with this document could not start beside containers that use these host ports.
pub fn no_free_port(container: &Inspected, taken: &[(u16, String)]) -> Option<SingleInstance> {
    let wanted: Vec<_> = bindings(container).collect();
    let crowded = wanted.iter().find(|binding| {
        binding.among(&wanted).is_some_and(|(ports, rivals)| {
            let is_taken = |port: u16| {
                let mut taken = taken.iter();
                taken.any(|(other, protocol)| *other == port && protocol == binding.protocol())
            };
            ports.filter(|port| !is_taken(*port)).count() < rivals
        })
    })?;
    let problem = format!("all ports of {} are taken", crowded.port);
    Some(SingleInstance::NoFreePort { problem })
}

fn published_ports(container: &Inspected) -> Vec<SingleInstance> {
    let wanted: Vec<_> = bindings(container).collect();
    let is_crowded = |binding: &&Binding<'_>| {
        let among = binding.among(&wanted);
        among.is_some_and(|(ports, rivals)| ports.len() < 2 * rivals)
    };
    wanted.iter().filter(is_crowded).map(Binding::reason).collect()
}

fn devices(container: &Inspected) -> impl Iterator<Item = SingleInstance> {
    let devices = container.list("/HostConfig/Devices").iter();
    devices
        .map(|device| text_at(device, "/PathOnHost"))
        .filter(|path| !is_shared(path))
        .map(|path| SingleInstance::Device {
            path: path.to_owned(),
        })
}

/// Finds the binds with the option `Z`. The options follow the second colon of a bind.
fn private_labels(container: &Inspected) -> impl Iterator<Item = SingleInstance> {
    let binds = container
        .list("/HostConfig/Binds")
        .iter()
        .filter_map(Value::as_str);
    binds.filter_map(|bind| {
        let mut parts = bind.splitn(3, ':');
        let (path, _, options) = (parts.next()?, parts.next()?, parts.next()?);
        options.split(',').any(|option| option == "Z").then(|| {
            let path = path.to_owned();
            SingleInstance::PrivateLabel { path }
        })
    })
}

/// `/dev/nvidia` covers `/dev/nvidia0`, `/dev/nvidiactl` and `/dev/nvidia-uvm`; `/dev/dri` covers everything below it.
fn is_shared(path: &str) -> bool {
    SHARED_DEVICES.iter().any(|shared| {
        let rest = path.strip_prefix(shared);
        let families = ["/dev/nvidia", "/dev/vhost-"];
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || families.contains(shared))
    })
}

/// A port of the container, and its host address and port.
struct Binding<'a> {
    container: &'a str,
    address: &'a str,
    port: &'a str,
}

fn bindings(container: &Inspected) -> impl Iterator<Item = Binding<'_>> {
    let ports = container.object("/HostConfig/PortBindings").into_iter().flatten();
    ports.flat_map(|(container, bindings)| {
        bindings.as_array().into_iter().flatten().map(|binding| Binding {
            container,
            address: text_at(binding, "/HostIp"),
            port: text_at(binding, "/HostPort"),
        })
    })
}

impl Binding<'_> {
    /// Returns the possible host ports, of which the engine takes the first free one. `None` means any port, as a missing
    /// port and port 0 do.
    fn ports(&self) -> Option<RangeInclusive<u16>> {
        let (first, last) = self.port.split_once('-').unwrap_or((self.port, self.port));
        let ports = first.parse().ok()?..=last.parse().ok()?;
        (!ports.contains(&0) && !ports.is_empty()).then_some(ports)
    }

    /// Returns the possible host ports, and how many of the bindings may take one of them, this one included. Ignores their
    /// addresses, since most of them overlap.
    fn among(&self, all: &[Self]) -> Option<(RangeInclusive<u16>, usize)> {
        let ports = self.ports()?;
        let overlaps =
            |theirs: RangeInclusive<u16>| theirs.start() <= ports.end() && ports.start() <= theirs.end();
        let rivals = all
            .iter()
            .filter(|it| it.protocol() == self.protocol() && it.ports().is_some_and(overlaps));
        let count = rivals.count();
        Some((ports, count))
    }

    fn protocol(&self) -> &str {
        self.container
            .split_once('/')
            .map_or("tcp", |(_, protocol)| protocol)
    }

    fn reason(&self) -> SingleInstance {
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

fn fixed_addresses(container: &Inspected) -> impl Iterator<Item = SingleInstance> {
    networks::own(container).flat_map(|(network, endpoint)| {
        let given =
            ["/IPAMConfig/IPv4Address", "/IPAMConfig/IPv6Address"].map(|pointer| text_at(endpoint, pointer));
        let link_local = list_at(endpoint, "/IPAMConfig/LinkLocalIPs").iter();
        given
            .into_iter()
            .chain(link_local.filter_map(Value::as_str))
            .filter(|address| !address.is_empty())
            .map(|address| SingleInstance::FixedIp {
                network: network.to_owned(),
                address: address.to_owned(),
            })
    })
}
