//! When a replacement begins: windows, and the labels of owners.

use std::time::Duration;

use delegate_upgrader::config::Timing;
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use delegate_upgrader::schedule::window::UpgradeWindow;
use delegate_upgrader::schedule::zone::Zone;
use delegate_upgrader::status::report::BlockerReport;

use super::host::{Host, NEW, row};

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

/// Before the first scheduled run, the daemon says the same as a plan, and that it waits for that run.
#[tokio::test(start_paused = true)]
async fn plan_shows_held_upgrades_and_the_daemon_the_same_beside_its_schedule() {
    let host = with_window("02:00-03:00");
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    let plan = upgrader.plan(|_| ()).await.unwrap();
    let opens = Some("2026-01-01T02:00:00Z".parse().unwrap());
    assert_eq!((plan[0].action, plan[0].until), ("leave", opens));
    let next_run = "2026-01-01T00:17:00Z".parse().ok();
    upgrader.start_run(Mode::ReportOnly);
    upgrader.set_next_run(next_run);
    let report = host.finish(&mut upgrader).await;
    let row = row(&report, "dd");
    assert_eq!((row.reason.as_str(), row.until), ("outside_window", opens));
    let listed = |blockers: &[BlockerReport]| {
        let listed = blockers
            .iter()
            .map(|blocker| (blocker.reason.as_str(), blocker.until));
        listed.collect::<Vec<_>>()
    };
    let mut expected = listed(&plan[0].blockers);
    expected.push(("awaiting_schedule", next_run));
    assert_eq!(listed(&row.blockers), expected);
}
