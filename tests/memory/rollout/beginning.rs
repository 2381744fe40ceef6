//! When a replacement begins: windows, and the labels of owners.

use std::time::Duration;

use chrono::{DateTime, Utc};
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::{Blocker, Intent};
use delegate_upgrader::schedule::window::UpgradeWindow;
use delegate_upgrader::schedule::zone::Zone;

use super::host::{Host, NEW, OLD, row};
use kit::twin::Behaviour;

/// The host's clock starts on 2026-01-01 at 00:00, a Thursday.
fn with_window(text: &str) -> Host {
    let window = UpgradeWindow::parse(text, Zone::utc()).unwrap();
    let mut host = Host::new();
    host.settings.policy.timing.window = Some(window);
    host
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_found_due_starts_when_the_window_opens() {
    let host = with_window("Thu 02:00-03:00");
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    let report = host.scheduled_run(&mut upgrader).await;
    let waits = row(&report, "dd");
    assert_eq!(waits.reason.as_str(), "outside_window");
    assert_eq!(waits.until, Some("2026-01-01T02:00:00Z".parse().unwrap()));
    assert!(!report.has_failures() && report.has_succeeded());
    assert_eq!(host.twin.writes(), [], "nothing is pulled before");

    // No other run comes: the daemon only checks the health of its delegates.
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    let report = host.finish(&mut upgrader).await;
    assert_eq!(row(&report, "dd").image, NEW);
}

/// The words of a list, except the schedule's, which a plan does not have.
fn listed(blockers: &[Blocker]) -> Vec<(&'static str, Option<DateTime<Utc>>)> {
    let all = blockers
        .iter()
        .map(|blocker| (blocker.reason.kind().as_str(), blocker.until));
    all.filter(|(word, _)| *word != "awaiting_schedule").collect()
}

/// A plan, a daemon before its first scheduled run and a run say the same words of each delegate, in the same order.
async fn agree(host: &Host, expected: &[(&str, &[&str])]) {
    let plan = host.upgrader(NEW).plan(|_| ()).await.unwrap();
    let mut daemon = host.upgrader(NEW);
    daemon.start_run(Intent::Report);
    let report = host.finish(&mut daemon).await;
    for (name, words) in expected {
        let planned = plan.iter().find(|planned| planned.container == *name).unwrap();
        let row = row(&report, name);
        let found: Vec<_> = listed(&planned.blockers).iter().map(|(word, _)| *word).collect();
        assert_eq!((planned.action, found), ("leave", words.to_vec()), "{name}");
        assert_eq!(listed(&row.blockers), listed(&planned.blockers), "{name}");
        assert_eq!(row.reason.as_str(), words[0], "{name}");
        assert_eq!(row.failed, planned.failed, "{name}");
    }
    let writes = host.twin.writes().len();
    let report = host.once(NEW).await;
    for (name, words) in expected {
        let found: Vec<_> = listed(&row(&report, name).blockers)
            .iter()
            .map(|(word, _)| *word)
            .collect();
        assert_eq!(found, words.to_vec(), "{name}");
    }
    assert_eq!(host.twin.writes().len(), writes, "it starts nothing");
}

#[tokio::test(start_paused = true)]
async fn plan_daemon_and_run_give_all_reasons_in_the_same_order() {
    let host = with_window("Thu 02:00-03:00");
    host.run("dd");
    agree(&host, &[("dd", &["outside_window"])]).await;

    // The image failed on one replica, which halts the other; then a pause on top of a rejected image.
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    for name in ["aa", "bb"] {
        host.run(name);
    }
    host.once(NEW).await;
    agree(&host, &[("aa", &["quarantined"]), ("bb", &["halted"])]).await;
    host.pause(None).await;
    agree(
        &host,
        &[("aa", &["quarantined", "paused"]), ("bb", &["halted", "paused"])],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn plan_daemon_and_run_respect_an_operators_rollback() {
    let host = Host::new();
    host.run("dd");
    host.once(NEW).await;
    host.finish(&mut host.rollback(NEW, "dd").await).await;
    assert_eq!(host.find("dd").image, OLD);
    agree(&host, &[("dd", &["rolled_back"])]).await;
}

/// Before the first scheduled run, the daemon says the same as a plan, and that it waits for that run.
#[tokio::test(start_paused = true)]
async fn plan_and_daemon_show_the_same_held_upgrades() {
    let host = with_window("02:00-03:00");
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    let plan = upgrader.plan(|_| ()).await.unwrap();
    let opens = Some("2026-01-01T02:00:00Z".parse().unwrap());
    assert_eq!((plan[0].action, plan[0].until), ("leave", opens));
    let next_run = "2026-01-01T00:17:00Z".parse().ok();
    upgrader.start_run(Intent::Report);
    upgrader.core_mut().next_run = next_run;
    let report = host.finish(&mut upgrader).await;
    let row = row(&report, "dd");
    assert_eq!((row.reason.as_str(), row.until), ("outside_window", opens));
    assert_eq!(listed(&row.blockers), listed(&plan[0].blockers));
    let last = row
        .blockers
        .last()
        .map(|last| (last.reason.kind().as_str(), last.until));
    assert_eq!(last, Some(("awaiting_schedule", next_run)));
}
