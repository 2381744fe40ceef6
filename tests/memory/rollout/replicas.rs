//! Several containers of one `DELEGATE_NAME` are replaced one at a time, and the first is the canary.

use std::time::Duration;

use delegate_upgrader::config::UpdateOrder;
use delegate_upgrader::engine::Storage;
use delegate_upgrader::reconcile::controller::Controller as _;

use serde_json::json;

use super::host::{DRAIN, HOUR, Host, NEW, NEWER, OLD, good, host_network, image, row};
use kit::twin::{Behaviour, Happened, Operation};

#[tokio::test(start_paused = true)]
async fn does_not_try_an_image_that_another_replica_has_in_quarantine() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.publish(NEWER, good());
    for name in ["bb", "cc"] {
        host.run(name);
    }
    host.once(NEW).await;
    host.run("aa");
    tokio::time::sleep(HOUR / 4).await;
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "bb").reason.as_str(), "quarantined");
    assert_eq!(row(&report, "aa").reason.as_str(), "halted");
    assert_eq!(row(&report, "cc").reason.as_str(), "halted");
    assert_eq!(host.count(Operation::Create), 1);
    let report = host.once(NEWER).await;
    assert!(!report.has_failures(), "{report:?}");
    assert_eq!(host.names(), ["aa", "bb", "cc"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_pull_is_tried_once_for_all_replicas() {
    let host = Host::new();
    host.twin.break_pull(NEW, Some("manifest unknown"));
    for name in ["aa", "bb", "cc"] {
        host.run(name);
    }
    let report = host.once(NEW).await;
    for name in ["aa", "bb", "cc"] {
        assert_eq!(row(&report, name).reason.as_str(), "pull_failed");
        assert_eq!(host.find(name).image, OLD);
    }
    assert_eq!(host.count(Operation::Pull), 1);
}

/// While a replica is between two containers, its old container counts as a delegate like one in service.
#[tokio::test(start_paused = true)]
async fn keeps_the_previous_image_of_a_replica_being_replaced() {
    const NEWEST: &str = "harness/delegate:26.05.1";
    let host = Host::new();
    let before = host.publish(NEW, Behaviour::drains(DRAIN));
    for image in [NEWER, NEWEST] {
        host.publish(image, Behaviour::drains(DRAIN));
    }
    host.run("aa");
    host.run_with("bb", host_network);
    for image in [NEW, NEWER, NEWEST] {
        host.once(image).await;
    }
    let (id, calls) = (before.as_str(), host.twin.calls());
    let asked = calls
        .iter()
        .position(|call| call.operation == Operation::RemoveImage && call.subject == id);
    let asked = calls[asked.expect("it is no longer needed")].at;
    let events = host.twin.events();
    let removed = events
        .iter()
        .rfind(|event| event.what == Happened::Removed)
        .unwrap();
    assert!(removed.name.starts_with("bb.draining"), "{removed:?}");
    assert!(
        asked > removed.at - Duration::from_secs(1),
        "{asked:?}, {removed:?}"
    );
}

/// A host with delegates of this many names, which have no tasks and this memory limit (0 means none).
fn of_many_names(delegates: usize, memory: u64) -> (Host, Vec<String>) {
    let mut host = Host::new();
    host.twin.set_behaviour(OLD, &Behaviour::default());
    let names: Vec<String> = (1..=delegates).map(|n| format!("dd-{n:02}")).collect();
    host.manage(&names);
    for name in &names {
        host.run_with(name, |body| {
            body["Env"] = json!([format!("DELEGATE_NAME={name}")]);
            body["HostConfig"]["Memory"] = json!(memory);
        });
    }
    (host, names)
}

/// The most candidates that are up at once while all of these are replaced, and the total time.
async fn side_by_side((host, names): (Host, Vec<String>)) -> (usize, Duration) {
    let begun = host.twin.elapsed();
    let report = host.once(NEW).await;
    assert!(!report.has_failures(), "{report:?}");
    let took = host.twin.elapsed() - begun;
    for name in &names {
        assert_eq!(host.find(name).image, NEW);
    }
    let (mut up, mut most) = (0, 0);
    for event in host.twin.events().iter() {
        match &event.what {
            Happened::Started if event.name.ends_with(".candidate") => up += 1,
            Happened::Renamed { from } if from.ends_with(".candidate") => up -= 1,
            _ => {}
        }
        most = most.max(up);
    }
    assert_eq!(host.fewest_working(), names.len());
    (most, took)
}

/// The old ones have no tasks, so only the proof takes time.
#[tokio::test(start_paused = true)]
async fn replaces_at_most_ten_delegates_at_once() {
    let (_, alone) = side_by_side(of_many_names(1, 0)).await;
    let (most, together) = side_by_side(of_many_names(10, 0)).await;
    assert_eq!(most, 10);
    assert!(together < alone + alone / 4, "{together:?} against {alone:?}");
    let (most, in_turn) = side_by_side(of_many_names(12, 0)).await;
    assert_eq!(most, 10);
    assert!(in_turn > alone + alone / 2, "{in_turn:?} against {alone:?}");
}

/// Each would fit alone. In LXC and in a virtual machine, /proc/meminfo belongs to a larger machine; of a remote engine,
/// only its own figure is known. The containers use 64 MiB each.
#[tokio::test(start_paused = true)]
async fn candidates_that_do_not_fit_together_wait_their_turn() {
    const GIB: u64 = 1 << 30;
    for (here, engine) in [(Some(7), None), (Some(120), Some(8)), (None, Some(8))] {
        let (mut host, names) = of_many_names(3, 2 * GIB);
        host.free_memory = here.map(|halves| halves * GIB / 2);
        let mut storage = Storage::new("/var/lib/docker", "overlay2", &[]);
        storage.memory = engine.map(|halves| halves * GIB / 2);
        host.twin.set_storage(storage);
        assert_eq!(side_by_side((host, names)).await.0, 1, "{here:?} {engine:?}");
    }
    // In addition to the old one's usage, 4 GiB are not free.
    let (host, _) = of_many_names(1, 4 * GIB);
    let mut storage = Storage::new("/var/lib/docker", "overlay2", &[]);
    storage.memory = Some(4 * GIB);
    host.twin.set_storage(storage);
    assert!(!host.once(NEW).await.has_failures());
    assert_eq!(host.fewest_working(), 0, "stop-first");
}

/// An operator who rolls back does not wait for the upgrade of others.
#[tokio::test(start_paused = true)]
async fn a_rollback_does_not_wait_for_others() {
    let (mut host, names) = of_many_names(11, 0);
    let (goes_back, others) = names.split_first().unwrap();
    for name in others {
        host.manager.published_to.insert(name.clone(), image(OLD));
    }
    host.once(NEW).await;
    assert_eq!(host.find(goes_back).image, NEW);
    host.manager.published_to.clear();
    let mut upgrader = host.starting(NEW);
    host.continue_for(&mut upgrader, Duration::from_secs(4)).await;
    let proving = host
        .names()
        .iter()
        .filter(|name| name.ends_with(".candidate"))
        .count();
    assert_eq!(proving, 10);
    let report = host.finish(&mut host.rollback(NEW, goes_back).await).await;
    assert_eq!(host.find(goes_back).image, OLD, "{report:?}");
}

/// The times at which calls of a kind were made.
fn times(host: &Host, operation: Operation) -> Vec<Duration> {
    let calls = host.twin.calls();
    let calls = calls.iter().filter(|call| call.operation == operation);
    calls.map(|call| call.at).collect()
}

/// The twin takes two seconds for a pull.
#[tokio::test(start_paused = true)]
async fn pulls_at_most_ten_images_at_once() {
    let (mut host, names) = of_many_names(12, 0);
    for (name, build) in names.iter().zip(1..) {
        let published = format!("harness/delegate:26.03.{build}");
        host.publish(&published, good());
        host.manager.published_to.insert(name.clone(), image(&published));
    }
    let report = host.once(NEW).await;
    assert!(!report.has_failures(), "{report:?}");
    for (name, image) in &host.manager.published_to {
        assert_eq!(host.find(name).image, image.to_string());
    }
    let pulls = times(&host, Operation::Pull);
    assert_eq!(pulls.len(), 12, "{pulls:?}");
    let second = Duration::from_secs(1);
    assert!(pulls[9] - pulls[0] < second, "{pulls:?}");
    assert!(pulls[10] - pulls[0] >= 2 * second, "{pulls:?}");
}

/// A real engine takes a second for each sample.
#[tokio::test(start_paused = true)]
async fn samples_the_memory_of_ten_delegates_at_once() {
    let (mut host, _) = of_many_names(10, 0);
    host.free_memory = Some(u64::MAX);
    host.once(NEW).await;
    let samples = times(&host, Operation::MemoryUsage);
    let creates = times(&host, Operation::Create);
    assert_eq!(samples.len(), 10, "{samples:?}");
    assert_eq!(samples[0], samples[9], "{samples:?}");
    assert!(creates[0] > samples[9] && creates.len() == 10, "{creates:?}");
}

/// The memory figures of one delegate are kept while another one's are sampled.
#[tokio::test(start_paused = true)]
async fn samples_memory_once_for_each_delegate_that_cannot_be_replaced() {
    let mut host = Host::new();
    host.settings.policy.update_order = UpdateOrder::StartFirst;
    host.free_memory = Some(1024);
    for number in 0..10 {
        host.run(&format!("dd-{number}"));
    }
    let mut upgrader = host.upgrader(NEW);
    host.scheduled_run(&mut upgrader).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (calls, writes) = (host.twin.calls().len(), host.twin.writes().len());
    let report = upgrader.reconcile().await.unwrap();
    for delegate in &report.delegates {
        assert_eq!(delegate.reason.as_str(), "cannot_start_first");
    }
    let calls = host.twin.calls().len() - calls;
    assert!(calls < 500, "{calls} calls");
    assert_eq!(host.twin.writes().len(), writes);
}
