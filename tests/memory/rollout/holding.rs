//! The engine remembers two facts that hold replacements back: a pause, and the time when an image was first seen.

use std::time::Duration;

use chrono::TimeDelta;
use delegate_upgrader::config::Timing;
use delegate_upgrader::container::Request;
use delegate_upgrader::host::hold::{pause, resume};
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::Intent;
use delegate_upgrader::rollout::reason::ReasonKind;
use kit::twin::{Fault, Operation};

use super::host::{HOUR, Host, NEW, OLD, Upgrader, row};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A host with one delegate.
fn with(timing: Timing) -> Host {
    let mut host = Host::new();
    host.settings.policy.timing = timing;
    host.run("dd");
    host
}

fn delay(delay: Duration) -> Timing {
    Timing {
        delay,
        ..Timing::default()
    }
}

/// A host with one delegate that is paused indefinitely.
async fn paused() -> Host {
    let host = with(Timing::default());
    host.pause(None).await;
    host
}

#[tokio::test(start_paused = true)]
async fn pause_survives_the_upgrader_and_expires() {
    let host = with(Timing::default());
    let now = host.twin.wall_clock();
    let until = now + TimeDelta::hours(3);
    pause(&host.twin, None, now, Some(until), &Request::default())
        .await
        .unwrap();
    for _ in 0..2 {
        // Each run is another process.
        let report = host.once(NEW).await;
        let waits = row(&report, "dd");
        assert_eq!((waits.reason.as_str(), waits.until), ("paused", Some(until)));
        assert!(!report.has_failures() && report.has_succeeded());
    }
    assert_eq!(host.count(Operation::Pull), 0, "nothing is pulled before");
    let mut upgrader = host.upgrader(NEW);
    host.scheduled_run(&mut upgrader).await;
    tokio::time::sleep(3 * HOUR).await;
    // No other run comes: the daemon only checks the health of its delegates.
    assert_eq!(row(&host.finish(&mut upgrader).await, "dd").image, NEW);
}

#[tokio::test(start_paused = true)]
async fn knows_of_a_pause_while_no_image_waits() {
    let host = paused().await;
    let mut upgrader = host.upgrader(OLD).watching();
    host.scheduled_run(&mut upgrader).await;
    assert_eq!(upgrader.core().ledger.pauses.len(), 1);
    resume(&host.twin, None, host.twin.wall_clock(), &Request::default())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    host.finish(&mut upgrader).await;
    assert!(upgrader.core().ledger.pauses.is_empty());
}

/// The host is paused when the first candidate is there.
#[tokio::test(start_paused = true)]
async fn finishes_replacements_started_before_a_pause() {
    let host = with(Timing::default());
    host.run("ee");
    let twin = host.twin.clone();
    let mut is_paused = false;
    host.twin.set_faults(move |call| {
        if call.operation == Operation::Start && !is_paused {
            is_paused = true;
            let twin = twin.clone();
            tokio::spawn(
                async move { pause(&twin, None, twin.wall_clock(), None, &Request::default()).await },
            );
        }
        Fault::None
    });
    let report = host.once(NEW).await;
    let reasons = ["dd", "ee"].map(|name| row(&report, name).reason.as_str());
    assert_eq!(reasons, ["up_to_date", "paused"]);
}

#[tokio::test(start_paused = true)]
async fn wave_reads_host_identity_once() {
    let wave = "1%".parse().ok();
    let host = with(Timing {
        wave,
        ..Timing::default()
    });
    let mut upgrader = host.upgrader(NEW);
    let report = host.scheduled_run(&mut upgrader).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "awaiting_wave");
    host.finish(&mut upgrader).await;
    assert_eq!(host.count(Operation::Identity), 1);
    tokio::time::sleep(100 * DAY).await;
    assert_eq!(row(&host.finish(&mut upgrader).await, "dd").image, NEW);
}

