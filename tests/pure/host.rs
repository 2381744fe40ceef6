//! What the files below /proc say of this program's container, and of the host's memory, disk and network.

use std::fs;
use std::path::{Path, PathBuf};

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::host::capacity::free_disk;
use delegate_upgrader::host::proc::{available_memory, bound_file, gateway, own_container, socket_advice};

const ID: &str = "4c01db0b339c4c01db0b339c4c01db0b339c4c01db0b339c4c01db0b339cabcd";

#[test]
fn the_own_container_is_read_from_the_files_an_engine_binds() {
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
fn an_engine_s_file_system_is_seen_through_a_file_it_binds() {
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
fn knows_free_disk_only_where_the_engine_directory_is_visible() {
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
        available_memory("MemTotal: 10 kB\nMemAvailable:   2048 kB\n"),
        Some(2_097_152)
    );
    assert_eq!(available_memory("MemTotal: 10 kB\n"), None);
}

#[test]
fn advice_about_the_socket_names_what_keeps_a_process_from_it() {
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
