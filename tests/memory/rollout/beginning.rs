//! When a replacement begins: windows, and the labels of owners.

use std::time::Duration;

use delegate_upgrader::config::Timing;
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use delegate_upgrader::schedule::window::UpgradeWindow;
use delegate_upgrader::schedule::zone::Zone;
use serde_json::json;

use super::host::{Host, NEW, OLD, row};

/// The host's clock begins on 2026-01-01 at 00:00, a Thursday.
fn with_window(text: &str) -> Host {
    let window = UpgradeWindow::parse(text, Zone::utc()).unwrap();
    let timing = Timing {
        window: Some(window),
        ..Timing::default()
    };
    Host {
        timing,
        ..Host::new()
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_run_found_due_begins_when_the_window_opens() {
    let host = with_window("Thu 02:00-03:00");
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    let report = host.scheduled_run(&mut upgrader).await;
    let waits = row(&report, "dd");
    assert_eq!(waits.reason.as_str(), "outside_window");
    assert_eq!(waits.until, Some("2026-01-01T02:00:00Z".parse().unwrap()));
    assert!(!report.has_failures() && report.has_succeeded());
    assert_eq!(host.twin.writes(), [], "nothing is pulled before");

    // No other run comes: the daemon looks at the health of its delegates.
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    let report = host.finish(&mut upgrader).await;
    assert_eq!(row(&report, "dd").image, NEW);
}

#[tokio::test(start_paused = true)]
async fn what_was_begun_is_finished_when_the_window_closes() {
    // The new one proves itself for ten seconds, and the old one drains for 20.
    let host = with_window("00:00-00:01");
    let (first, second) = (host.run("d1"), host.run("d2"));
    tokio::time::sleep(Duration::from_secs(55)).await;
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "d1").image, NEW);
    // The next replica had not begun.
    assert_eq!(row(&report, "d2").image, OLD);
    assert_eq!(row(&report, "d2").reason.as_str(), "outside_window");
    assert!(host.twin.glance().iter().all(|container| container.id != first));
    assert!(host.twin.glance().iter().any(|container| container.id == second));
}

#[tokio::test(start_paused = true)]
async fn an_operator_does_not_wait_for_the_window() {
    let host = with_window("02:00-03:00");
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    upgrader.retry("dd").await.unwrap();
    assert_eq!(row(&host.finish(&mut upgrader).await, "dd").image, NEW);
    upgrader.rollback("dd").await.unwrap();
    assert_eq!(row(&host.finish(&mut upgrader).await, "dd").image, OLD);
}

#[tokio::test(start_paused = true)]
async fn the_labels_of_an_owner_hold_a_delegate_back() {
    let host = Host::new();
    let labels = [
        ("pinned", "pin", "26.01"),
        ("snoozed", "snooze-until", "2026-01-02"),
        ("outside_window", "window", "Fri 02:00-03:00"),
        ("invalid_label", "pin", "newest"),
        ("invalid_label", "snooze-until", "2026-02-30"),
        ("invalid_label", "window", "at night"),
        // What permits it, and what says nothing.
        ("up_to_date", "pin", "26.03"),
        ("up_to_date", "snooze-until", "2025-12-31T23:59:59Z"),
        ("up_to_date", "window", "Thu 00:00-24:00"),
        ("up_to_date", "pin", " "),
    ];
    for (number, (_, label, value)) in labels.iter().enumerate() {
        host.run_with(&format!("d{number}"), |body| {
            body["Labels"] = json!({ format!("io.delegate-upgrader.{label}"): value });
        });
    }
    let report = host.once(NEW).await;
    for (number, (reason, label, value)) in labels.iter().enumerate() {
        let row = row(&report, &format!("d{number}"));
        assert_eq!(row.reason.as_str(), *reason, "{label}={value}: {}", row.message);
        if *reason == "invalid_label" {
            let named = format!("the label io.delegate-upgrader.{label}={value} is not ");
            assert!(row.failed && row.message.contains(&named), "{}", row.message);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_shows_what_would_wait_and_until_when() {
    let host = with_window("02:00-03:00");
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    let plan = upgrader.plan(|_| ()).await.unwrap();
    assert_eq!(plan[0].action, "leave");
    assert_eq!(plan[0].until, Some("2026-01-01T02:00:00Z".parse().unwrap()));
    upgrader.start_run(Mode::ReportOnly);
    let report = host.finish(&mut upgrader).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "awaiting_schedule");
}