#[tokio::test(start_paused = true)]
async fn ignores_pause_and_delay_that_a_proxy_refuses() {
    for timing in [Timing::default(), delay(DAY)] {
        let host = with(timing.clone());
        host.twin.set_faults(|call| match call.operation {
            Operation::Volumes | Operation::CreateVolume | Operation::RemoveVolume => Fault::Refuse(403),
            _ => Fault::None,
        });
        let report = host.once(NEW).await;
        let dd = row(&report, "dd");
        let reason = if timing.delay.is_zero() {
            "up_to_date"
        } else {
            "first_seen_unknown"
        };
        assert_eq!(dd.reason.as_str(), reason, "{}", dd.message);
        assert_eq!(dd.failed && dd.message.contains("403"), !timing.delay.is_zero());
    }
}

#[tokio::test(start_paused = true)]
async fn reads_the_engines_records_at_startup_and_on_changes() {
    let host = with(Timing::default());
    host.once(OLD).await;
    assert_eq!(host.count(Operation::Volumes), 0, "nothing is to be held back");
    let mut upgrader = host.upgrader(NEW).watching();
    upgrader.start_run(Intent::Report);
    host.finish(&mut upgrader).await;
    for _ in 0..3 {
        tokio::time::sleep(HOUR / 2).await;
        upgrader.reconcile().await.unwrap();
    }
    assert_eq!(host.count(Operation::Volumes), 1);
    host.pause(None).await;
    let calls = host.count(Operation::Volumes);
    upgrader.answered().await;
    upgrader.reconcile().await.unwrap();
    assert_eq!(host.count(Operation::Volumes), calls + 1);
}

/// The commands come from another process, and show within two seconds.
#[tokio::test(start_paused = true)]
async fn a_pause_and_its_end_are_seen_at_once() {
    let host = with(Timing::default());
    let mut upgrader = host.upgrader(NEW).watching();
    upgrader.start_run(Intent::Report);
    host.finish(&mut upgrader).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let seen = async |upgrader: &mut Upgrader| {
        let begun = host.twin.elapsed();
        upgrader.answered().await;
        let report = upgrader.reconcile().await.unwrap();
        assert!(host.twin.elapsed() - begun < Duration::from_secs(2));
        row(&report, "dd").reason.as_str()
    };
    let now = host.twin.wall_clock();
    host.pause(Some("dd")).await;
    assert_eq!(seen(&mut upgrader).await, "paused");
    resume(&host.twin, Some("dd"), now, &Request::default())
        .await
        .unwrap();
    assert_eq!(seen(&mut upgrader).await, "awaiting_schedule");
}

#[tokio::test(start_paused = true)]
async fn a_plan_shows_what_blocks_a_replacement_and_records_nothing() {
    for (host, reason) in [(with(delay(DAY)), "delayed"), (paused().await, "paused")] {
        let writes = host.twin.writes().len();
        let plan = host.upgrader(NEW).plan(|_| ()).await.unwrap();
        let planned = (plan[0].action, plan[0].reason.map(ReasonKind::as_str));
        assert_eq!(planned, ("leave", Some(reason)));
        assert_eq!(host.twin.writes().len(), writes);
    }
    let host = with(Timing::default());
    host.fault(Operation::InspectImage, Fault::Slow(Duration::from_secs(1)));
    let plan = host.upgrader(NEW).plan(|_| ()).await.unwrap();
    assert_eq!(plan[0].action, "replace", "{:?}", plan[0].message);
}

/// A failed list says nothing about a pause, so the engine is asked again.
#[tokio::test(start_paused = true)]
async fn an_engine_that_fails_to_list_its_volumes_does_not_end_a_pause() {
    let host = paused().await;
    let mut failures = 3;
    host.twin.set_faults(move |call| {
        if call.operation == Operation::Volumes && failures > 0 {
            failures -= 1;
            return Fault::Refuse(500);
        }
        Fault::None
    });
    assert_eq!(host.reason(NEW).await, "paused");
    let calls = host.count(Operation::Volumes);
    assert_eq!(calls, 5, "by pause, three in vain, and once more");
    assert_eq!(host.count(Operation::Pull), 0);
}
