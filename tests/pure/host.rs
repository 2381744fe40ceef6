//! The files below /proc as a source for this program's container, and for the host's memory, disk and network.

use std::fs;
use std::path::{Path, PathBuf};

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::engine::Storage;
use delegate_upgrader::host::capacity::{self, Others, free_disk};
use delegate_upgrader::host::proc::{bound_file, gateway, memory, own_container, socket_advice};

const ID: &str = "4c01db0b339c4c01db0b339c4c01db0b339c4c01db0b339c4c01db0b339cabcd";

#[test]
fn detects_its_own_container_from_the_files_the_engine_mounts() {
    let inside = format!(
        "612 611 0:52 / / rw,relatime - overlay overlay rw\n\
         640 612 254:0 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw,relatime - ext4 /dev/vda rw\n"
    );
    assert_eq!(own_container(&inside), Some(ID));
    assert_eq!(
        own_container("22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"),
        None
    );
    let bystander = format!("640 612 254:0 /var/lib/docker/containers/{ID}/x /mnt/x rw - ext4 /dev/vda rw\n");
    assert_eq!(
        own_container(&bystander),
        None,
        "a mount of another directory proves nothing"
    );
}

#[test]
fn sees_the_engines_file_system_through_a_file_it_mounts() {
    let from = |source: &str| {
        format!(
            "612 611 0:52 / / rw - overlay overlay rw\n\
             640 612 254:0 {source} /etc/hostname rw - ext4 /dev/vda rw\n"
        )
    };
    let seen = |source: &str| bound_file(&from(source), Path::new("/var/lib/docker"));
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
fn knows_the_free_disk_space_only_if_the_image_directory_is_visible() {
    let root = tempfile::tempdir().unwrap();
    let container = ContainerId::new(ID);
    let overlay = Storage::new(root.path(), "overlay2", &[]);
    let kind = "io.containerd.snapshotter.v1";
    let containerd = Storage::new(root.path(), "overlayfs", &[("driver-type", kind)]);
    let is_known = |storage| free_disk(storage, &container).is_some_and(|free| free > 0);
    assert!(!is_known(&overlay) && !is_known(&containerd));
    fs::create_dir_all(root.path().join("containers").join(ID)).unwrap();
    assert!(is_known(&overlay) && !is_known(&containerd));
    let snapshots = format!("containerd/daemon/{kind}.overlayfs");
    fs::create_dir_all(root.path().join(snapshots)).unwrap();
    assert!(is_known(&containerd));
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
fn memory_is_in_bytes() {
    let meminfo = "MemTotal: 10 kB\nMemAvailable:   2048 kB\n";
    assert_eq!(memory(meminfo, "MemAvailable:"), Some(2 * 1024 * 1024));
    assert_eq!(memory(meminfo, "MemTotal:"), Some(10 * 1024));
    assert_eq!(memory("MemTotal: 10 kB\n", "MemAvailable:"), None);
}

/// Each needs 2 GiB, and 3.5 GiB are available.
#[test]
fn a_second_container_fits_now_or_later_or_never() {
    const GIB: u64 = 1 << 30;
    let fits = |needed, reserved, in_use| capacity::fits(needed, GIB * 7 / 2, Others { reserved, in_use });
    assert_eq!(fits(2 * GIB, 0, 0), Ok(true));
    assert_eq!(fits(2 * GIB, GIB, GIB), Ok(true));
    assert_eq!(
        fits(2 * GIB, 2 * GIB, 0),
        Ok(false),
        "a candidate may still take it"
    );
    assert_eq!(fits(4 * GIB, 0, GIB), Ok(false), "one that drains has it");
    assert!(fits(5 * GIB, 0, GIB).is_err());
}

#[test]
fn socket_advice_names_what_blocks_access() {
    let host = "         0          0 4294967295\n";
    for (uid_map, selinux, advice) in [
        (host, "", "--group-add"),
        (host, "0", "--group-add"),
        ("", "", "--group-add"),
        (host, "1\n", "label=disable"),
        ("         0     100000      65536\n", "", "--userns=host"),
        ("         0       1000          1\n", "1", "--userns=host"),
    ] {
        let advised = socket_advice(uid_map, selinux);
        assert!(advised.contains(advice), "{uid_map:?}, {selinux:?}: {advised}");
    }
}
