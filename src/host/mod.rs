//! The host this program runs on, and its own container there.

pub mod capacity;

use std::fs;
use std::net::{IpAddr, Ipv4Addr};

use crate::container::ContainerId;
use crate::engine::Engine;

/// This program's own container; `None` where it runs in none. Engines bind files into a container from a directory named
/// after its id.
pub fn own_container() -> Option<ContainerId> {
    own_id(&fs::read_to_string("/proc/self/mountinfo").ok()?).map(ContainerId::new)
}

fn own_id(mountinfo: &str) -> Option<&str> {
    mountinfo.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        if !["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"].contains(&point) {
            return None;
        }
        root.split('/')
            .find(|part| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
    })
}

/// The address at which a delegate on the host's network is reached from here: the loopback address from the host's own
/// namespace, the default gateway from a bridge. `None` where there is no default route.
pub async fn host_address<E: Engine>(engine: &E, own: Option<&ContainerId>) -> Option<IpAddr> {
    let loopback = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let Some(own) = own else { return loopback };
    match engine.inspect(own).await {
        Ok(container) if container.network_mode() == "host" => loopback,
        _ => gateway(&fs::read_to_string("/proc/net/route").ok()?),
    }
}

/// The default route's gateway. The kernel writes it in hexadecimal, in the machine's byte order.
fn gateway(routes: &str) -> Option<IpAddr> {
    routes.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (destination, gateway) = (fields.next()?, fields.next()?);
        let gateway = u32::from_str_radix(gateway, 16).ok()?;
        (destination == "00000000" && gateway != 0).then(|| IpAddr::V4(Ipv4Addr::from(gateway.to_ne_bytes())))
    })
}

/// The host name by the kernel, or the program's own name where that is empty.
pub fn name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() {
        "delegate-upgrader".to_owned()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4c01db0b339c4c01db0b339c4c01db0b339c4c01db0b339c4c01db0b339cabcd";

    #[test]
    fn the_own_container_is_read_from_the_files_an_engine_binds() {
        let inside = format!(
            "612 611 0:52 / / rw,relatime - overlay overlay rw\n\
             640 612 254:0 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw,relatime - ext4 /dev/vda rw\n"
        );
        assert_eq!(own_id(&inside), Some(ID));
        assert_eq!(own_id("22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"), None);
        let bystander =
            format!("640 612 254:0 /var/lib/docker/containers/{ID}/x /mnt/x rw - ext4 /dev/vda rw\n");
        assert_eq!(
            own_id(&bystander),
            None,
            "a mount of another directory proves nothing"
        );
    }

    #[test]
    fn the_gateway_is_that_of_the_default_route() {
        let routes = "Iface\tDestination\tGateway \tFlags\n\
                      eth0\t000011AC\t00000000\t0001\n\
                      eth0\t00000000\t010011AC\t0003\n";
        assert_eq!(gateway(routes), Some("172.17.0.1".parse().unwrap()));
        assert_eq!(gateway("Iface\tDestination\tGateway\n"), None);
    }
}
