//! Temporary failures are retried soon, and not only by the next run, which may be a day away.

use delegate_upgrader::config::UpdateOrder;
use delegate_upgrader::image::Pull;
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::Intent;

use super::health_restarts::{MINUTE, live};
use super::host::{GROUP, Host, NEW, Upgrader, good, row};
use kit::twin::{Operation, delegate_body};

const LATEST: &str = "harness/delegate:latest";
const PASSES: &str = "received unexpected HTTP status: 500 Internal Server Error";

fn started(host: &Host) -> Upgrader {
    host.run("dd");
    let mut upgrader = host.upgrader(NEW).with_retries();
    upgrader.start_run(Intent::Upgrade);
    upgrader
}

#[tokio::test(start_paused = true)]
async fn retries_a_failing_registry_five_times_at_growing_intervals() {
    let host = Host::new();
    host.twin.break_pull(NEW, Some(PASSES));
    let mut upgrader = started(&host);
    // The retries come after 1, 2, 5, 10 and 30 minutes.
    for (minutes, pulls) in [
        (0.5, 1),
        (1.0, 2),
        (1.0, 2),
        (1.0, 3),
        (4.0, 3),
        (1.0, 4),
        (10.0, 5),
        (30.0, 6),
        (90.0, 6),
    ] {
        let report = live(&host, &mut upgrader, MINUTE.mul_f64(minutes)).await;
        assert_eq!(host.count(Operation::Pull), pulls, "{minutes}");
        let row = row(&report, "dd");
        assert_eq!(row.reason.as_str(), "pull_failed");
        assert_eq!(
            row.message.contains("; retrying at 20"),
            pulls < 6,
            "{}",
            row.message
        );
    }
}

#[tokio::test(start_paused = true)]
async fn pulls_once_the_registry_recovers() {
    let host = Host::new();
    host.twin.break_pull(NEW, Some(PASSES));
    let mut upgrader = started(&host);
    live(&host, &mut upgrader, MINUTE * 2).await;
    host.twin.break_pull(NEW, None);
    let report = live(&host, &mut upgrader, MINUTE * 90).await;
    assert_eq!(row(&report, "dd").image, NEW, "{}", row(&report, "dd").message);
}

/// The registry may be away at the second run.
#[tokio::test(start_paused = true)]
async fn a_run_keeps_the_image_that_the_previous_run_pulled_but_did_not_use() {
    for (image, pulls, reason) in [(NEW, 1, "cannot_start_first"), (LATEST, 2, "pull_failed")] {
        let mut host = Host::new();
        host.publish(image, good());
        host.settings.policy.update_order = UpdateOrder::StartFirst;
        host.free_memory = Some(1024);
        host.run("dd");
        let mut upgrader = host.upgrader(image);
        host.scheduled_run(&mut upgrader).await;
        host.twin.break_pull(image, Some("toomanyrequests: slow down"));
        let report = host.scheduled_run(&mut upgrader).await;
        assert_eq!(host.count(Operation::Pull), pulls, "{image}");
        assert_eq!(row(&report, "dd").reason.as_str(), reason, "{image}");
    }
}

#[tokio::test(start_paused = true)]
async fn leaves_lasting_failure_to_the_next_run() {
    for problem in [
        "manifest unknown",
        "unauthorized: authentication required",
        "no space left on device",
    ] {
        let host = Host::new();
        host.twin.break_pull(NEW, Some(problem));
        let mut upgrader = started(&host);
        let report = live(&host, &mut upgrader, MINUTE * 90).await;
        assert_eq!(host.count(Operation::Pull), 1, "{problem}");
        assert!(!row(&report, "dd").message.contains("retrying at"));
    }
}

#[tokio::test(start_paused = true)]
async fn asks_a_recovered_manager_within_the_same_run() {
    let host = Host::new();
    host.twin.set_manager_reachable(false);
    let mut upgrader = started(&host);
    let report = live(&host, &mut upgrader, MINUTE.mul_f64(1.5)).await;
    let message = &row(&report, "dd").message;
    assert!(
        message.contains("connection refused") && message.contains("; retrying at 20"),
        "{message}"
    );
    host.twin.set_manager_reachable(true);
    let report = live(&host, &mut upgrader, MINUTE * 90).await;
    assert_eq!(row(&report, "dd").image, NEW);
}

/// A command for a single run exits as soon as that run ends.
#[tokio::test(start_paused = true)]
async fn a_single_run_does_not_wait() {
    let host = Host::new();
    host.twin.break_pull(NEW, Some(PASSES));
    host.run("dd");
    let report = host.once(NEW).await;
    assert!(
        !row(&report, "dd").message.contains("retrying"),
        "{}",
        row(&report, "dd").message
    );
}

/// A local image is as good as the registry's if its reference stands for a single image.
#[tokio::test(start_paused = true)]
async fn the_pull_policy_decides_if_a_local_image_is_enough() {
    const AWAY: &str = "Get \"https://r.example/v2/\": dial tcp: lookup r.example: no such host";
    for (policy, is_there, problem, pulls, reason) in [
        (Pull::Always, true, AWAY, 1, "up_to_date"),
        (Pull::Always, true, PASSES, 1, "pull_failed"),
        (Pull::Always, false, AWAY, 1, "pull_failed"),
        (Pull::Missing, true, AWAY, 0, "up_to_date"),
        (Pull::Missing, false, AWAY, 1, "pull_failed"),
        (Pull::Never, true, AWAY, 0, "up_to_date"),
        (Pull::Never, false, AWAY, 0, "pull_failed"),
    ] {
        let mut host = Host::new();
        host.settings.target.pull = policy;
        if is_there {
            host.twin.add_image(NEW, host.twin.image(good()));
        }
        host.twin.break_pull(NEW, Some(problem));
        host.run("dd");
        let report = host.once(NEW).await;
        let case = format!("{policy}, {is_there}, {problem}: {}", row(&report, "dd").message);
        assert_eq!(host.count(Operation::Pull), pulls, "{case}");
        assert_eq!(row(&report, "dd").reason.as_str(), reason, "{case}");
    }
}

/// If no registry is asked, an image that was loaded under a moving tag is the tag's image.
#[tokio::test(start_paused = true)]
async fn pull_policy_never_uses_the_image_loaded_under_a_tag() {
    for (policy, asked) in [(Pull::Never, 0), (Pull::Always, 1)] {
        let mut host = Host::new();
        host.settings.target.pull = policy;
        host.twin.add_image(LATEST, host.twin.image(good()));
        let delegate = host.twin.run("dd", &delegate_body(GROUP, LATEST));
        host.once(LATEST).await;
        assert_eq!(host.find("dd").id, delegate, "{policy}");
        host.twin.add_image(LATEST, host.twin.image(good()));
        let report = host.once(LATEST).await;
        let is_loaded = host.find("dd").id != delegate;
        assert_eq!(is_loaded, policy == Pull::Never, "{}", row(&report, "dd").message);
        assert_eq!(host.count(Operation::Distribution).min(1), asked, "{policy}");
    }
}
