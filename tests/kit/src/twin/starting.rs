//! Starting a container's process: its requirements, and the addresses and ports that it gets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use delegate_upgrader::engine::EngineError;
use serde_json::Value;

use super::commands::{Outcome, conflict, refused};
use super::container::{Life, Status};
use super::events::Happened;
use super::state::State;

impl State {
    pub(super) fn start_process(&mut self, index: usize) -> Outcome<()> {
        let container = &self.containers[index];
        let mode = container.network_mode();
        if let Some(other) = mode.strip_prefix("container:") {
            let joined = self.find(other)?;
            if self.containers[joined].life().is_none() {
                return conflict(format!("cannot join network of a non running container: {other}"));
            }
        }
        for link in &container.links {
            let runs = self
                .find(&link.target)
                .map(|target| self.containers[target].is_running());
            if runs != Ok(true) {
                return refused(
                    500,
                    format!(
                        "Cannot link to a non running container: /{} AS /{}/{}",
                        link.name, container.name, link.alias
                    ),
                );
            }
        }
        if let Some(missing) = container
            .body
            .endpoints
            .keys()
            .find(|name| !self.networks.contains(*name))
        {
            return Err(EngineError::NotFound(format!("network {missing} not found")));
        }
        let taken = self.host_ports(index);
        let mut ports = BTreeSet::new();
        for mut wanted in container.published_ports() {
            let (first, last) = (*wanted.start(), *wanted.end());
            let Some(port) = wanted.find(|port| !taken.contains(port) && !ports.contains(port)) else {
                let failed = if first == last {
                    format!("Bind for 0.0.0.0:{first} failed: port is already allocated")
                } else {
                    "all ports are allocated".to_owned()
                };
                return refused(
                    500,
                    format!(
                        "driver failed programming external connectivity on endpoint {}: {failed}",
                        container.name
                    ),
                );
            };
            ports.insert(port);
        }
        let addresses = self.addresses_for(index)?;
        let container = &self.containers[index];
        let start_error = container
            .behaviour
            .start_error
            .clone()
            .map(|reason| (400, reason));
        let runtime_error = self.runtime_error.clone().map(|reason| (500, reason));
        if let Some((status, reason)) = runtime_error.or(start_error) {
            self.log(index, Happened::NotStarted);
            return refused(status, reason);
        }
        let collides = mode == "host" && container.listens_on().is_some_and(|port| taken.contains(&port));
        let now = self.now;
        let container = &mut self.containers[index];
        container.addresses = addresses;
        container.ports = ports;
        container.started = Some(now);
        container.error = String::new();
        container.exit_code = 0;
        container.printed.extend_from_slice(&container.behaviour.prints);
        container.status = Status::Running(Life::new(now, collides));
        self.log(index, Happened::Started);
        Ok(())
    }

    /// The host ports that other containers hold.
    pub(super) fn host_ports(&self, index: usize) -> BTreeSet<u16> {
        let mut ports = BTreeSet::new();
        for (other, container) in self.containers.iter().enumerate() {
            let Some(life) = container.life().filter(|_| other != index) else {
                continue;
            };
            ports.extend(&container.ports);
            if container.network_mode() == "host" && !life.collides {
                ports.extend(container.listens_on());
            }
        }
        ports
    }

    pub(super) fn addresses_for(&self, index: usize) -> Outcome<BTreeMap<String, Ipv4Addr>> {
        let mut addresses = BTreeMap::new();
        for (network, settings) in &self.containers[index].body.endpoints {
            if network == "host" || network == "none" {
                continue;
            }
            let position = self
                .networks
                .iter()
                .position(|name| name == network)
                .unwrap_or_default();
            let subnet = if network == "bridge" {
                17
            } else {
                18 + u8::try_from(position).unwrap_or(200)
            };
            let taken: BTreeSet<Ipv4Addr> = self
                .containers
                .iter()
                .filter_map(|other| other.addresses.get(network))
                .copied()
                .collect();
            let fixed: Option<Ipv4Addr> = settings
                .pointer("/IPAMConfig/IPv4Address")
                .and_then(Value::as_str)
                .and_then(|a| a.parse().ok());
            let address = match fixed {
                Some(fixed) if taken.contains(&fixed) => return refused(403, "Address already in use"),
                Some(fixed) => fixed,
                None => (2..=254)
                    .map(|host| Ipv4Addr::new(172, subnet, 0, host))
                    .find(|address| !taken.contains(address))
                    .ok_or_else(|| EngineError::Refused {
                        status: 500,
                        message: "no free address".to_owned(),
                    })?,
            };
            addresses.insert(network.clone(), address);
        }
        Ok(addresses)
    }
}
