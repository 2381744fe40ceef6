//! Room for the image is checked before it is pulled.

use std::time::Duration;

use delegate_upgrader::engine::Storage;

use super::host::{GROUP, HOUR, Host, NEW, OLD, good, row};
use kit::twin::{Fault, Operation, delegate_body};

const MIB: u64 = 1024 * 1024;
/// The old image has 500 MiB.
const ENOUGH: u64 = 564 * MIB;

fn host(free_disk: u64) -> Host {
    let mut host = Host::new();
    host.free_disk = Some(free_disk);
    host
}

fn asked_for(host: &Host, operation: Operation) -> bool {
    let calls = host.twin.calls();
    calls.iter().any(|call| call.operation == operation)
}

async fn assert_refused(host: &Host) {
    host.run("dd");
    let report = host.once(NEW).await;
    assert_eq!(
        row(&report, "dd").reason.as_str(),
        "too_little_disk",
        "{report:?}"
    );
    assert!(report.has_failures());
    assert_eq!(host.twin.writes(), [], "not even a pull");
}

async fn assert_upgraded(host: &Host) {
    host.run("dd");
    let report = host.once(NEW).await;
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on("dd", NEW, "");
}

#[tokio::test(start_paused = true)]
async fn an_image_that_may_not_fit_is_not_pulled() {
    let host = host(ENOUGH - 1);
    assert_refused(&host).await;
    let why = &row(&host.once(NEW).await, "dd").message.clone();
    assert_eq!(
        *why,
        format!("not pulling {NEW}: it may need 564 MiB, but only 563 MiB are free on the engine's disk")
    );
}

#[tokio::test(start_paused = true)]
async fn an_image_that_just_fits_is_pulled() {
    assert_upgraded(&host(ENOUGH)).await;
}

#[tokio::test(start_paused = true)]
async fn an_image_that_is_there_needs_no_room() {
    let host = host(0);
    let image = host.twin.image(good());
    host.twin.add_image(NEW, image.clone());
    host.twin.publish(NEW, image);
    assert_upgraded(&host).await;
}

#[tokio::test(start_paused = true)]
async fn an_image_under_a_tag_that_moved_needs_room() {
    const LATEST: &str = "harness/delegate:latest";
    let host = host(0);
    host.twin.add_image(LATEST, host.twin.image(good()));
    host.publish(LATEST, good());
    host.twin.run("dd", &delegate_body(GROUP, LATEST));
    let report = host.once(LATEST).await;
    assert_eq!(
        row(&report, "dd").reason.as_str(),
        "too_little_disk",
        "{report:?}"
    );
    assert!(!asked_for(&host, Operation::Pull));
}

