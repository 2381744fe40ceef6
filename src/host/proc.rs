//! Pure parsers for the kernel's files below /proc.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// The mounts of this program: the source of each, relative to the root of its file system, and its place.
fn mounts(mountinfo: &str) -> impl Iterator<Item = (&str, &str)> {
    mountinfo.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(3);
        fields.next().zip(fields.next())
    })
}

/// The id of this program's own container: engines bind files into a container from a directory named after it.
pub fn own_container(mountinfo: &str) -> Option<&str> {
    let is_id = |part: &&str| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_bound = |point| ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"].contains(&point);
    let mut bound = mounts(mountinfo).filter(|(_, point)| is_bound(*point));
    bound.find_map(|(source, _)| source.split('/').find(is_id))
}

/// The path in this program's own container of a file that the engine with this root directory binds there.
pub fn bound_file(mountinfo: &str, root: &Path) -> Option<PathBuf> {
    let id = own_container(mountinfo)?;
    let directory = root.join("containers").join(id);
    mounts(mountinfo).find_map(|(source, point)| {
        let file = Path::new(source).file_name()?;
        // The file system may be mounted at any parent directory.
        let source = Path::new(source.trim_start_matches('/'));
        (source.components().count() > 2 && directory.join(file).ends_with(source))
            .then(|| PathBuf::from(point))
    })
}

/// Advice if this process may not use the engine's socket, from its user namespace and SELinux.
pub fn socket_advice(uid_map: &str, selinux_enforces: &str) -> &'static str {
    let first: Vec<&str> = uid_map.split_whitespace().take(2).collect();
    if !first.is_empty() && first != ["0", "0"] {
        "the users of this container are not those of the host (userns-remap, or a rootless engine): run it with --userns=host, or \
         mount the socket of the rootless engine, $XDG_RUNTIME_DIR/docker.sock"
    } else if selinux_enforces.trim() == "1" {
        "SELinux keeps containers from the socket: run it with --security-opt label=disable"
    } else {
        "run it as root, or with the group of the socket: --group-add $(stat -c %g /var/run/docker.sock)"
    }
}

/// The default route's gateway. The kernel writes it in hexadecimal, in the machine's byte order.
pub fn gateway(routes: &str) -> Option<IpAddr> {
    routes.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (destination, gateway) = (fields.next()?, fields.next()?);
        let gateway = u32::from_str_radix(gateway, 16).ok()?;
        (destination == "00000000" && gateway != 0).then(|| IpAddr::V4(Ipv4Addr::from(gateway.to_ne_bytes())))
    })
}

/// A value of `/proc/meminfo`, in bytes.
pub fn memory(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}
