//! Free disk space is checked before the image is pulled.

use std::time::Duration;

use delegate_upgrader::engine::Storage;

use super::host::{GROUP, HOUR, Host, NEW, OLD, good, row};
use kit::twin::{Fault, Operation, delegate_body};

const MIB: u64 = 1024 * 1024;
/// Just enough room: the old image has 500 MiB.
const ENOUGH: u64 = 564 * MIB;
const LATEST: &str = "harness/delegate:latest";
const FULL: &str = "failed to register layer: write /usr/lib/x: no space left on device";

/// A host with one delegate and this much free disk space.
fn host(free_disk: impl Into<Option<u64>>) -> Host {
    let mut host = Host::new();
    host.free_disk = free_disk.into();
    host.run("dd");
    host
}

fn pool(free: u64) -> Storage {
    Storage::new("/x", "zfs", &[("Space Available", &free.to_string())])
}

#[tokio::test(start_paused = true)]
async fn does_not_pull_an_image_that_may_not_fit() {
    let host = host(ENOUGH - 1);
    host.run("d2");
    let report = host.once(NEW).await;
    // The other replica needs the same disk space.
    assert!(
        row(&report, "dd").failed && row(&report, "d2").failed,
        "{report:?}"
    );
    assert_eq!(host.twin.writes(), [], "not even a pull");
    let why =
        format!("not pulling {NEW}: it may need 564 MiB, but only 563 MiB are free on the engine's disk");
    let dd = row(&report, "dd");
    assert_eq!((dd.reason.as_str(), &dd.message), ("too_little_disk", &why));
}

/// The image just fits, or is already on the host, or the free space is unknown.
#[tokio::test(start_paused = true)]
async fn pulls_an_image_that_fits() {
    host(ENOUGH).upgrade(NEW).await;
    host(None).upgrade(NEW).await;
    let present = host(0);
    let image = present.twin.image(good());
    present.twin.add_image(NEW, image.clone());
    present.twin.publish(NEW, image);
    present.upgrade(NEW).await;
    let pool = host(0);
    pool.twin.set_storage(Storage::new("/x", "devicemapper", &[]));
    pool.upgrade(NEW).await;
    let refused = host(0);
    refused.fault(Operation::Storage, Fault::ErrBefore);
    refused.upgrade(NEW).await;
}

/// containerd's store reports the size of the compressed layers, and keeps the files beside them.
#[tokio::test(start_paused = true)]
async fn the_containerd_store_needs_room_for_layers_and_files() {
    for (room, reason) in [(4 * 500 + 63, "too_little_disk"), (4 * 500 + 64, "up_to_date")] {
        let host = host(room * MIB);
        let driver = [("driver-type", "io.containerd.snapshotter.v1")];
        let storage = Storage::new("/var/lib/docker", "overlayfs", &driver);
        host.twin.set_storage(storage);
        assert_eq!(host.reason(NEW).await, reason);
    }
}

#[tokio::test(start_paused = true)]
async fn prefers_free_space_reported_by_the_engine() {
    let full = host(u64::MAX);
    full.twin.set_storage(pool(100_000_000));
    assert_eq!(full.reason(NEW).await, "too_little_disk");
    let roomy = host(0);
    roomy.twin.set_storage(pool(900_000_000));
    roomy.upgrade(NEW).await;
}

fn with_latest(free_disk: impl Into<Option<u64>>) -> Host {
    let mut host = Host::new();
    host.free_disk = free_disk.into();
    host.twin.add_image(LATEST, host.twin.image(good()));
    host.twin.run("dd", &delegate_body(GROUP, LATEST));
    host
}

#[tokio::test(start_paused = true)]
async fn a_new_image_under_a_moved_tag_needs_disk_space() {
    let host = with_latest(0);
    host.publish(LATEST, good());
    assert_eq!(host.reason(LATEST).await, "too_little_disk");
    assert_eq!(host.count(Operation::Pull), 0);
}

