//! What the engine remembers holds replacements back: a pause, and when an image was first seen.

use std::time::Duration;

use chrono::TimeDelta;
use delegate_upgrader::config::Timing;
use delegate_upgrader::host::hold::{pause, resume};
use delegate_upgrader::rollout::reason::ReasonKind;
use kit::twin::{Fault, Operation};

use super::host::{HOUR, Host, NEW, NEWER, row};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn with(timing: Timing) -> Host {
    Host {
        timing,
        ..Host::new()
    }
}

fn delay(delay: Duration) -> Timing {
    Timing {
        delay,
        ..Timing::default()
    }
}

fn calls(host: &Host, operation: Operation) -> usize {
    let calls = host.twin.calls();
    calls.iter().filter(|call| call.operation == operation).count()
}

#[tokio::test(start_paused = true)]
async fn a_pause_outlasts_the_upgrader_and_ends_by_itself() {
    let host = Host::new();
    host.run("dd");
    let now = host.twin.wall_clock();
    pause(&host.twin, now, Some(now + TimeDelta::hours(3)))
        .await
        .unwrap();
    for _ in 0..2 {
        // Another process each time.
        let report = host.once(NEW).await;
        let waits = row(&report, "dd");
        assert_eq!(waits.reason.as_str(), "paused", "{}", waits.message);
        assert_eq!(waits.until, Some(now + TimeDelta::hours(3)));
        assert!(!report.has_failures() && report.has_succeeded());
    }
    assert_eq!(calls(&host, Operation::Pull), 0, "nothing is pulled before");
    let mut upgrader = host.upgrader(NEW);
    host.scheduled_run(&mut upgrader).await;
    tokio::time::sleep(3 * HOUR).await;
    // No other run comes: the daemon looks at the health of its delegates.
    assert_eq!(row(&host.finish(&mut upgrader).await, "dd").image, NEW);
}

#[tokio::test(start_paused = true)]
async fn a_pause_without_an_end_lasts_until_it_is_ended() {
    let host = Host::new();
    host.run("dd");
    pause(&host.twin, host.twin.wall_clock(), None).await.unwrap();
    tokio::time::sleep(100 * DAY).await;
    assert_eq!(row(&host.once(NEW).await, "dd").reason.as_str(), "paused");
    assert!(resume(&host.twin).await.unwrap());
    assert_eq!(row(&host.once(NEW).await, "dd").image, NEW);
}

/// What was read at the check before says nothing any more.
#[tokio::test(start_paused = true)]
async fn the_first_check_after_the_end_of_a_pause_goes_on() {
    let host = Host::new();
    host.run("dd");
    pause(&host.twin, host.twin.wall_clock(), None).await.unwrap();
    let mut upgrader = host.upgrader(NEW);
    host.scheduled_run(&mut upgrader).await;
    assert!(resume(&host.twin).await.unwrap());
    tokio::time::sleep(Duration::from_secs(60)).await;
    let report = upgrader.reconcile().await.unwrap();
    assert_eq!(row(&report, "dd").reason.as_str(), "pulling");
}

#[tokio::test(start_paused = true)]
async fn what_was_begun_before_a_pause_is_finished() {
    let host = Host::new();
    host.run("dd");
    host.run("ee");
    let twin = host.twin.clone();
    let mut is_paused = false;
    // Somebody pauses the host when the first candidate is there.
    host.twin.set_faults(move |call| {
        if call.operation == Operation::Start && !is_paused {
            is_paused = true;
            let twin = twin.clone();
            tokio::spawn(async move { pause(&twin, twin.wall_clock(), None).await });
        }
        Fault::None
    });
    let report = host.once(NEW).await;
    let reasons: Vec<&str> = ["dd", "ee"]
        .map(|name| row(&report, name).reason.as_str())
        .to_vec();
    assert_eq!(reasons, ["up_to_date", "paused"]);
}

