//! Stop-first, a delegate is replaced at a moment when it has no task to finish.

use std::net::IpAddr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use delegate_upgrader::container::ContainerId;
use delegate_upgrader::reconcile::controller::Controller as _;

use super::host::{DRAIN, HOUR, Host, NEW, OLD, host_network, published_port, row};
use super::log::log_of;
use kit::twin::{Behaviour, Happened};

/// The end of the only task.
const TASK: Duration = Duration::from_secs(30 * 60);

fn assert_asked_at(host: &Host, old: &ContainerId, expected: Duration) {
    let (asked, ended, code) = host.end_of(old).expect("the old one ended");
    let off = asked.abs_diff(expected);
    assert!(off <= Duration::from_secs(5), "{asked:?}, not {expected:?}");
    assert_eq!((ended - asked, code), (DRAIN, 0), "its tasks are not cut short");
}

#[tokio::test(start_paused = true)]
async fn waits_for_running_tasks_so_that_the_gap_equals_a_restart() {
    for change in [host_network, published_port] {
        let mut host = Host::new();
        host.twin.set_behaviour(OLD, &Behaviour::default());
        host.endpoint.tasks = |twin, _| Some(u64::from(twin.elapsed() < TASK));
        let old = host.run_with("dd", change);
        let mut upgrader = host.begin(NEW, TASK / 2).await;
        assert_eq!(host.names(), ["dd", "dd.candidate"]);
        assert_eq!(host.writes_on(old.as_str()), [], "it is not touched meanwhile");
        let report = upgrader.reconcile().await.unwrap();
        let waits = row(&report, "dd");
        assert_eq!((waits.reason.as_str(), waits.failed), ("waiting_for_idle", false));
        assert_eq!((waits.tasks, waits.connected), (Some(1), Some(true)));
        let created = host.twin.document("dd.candidate").unwrap()["Created"].clone();
        let created: DateTime<Utc> = created.as_str().unwrap().parse().unwrap();
        assert_eq!(waits.deadline, Some(created + HOUR));
        let report = host.finish(&mut upgrader).await;
        assert!(!report.has_failures(), "{report:?}");
        host.assert_settled_on("dd", NEW, "");
        let asked = host.end_of(&old).unwrap().0;
        assert!(asked.abs_diff(TASK) <= Duration::from_secs(5), "{asked:?}");
        let gap = host.first(&host.find("dd").id, &Happened::Started) - asked;
        assert!(gap < Duration::from_secs(2), "{gap:?}");
    }
}

/// Each process is killed in the middle of the wait.
#[tokio::test(start_paused = true)]
async fn replaces_a_delegate_that_is_never_idle_at_the_end_of_the_wait() {
    let mut host = Host::new();
    host.endpoint.tasks = |_, _| Some(2);
    let old = host.run_with("dd", host_network);
    for _ in 0..3 {
        let _upgrader = host.begin(NEW, HOUR / 4).await;
        assert_eq!(host.names(), ["dd", "dd.candidate"]);
    }
    host.upgrade(NEW).await;
    assert_asked_at(&host, &old, HOUR);
}

/// If a delegate stops answering while it is busy, the upgrader waits for a minute longer.
#[tokio::test(start_paused = true)]
async fn does_not_wait_for_a_delegate_that_does_not_report_its_tasks() {
    let host = Host::new();
    let old = host.run_with("dd", host_network);
    host.upgrade(NEW).await;
    assert_asked_at(&host, &old, Duration::ZERO);
    let mut host = Host::new();
    host.endpoint.tasks = |twin, _| (twin.elapsed() < TASK).then_some(3);
    let old = host.run_with("dd", host_network);
    host.upgrade(NEW).await;
    assert_asked_at(&host, &old, TASK + Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn keeps_owner_changes_made_during_the_wait() {
    let mut host = Host::new();
    host.endpoint.tasks = |twin, _| Some(u64::from(twin.elapsed() < TASK));
    host.run_with("dd", host_network);
    let mut upgrader = host.begin(NEW, TASK / 2).await;
    host.twin
        .update("dd", |config| config["Memory"] = (300 << 20).into());
    host.finish(&mut upgrader).await;
    host.scheduled_run(&mut upgrader).await;
    host.assert_settled_on("dd", NEW, "");
    let memory = host.twin.document("dd").unwrap()["HostConfig"]["Memory"].clone();
    assert_eq!(memory, 300 << 20);
}

#[tokio::test(start_paused = true)]
async fn replaces_the_replica_with_the_fewest_tasks_first() {
    let mut host = Host::new();
    // The number depends on the address: the first delegate has the most tasks.
    host.endpoint.tasks = |_, address| match address.ip() {
        IpAddr::V4(ip) => Some(10 - u64::from(ip.octets()[3])),
        IpAddr::V6(_) => None,
    };
    for name in ["aa", "bb", "cc"] {
        host.run(name);
    }
    host.once(NEW).await;
    let events = host.twin.events();
    let created = events.iter().filter(|event| event.what == Happened::Created);
    let names: Vec<&str> = created.map(|event| event.name.as_str()).skip(3).collect();
    assert_eq!(names, ["cc.candidate", "bb.candidate", "aa.candidate"]);
}

/// The delegate finishes one task every two minutes.
#[tokio::test(start_paused = true)]
async fn reports_and_logs_the_tasks_and_the_deadline_of_a_drain() {
    let mut host = Host::new();
    host.twin
        .set_behaviour(OLD, &Behaviour::drains(Duration::from_secs(300)));
    host.endpoint.tasks = |twin, _| Some(5 - twin.elapsed().as_secs() / 120);
    host.run("dd");
    let mut upgrader = host.starting(NEW);
    let log = log_of(async {
        assert!(
            host.continue_for(&mut upgrader, Duration::from_secs(60))
                .await
                .is_none()
        );
        let report = upgrader.reconcile().await.unwrap();
        let delegate = row(&report, "dd");
        assert_eq!(delegate.reason.as_str(), "draining");
        let [drain] = delegate.draining.as_slice() else {
            panic!("{delegate:?}");
        };
        assert!(drain.container.starts_with("dd.draining-"), "{drain:?}");
        assert_eq!((drain.tasks, drain.until), (Some(5), delegate.deadline));
        let words = "is finishing 5 tasks; it has until";
        assert!(delegate.message.contains(words), "{}", delegate.message);
        host.finish(&mut upgrader).await;
    })
    .await;
    host.assert_settled_on("dd", NEW, "");
    let left = log
        .iter()
        .filter_map(|line| line.split(" left container").next()?.split_once(" has "));
    let left: Vec<&str> = left
        .map(|(_, tasks)| tasks)
        .filter(|tasks| tasks.ends_with("tasks"))
        .collect();
    assert_eq!(left, ["4 tasks", "3 tasks"], "{log:#?}");
    let begins = log.iter().filter(|line| line.contains("is finishing"));
    assert_eq!(begins.count(), 1, "{log:#?}");
}
