//! What this program can tell of the host it runs on, and of its own place there.

pub mod capacity;

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use crate::container::ContainerId;
use crate::engine::Engine;

/// This program's own container, if it runs in one: engines bind files from a directory named by the container's id.
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

/// Where a delegate on the host's network is reached from here: the loopback address from the host's own namespace,
/// the default gateway from a bridge.
pub async fn host_address<E: Engine>(engine: &E, own: Option<&ContainerId>) -> Option<IpAddr> {
    let loopback = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let Some(own) = own else { return loopback };
    match engine.inspect(own).await {
        Ok(container) if container.network_mode() == "host" => loopback,
        _ => gateway(&fs::read_to_string("/proc/net/route").ok()?),
    }
}

/// The default route's gateway, from the kernel's table: hexadecimal, in the machine's byte order.
fn gateway(routes: &str) -> Option<IpAddr> {
    routes.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (destination, gateway) = (fields.next()?, fields.next()?);
        let gateway = u32::from_str_radix(gateway, 16).ok()?;
        (destination == "00000000" && gateway != 0).then(|| IpAddr::V4(Ipv4Addr::from(gateway.to_ne_bytes())))
    })
}

/// What is available to new processes, in bytes. Inside a container too this is the host's.
pub fn free_memory() -> Option<u64> {
    available(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// What is left on the file system of an engine's root directory, in bytes. From inside a container of that engine's it
/// is seen through a file that the engine binds; from outside it is the directory that has the container's.
pub fn free_disk(root: &Path, container: &ContainerId) -> Option<u64> {
    let bound = fs::read_to_string("/proc/self/mountinfo")
        .ok()
        .and_then(|mountinfo| bound_from(&mountinfo, root));
    let place = bound.or_else(|| {
        let directory = root.join("containers").join(container.as_str());
        (root.is_absolute() && directory.is_dir()).then_some(directory)
    })?;
    let file_system = rustix::fs::statvfs(&place).ok()?;
    file_system.f_bavail.checked_mul(file_system.f_frsize)
}

/// The file that an engine with this root directory binds into our own container.
fn bound_from(mountinfo: &str, root: &Path) -> Option<PathBuf> {
    let id = own_id(mountinfo)?;
    let directory = root.join("containers").join(id);
    mountinfo.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let (source, point) = (fields.next()?, fields.next()?);
        let file = Path::new(source).file_name()?;
        // The source is told from the root of its file system, which may be mounted anywhere above.
        let source = Path::new(source.trim_start_matches('/'));
        (source.components().count() > 2 && directory.join(file).ends_with(source))
            .then(|| PathBuf::from(point))
    })
}

/// This host's name, as the kernel has it.
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
            "a mount of somebody else's directory is no sign"
        );
    }

    #[test]
    fn an_engine_s_file_system_is_seen_through_a_file_it_binds() {
        let from = |source: &str| {
            format!(
                "612 611 0:52 / / rw - overlay overlay rw\n\
                 640 612 254:0 {source} /etc/hostname rw - ext4 /dev/vda rw\n"
            )
        };
        let seen = |source: &str| bound_from(&from(source), Path::new("/var/lib/docker"));
        let file = Some(PathBuf::from("/etc/hostname"));
        assert_eq!(seen(&format!("/var/lib/docker/containers/{ID}/hostname")), file);
        assert_eq!(
            seen(&format!("/containers/{ID}/hostname")),
            file,
            "a file system of its own"
        );
        for other in [
            format!("/containers/storage/overlay-containers/{ID}/userdata/hostname"),
            format!("/srv/other/containers/{ID}/hostname"),
            format!("/{ID}/hostname"),
        ] {
            assert_eq!(seen(&other), None, "{other}");
        }
    }

    #[test]
    fn free_disk_is_told_only_where_the_engine_s_directory_is_seen() {
        let root = tempfile::tempdir().unwrap();
        let container = ContainerId::new(ID);
        assert_eq!(free_disk(root.path(), &container), None);
        fs::create_dir_all(root.path().join("containers").join(ID)).unwrap();
        assert!(free_disk(root.path(), &container).is_some_and(|free| free > 0));
    }

    #[test]
    fn the_gateway_is_that_of_the_default_route() {
        let routes = "Iface\tDestination\tGateway \tFlags\n\
                      eth0\t000011AC\t00000000\t0001\n\
                      eth0\t00000000\t010011AC\t0003\n";
        assert_eq!(gateway(routes), Some("172.17.0.1".parse().unwrap()));
        assert_eq!(gateway("Iface\tDestination\tGateway\n"), None);
    }

    #[test]
    fn available_memory_is_in_bytes() {
        assert_eq!(
            available("MemTotal: 10 kB\nMemAvailable:   2048 kB\n"),
            Some(2_097_152)
        );
        assert_eq!(available("MemTotal: 10 kB\n"), None);
    }
}
