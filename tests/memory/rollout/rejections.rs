//! Knowledge about a bad image survives a prune, a rollback, and time in which no upgrader looked.

use std::time::Duration;

use delegate_upgrader::container::{ImageId, Request};
use kit::twin::{Behaviour, Fault, Happened, Operation, OperatorAction};

use super::bad_images::attempts;
use super::faults::Way;
use super::host::{HOUR, Host, NEW, NEWER, OLD, READY, good, row};

const SECOND: Duration = Duration::from_secs(1);

/// A run of a new process, after which a cron job prunes stopped containers. Returns the delegate's reason.
async fn run_and_prune(host: &Host, published: &str) -> String {
    let reason = host.reason(published).await.to_owned();
    host.twin.by_hand(OperatorAction::PruneContainers).unwrap();
    reason
}

/// A host whose delegate rejected an image that is never healthy.
async fn rejected(way: Way) -> (Host, ImageId) {
    let host = way.host();
    let bad = host.publish(NEW, Behaviour::never_healthy());
    assert_eq!(run_and_prune(&host, NEW).await, "rejected");
    assert_eq!(host.names(), ["dd"]);
    (host, bad)
}

#[tokio::test(start_paused = true)]
async fn a_bad_image_with_pruned_evidence_is_tried_once_per_quarantine() {
    for way in Way::ALL {
        let (host, bad) = rejected(way).await;
        for _ in 0..20 {
            assert_eq!(run_and_prune(&host, NEW).await, "quarantined", "{way:?}");
            tokio::time::sleep(SECOND * 10).await;
        }
        tokio::time::sleep(HOUR).await;
        assert_eq!(run_and_prune(&host, NEW).await, "rejected", "{way:?}");
        // The second quarantine is twice as long as the first.
        tokio::time::sleep(HOUR * 3 / 2).await;
        assert_eq!(run_and_prune(&host, NEW).await, "quarantined", "{way:?}");
        assert_eq!(attempts(&host, &bad), 2, "{way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn recorded_rejection_is_lifted_by_retry_and_by_another_image() {
    let (host, _) = rejected(Way::StartFirst).await;
    host.publish(NEWER, good());
    assert_eq!(run_and_prune(&host, NEWER).await, "up_to_date");
    // A later success shows that the host was not at fault, and that the same attempt will not come next.
    host.twin.set_behaviour(NEW, &good());
    assert_eq!(run_and_prune(&host, NEW).await, "up_to_date");
    let (host, _) = rejected(Way::StopFirst).await;
    host.twin.set_behaviour(NEW, &good());
    let mut upgrader = host.upgrader(NEW);
    upgrader.retry("dd", Request::default()).await.unwrap();
    let report = host.finish(&mut upgrader).await;
    assert_eq!(row(&report, "dd").image, NEW);
}

/// The old container does not need the record: it comes back as fast as without one.
#[tokio::test(start_paused = true)]
async fn an_unwritable_record_delays_nothing() {
    for fault in [Fault::Refuse(403), Fault::Refuse(500), Fault::Hang, Fault::None] {
        let host = Way::StopFirst.host();
        let old = host.find("dd").id;
        host.publish(NEW, Behaviour::exits(SECOND, 3));
        host.fault(Operation::CreateVolume, fault.clone());
        assert_eq!(host.reason(NEW).await, "rejected", "{fault:?}");
        let events = host.events_of(&old);
        let ended = events
            .iter()
            .find(|event| matches!(event.what, Happened::Exited { .. }));
        let back = events.iter().rfind(|event| event.what == Happened::Started);
        let away = back.unwrap().at.saturating_sub(ended.unwrap().at);
        assert!(away < SECOND * 45, "{fault:?}: {away:?}");
        // The failed container still shows the rejection.
        assert_eq!(host.reason(NEW).await, "quarantined", "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rollback_leaves_the_published_image_in_quarantine() {
    for can_record in [true, false] {
        let host = Host::new();
        host.run("dd");
        host.upgrade(NEW).await;
        if !can_record {
            host.fault(Operation::CreateVolume, Fault::Refuse(403));
        }
        let bad = host.publish(NEWER, Behaviour::never_healthy());
        assert_eq!(host.reason(NEWER).await, "rejected");
        let report = host.finish(&mut host.rollback(NEWER, "dd").await).await;
        assert_eq!(row(&report, "dd").image, OLD);
        assert_eq!(host.reason(NEWER).await, "quarantined", "records: {can_record}");
        assert_eq!(attempts(&host, &bad), 1);
    }
}

/// A backup stops the upgrader's process for a while in the middle of a proof, as `docker pause` and SIGSTOP do.
#[tokio::test(start_paused = true)]
async fn unobserved_time_does_not_count_against_a_candidate() {
    for away in [60, 100, 130, 3600] {
        let host = Host::new();
        host.run("dd");
        // The candidate needs nearly its whole deadline.
        let slow = crate::settings::settings().policy.healthy_deadline - READY - SECOND * 15;
        host.publish(NEW, good().ready_in(slow + SECOND * away));
        let mut upgrader = host.starting(NEW);
        assert!(host.continue_for(&mut upgrader, SECOND * 10).await.is_none());
        tokio::time::sleep(SECOND * away).await;
        let report = host.finish(&mut upgrader).await;
        assert_eq!(row(&report, "dd").image, NEW, "away for {away}s: {report:?}");
    }
}