/// Neither the image from before nor the pull could be learned about: then the old image is not the published one.
#[tokio::test(start_paused = true)]
async fn the_image_of_a_tag_that_moved_is_not_taken_for_the_published_one_when_its_pull_fails() {
    const LATEST: &str = "harness/delegate:latest";
    let host = Host::new();
    host.twin.add_image(LATEST, host.twin.image(good()));
    let published = host.publish(LATEST, good());
    host.twin.run("dd", &delegate_body(GROUP, LATEST));
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

#[tokio::test(start_paused = true)]
async fn the_engine_s_report_of_its_own_pool_comes_first() {
    let full = Storage::new("/x", "zfs", &[("Space Available", "100000000")]);
    let roomy = Storage::new("/x", "zfs", &[("Space Available", "900000000")]);
    let host = host(u64::MAX);
    host.twin.set_storage(full);
    assert_refused(&host).await;
    let host = self::host(0);
    host.twin.set_storage(roomy);
    assert_upgraded(&host).await;
}

#[tokio::test(start_paused = true)]
async fn an_image_is_pulled_where_the_free_disk_is_unknown() {
    let containerd = Storage::new(
        "/var/lib/docker",
        "overlayfs",
        &[("driver-type", "io.containerd.snapshotter.v1")],
    );
    let host = host(0);
    host.twin.set_storage(containerd);
    assert_upgraded(&host).await;
    let host = self::host(0);
    host.twin.set_faults(|call| match call.operation {
        Operation::Storage => Fault::ErrBefore,
        _ => Fault::None,
    });
    assert_upgraded(&host).await;
    assert_upgraded(&Host::new()).await;
}

/// They would want the same disk.
#[tokio::test(start_paused = true)]
async fn too_little_disk_for_one_replica_is_too_little_for_all() {
    let host = host(0);
    host.run("d1");
    host.run("d2");
    let report = host.once(NEW).await;
    for name in ["d1", "d2"] {
        assert!(row(&report, name).failed, "{report:?}");
    }
    assert_eq!(host.twin.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_fills_up_during_the_pull_is_reported() {
    let host = Host::new();
    let words = "failed to register layer: write /usr/lib/x: no space left on device";
    host.twin.break_pull(NEW, Some(words));
    host.run("dd");
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "pull_failed");
    assert_eq!(
        row(&report, "dd").message,
        format!("cannot pull {NEW}: the engine's disk is full: {words}")
    );
}

fn pulls(host: &Host) -> usize {
    let writes = host.twin.writes();
    writes
        .iter()
        .filter(|call| call.operation == Operation::Pull)
        .count()
}

const FULL: &str = "failed to register layer: write /usr/lib/x: no space left on device";

#[tokio::test(start_paused = true)]
async fn an_image_that_filled_the_disk_is_pulled_again_once_there_is_more_room() {
    let host = Host::new();
    let free = |bytes: u64| {
        let bytes = bytes.to_string();
        host.twin
            .set_storage(Storage::new("/x", "zfs", &[("Space Available", &bytes)]));
    };
    free(ENOUGH);
    host.twin.break_pull(NEW, Some(FULL));
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    let report = host.scheduled_run(&mut upgrader).await;
    assert_eq!(
        (pulls(&host), row(&report, "dd").reason.as_str()),
        (1, "pull_failed")
    );
    for more in [0, 64 * MIB - 1] {
        free(ENOUGH + more);
        tokio::time::sleep(HOUR * 24).await;
        let report = host.scheduled_run(&mut upgrader).await;
        assert_eq!(pulls(&host), 1, "{more}");
        assert_eq!(row(&report, "dd").reason.as_str(), "too_little_disk");
        assert!(
            row(&report, "dd").message.contains("it may need 628 MiB"),
            "{report:?}"
        );
    }
    free(ENOUGH + 64 * MIB);
    host.twin.break_pull(NEW, None);
    let report = host.scheduled_run(&mut upgrader).await;
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on("dd", NEW, "");
}

#[tokio::test(start_paused = true)]
async fn an_image_that_filled_a_disk_of_unknown_size_is_pulled_again_after_an_hour() {
    let host = Host::new();
    host.twin.break_pull(NEW, Some(FULL));
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    for (pause, pulled) in [(Duration::ZERO, 1), (HOUR / 2, 1), (HOUR / 4, 1), (HOUR / 2, 2)] {
        tokio::time::sleep(pause).await;
        let report = host.scheduled_run(&mut upgrader).await;
        assert_eq!(pulls(&host), pulled);
        assert_eq!(row(&report, "dd").reason.as_str(), "pull_failed");
    }
    // Another failure is no reason to wait.
    host.twin.break_pull(NEW, Some("toomanyrequests: slow down"));
    tokio::time::sleep(HOUR).await;
    for pulled in [3, 4] {
        host.scheduled_run(&mut upgrader).await;
        assert_eq!(pulls(&host), pulled);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_from_an_image_for_another_platform() {
    let host = Host::new();
    let mut image = host.twin.image(good());
    image.architecture = "arm64".to_owned();
    host.twin.publish(NEW, image);
    host.run("dd");
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "wrong_platform");
    let writes: Vec<Operation> = host.twin.writes().iter().map(|call| call.operation).collect();
    assert_eq!(writes, [Operation::Pull]);
}

#[tokio::test(start_paused = true)]
async fn an_emulated_delegate_gets_the_image_for_its_own_platform() {
    let host = Host::new();
    let emulated = |reference| {
        let mut image = host.twin.image(good());
        image.architecture = "arm64".to_owned();
        (reference, image)
    };
    let (reference, image) = emulated(OLD);
    host.twin.add_image(reference, image);
    let (reference, image) = emulated(NEW);
    host.twin.publish(reference, image);
    host.run("dd");
    let report = host.once(NEW).await;
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on("dd", NEW, "");
    let pulls = host.twin.calls();
    let pulls: Vec<_> = pulls
        .iter()
        .filter(|call| call.operation == Operation::Pull)
        .map(|call| call.detail.as_str())
        .collect();
    assert_eq!(pulls, ["linux/arm64"]);
}