#[tokio::test(start_paused = true)]
async fn an_image_is_taken_once_this_host_has_known_of_it_for_the_delay() {
    let host = with(delay(3 * DAY));
    host.run("dd");
    host.run("ee");
    let begun = host.twin.wall_clock();
    let report = host.once(NEW).await;
    for name in ["dd", "ee"] {
        let waits = row(&report, name);
        assert_eq!(waits.reason.as_str(), "delayed", "{}", waits.message);
        let until = waits.until.expect("it ends by itself");
        assert!(
            (until - begun - TimeDelta::days(3)).abs() < TimeDelta::minutes(1),
            "{until}"
        );
    }
    assert_eq!(calls(&host, Operation::CreateVolume), 1, "noted once for both");
    assert_eq!(calls(&host, Operation::Pull), 0);
    // Another process does not begin the time anew.
    tokio::time::sleep(2 * DAY).await;
    assert_eq!(row(&host.once(NEW).await, "dd").reason.as_str(), "delayed");
    // Another image has a time of its own.
    assert_eq!(row(&host.once(NEWER).await, "dd").reason.as_str(), "delayed");
    tokio::time::sleep(DAY).await;
    assert_eq!(row(&host.once(NEWER).await, "dd").reason.as_str(), "delayed");
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "dd").image, NEW);
    assert_eq!(row(&report, "ee").image, NEW);
}

#[tokio::test(start_paused = true)]
async fn a_wave_uses_what_tells_the_host_apart_and_asks_for_it_once() {
    let host = with(Timing {
        wave: "1%".parse().ok(),
        ..Timing::default()
    });
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    let report = host.scheduled_run(&mut upgrader).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "awaiting_wave");
    host.finish(&mut upgrader).await;
    assert_eq!(calls(&host, Operation::Identity), 1);
    tokio::time::sleep(100 * DAY).await;
    assert_eq!(row(&host.finish(&mut upgrader).await, "dd").image, NEW);
}

#[tokio::test(start_paused = true)]
async fn where_a_proxy_refuses_it_nothing_is_paused_and_no_delay_is_kept() {
    let refuses = |host: &Host| {
        host.twin.set_faults(|call| match call.operation {
            Operation::Volumes | Operation::CreateVolume | Operation::RemoveVolume => Fault::Refuse(403),
            _ => Fault::None,
        });
    };
    let host = Host::new();
    host.run("dd");
    refuses(&host);
    assert_eq!(row(&host.once(NEW).await, "dd").image, NEW);
    let host = with(delay(DAY));
    host.run("dd");
    refuses(&host);
    let report = host.once(NEW).await;
    let failed = row(&report, "dd");
    assert_eq!(failed.reason.as_str(), "first_seen_unknown", "{}", failed.message);
    assert!(
        failed.failed && failed.message.contains("403"),
        "{}",
        failed.message
    );
}

/// A host that is current asks for nothing of this.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_is_up_to_date_costs_no_call() {
    let host = with(delay(DAY));
    host.run("dd");
    host.once(super::host::OLD).await;
    assert_eq!(calls(&host, Operation::Volumes), 0);
}

#[tokio::test(start_paused = true)]
async fn a_plan_shows_what_holds_it_back_and_notes_nothing() {
    let host = with(delay(DAY));
    host.run("dd");
    let plan = host.upgrader(NEW).plan(|_| ()).await.unwrap();
    assert_eq!(
        (plan[0].action, plan[0].reason.map(ReasonKind::as_str)),
        ("leave", Some("delayed"))
    );
    assert_eq!(host.twin.writes(), []);
    let host = Host::new();
    host.run("dd");
    pause(&host.twin, host.twin.wall_clock(), None).await.unwrap();
    let plan = host.upgrader(NEW).plan(|_| ()).await.unwrap();
    assert_eq!(
        (plan[0].action, plan[0].reason.map(ReasonKind::as_str)),
        ("leave", Some("paused"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_made_however_long_the_engine_takes() {
    let host = Host::new();
    host.run("dd");
    host.twin.set_faults(|call| match call.operation {
        Operation::InspectImage => Fault::Slow(Duration::from_secs(1)),
        _ => Fault::None,
    });
    let plan = host.upgrader(NEW).plan(|_| ()).await.unwrap();
    assert_eq!(plan[0].action, "replace", "{:?}", plan[0].message);
}

/// An engine that fails says nothing of a pause, so that is asked again.
#[tokio::test(start_paused = true)]
async fn an_engine_that_fails_to_list_its_volumes_does_not_end_a_pause() {
    let host = Host::new();
    host.run("dd");
    pause(&host.twin, host.twin.wall_clock(), None).await.unwrap();
    let mut failures = 3;
    host.twin.set_faults(move |call| {
        if call.operation == Operation::Volumes && failures > 0 {
            failures -= 1;
            return Fault::Refuse(500);
        }
        Fault::None
    });
    assert_eq!(row(&host.once(NEW).await, "dd").reason.as_str(), "paused");
    assert_eq!(
        calls(&host, Operation::Volumes),
        5,
        "by pause, three in vain, and once more"
    );
    assert_eq!(calls(&host, Operation::Pull), 0);
}
