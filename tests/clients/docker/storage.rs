//! An engine's reports about its storage.

use delegate_upgrader::engine::{Engine as _, Storage};
use serde_json::{Value, json};

use super::scripted::{ScriptedEngine, answer_json};

#[test]
fn reads_free_space_from_a_storage_drivers_pool() {
    let zfs =
        |available: &str| Storage::new("/x", "zfs", &[("Zpool", "tank"), ("Space Available", available)]);
    assert_eq!(zfs("91942912000").available(), Some(91_942_912_000));
    assert_eq!(zfs("85.6 GB").available(), None);
    let overlay = Storage::new("/x", "overlay2", &[("Backing Filesystem", "extfs")]);
    assert_eq!(overlay.available(), None);
    assert!(overlay.has_files());
    // Up to Docker 24; its pool is not below the root directory, and its free space is unknown.
    let pool = Storage::new("/x", "devicemapper", &[("Data Space Available", "1.2 GB")]);
    assert_eq!(pool.available(), None);
    assert!(!pool.has_files());
}

#[tokio::test]
async fn reads_the_engines_storage_info() {
    let read = async |info: Value| {
        let engine = ScriptedEngine::start(move |_| answer_json(200, &info)).await;
        engine.docker.storage().await.unwrap()
    };
    let containerd = read(json!({
        "DockerRootDir": "/var/lib/docker", "Driver": "overlayfs", "NCPU": 4,
        "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]], "MemTotal": 25_276_059_648_u64,
    }));
    let containerd = containerd.await;
    let snapshots = containerd.snapshots();
    assert_eq!(
        snapshots.as_deref(),
        Some("io.containerd.snapshotter.v1.overlayfs")
    );
    assert_eq!(containerd.memory, Some(25_276_059_648));
    let silent = read(json!({ "DriverStatus": null })).await;
    assert!(silent.has_files() && silent.snapshots().is_none());
    assert_eq!(silent.available(), None);
}