/// Neither the previous image nor the pull could be read: then the old image is not the published one.
#[tokio::test(start_paused = true)]
async fn does_not_mistake_a_moved_tags_old_image_for_the_published_one() {
    let host = with_latest(None);
    let published = host.publish(LATEST, good());
    let mut upgrader = host.upgrader(LATEST);
    for nth in 1..8 {
        let mut inspects = 0;
        host.twin.set_faults(move |call| match call.operation {
            Operation::InspectImage if call.subject == LATEST => {
                inspects += 1;
                if inspects == nth { Fault::Hang } else { Fault::None }
            }
            Operation::Pull => Fault::Hang,
            _ => Fault::None,
        });
        let report = host.scheduled_run(&mut upgrader).await;
        assert_ne!(
            row(&report, "dd").reason.as_str(),
            "up_to_date",
            "{nth}: {report:?}"
        );
        assert!(report.has_failures(), "{nth}: {report:?}");
    }
    host.twin.clear_faults();
    host.scheduled_run(&mut upgrader).await;
    let document = host.twin.document(host.find("dd").id.as_str()).unwrap();
    assert_eq!(document["Image"], published.as_str());
}

/// A storage pool shows when there is more room; without one, the pull is tried again after an hour.
#[tokio::test(start_paused = true)]
async fn retries_a_pull_that_filled_the_disk_once_there_may_be_room() {
    let host = host(None);
    host.twin.set_storage(pool(ENOUGH));
    host.twin.break_pull(NEW, Some(FULL));
    let mut upgrader = host.upgrader(NEW);
    let report = host.scheduled_run(&mut upgrader).await;
    let why = format!("cannot pull {NEW}: the engine's disk is full: {FULL}");
    assert_eq!(row(&report, "dd").message, why);
    for more in [0, 64 * MIB - 1] {
        host.twin.set_storage(pool(ENOUGH + more));
        tokio::time::sleep(HOUR * 24).await;
        let report = host.scheduled_run(&mut upgrader).await;
        let dd = row(&report, "dd");
        assert_eq!(
            (host.count(Operation::Pull), dd.reason.as_str()),
            (1, "too_little_disk")
        );
        assert!(dd.message.contains("it may need 628 MiB"), "{report:?}");
    }
    host.twin.set_storage(pool(ENOUGH + 64 * MIB));
    host.twin.break_pull(NEW, None);
    assert!(!host.scheduled_run(&mut upgrader).await.has_failures());
    host.assert_settled_on("dd", NEW, "");

    let host = self::host(None);
    host.twin.break_pull(NEW, Some(FULL));
    let mut upgrader = host.upgrader(NEW);
    for (pause, pulls) in [(Duration::ZERO, 1), (HOUR / 2, 1), (HOUR / 4, 1), (HOUR / 2, 2)] {
        tokio::time::sleep(pause).await;
        let report = host.scheduled_run(&mut upgrader).await;
        assert_eq!(host.count(Operation::Pull), pulls);
        assert_eq!(row(&report, "dd").reason.as_str(), "pull_failed");
    }
    // Any other failure is not a reason to wait.
    host.twin.break_pull(NEW, Some("toomanyrequests: slow down"));
    tokio::time::sleep(HOUR).await;
    for pulls in [3, 4] {
        host.scheduled_run(&mut upgrader).await;
        assert_eq!(host.count(Operation::Pull), pulls);
    }
}

#[tokio::test(start_paused = true)]
async fn pulls_the_image_for_the_platform_of_an_emulated_delegate() {
    let host = Host::new();
    let [old, new] = [(); 2].map(|()| {
        let mut image = host.twin.image(good());
        image.architecture = "arm64".to_owned();
        image
    });
    host.twin.add_image(OLD, old);
    host.twin.publish(NEW, new);
    host.run("dd");
    host.upgrade(NEW).await;
    let calls = host.twin.calls();
    let pulls = calls.iter().filter(|call| call.operation == Operation::Pull);
    let platforms: Vec<&str> = pulls.map(|call| call.detail.as_str()).collect();
    assert_eq!(platforms, ["linux/arm64"]);
}
