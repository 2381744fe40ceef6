//! Stop-first, a delegate is replaced in a moment in which it has no task to finish.

use std::time::Duration;

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::reconcile::upgrade_run::Mode;

use super::host::{DRAIN, HOUR, Host, NEW, good, host_network, published_port, row};
use super::log::log_of;
use kit::twin::{Behaviour, Happened};

/// The end of the only task.
const TASK: Duration = Duration::from_secs(30 * 60);

fn started(host: &Host, id: &ContainerId) -> Duration {
    let events = host.events_of(id);
    let started = events.iter().find(|event| event.what == Happened::Started);
    started.expect("it was started").at
}

/// When the old one was asked to stop, and when the new one was started.
fn gap(host: &Host, old: &ContainerId) -> (Duration, Duration) {
    let (asked, ..) = host.end_of(old).expect("the old one ended");
    (asked, started(host, &host.find("dd").id))
}

fn near(actual: Duration, expected: Duration) {
    let off = actual.abs_diff(expected);
    assert!(off <= Duration::from_secs(5), "{actual:?}, not {expected:?}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_its_task_is_waited_for_and_the_gap_is_that_of_a_restart() {
    for change in [host_network, published_port] {
        let mut host = Host::new();
        host.twin
            .add_image(super::host::OLD, host.twin.image(Behaviour::default()));
        host.tasks = |twin, _| Some(u64::from(twin.elapsed() < TASK));
        let old = host.run_with("dd", change);
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::Upgrade);
        assert!(host.go_on(&mut upgrader, TASK / 2).await.is_none());
        assert_eq!(host.names(), ["dd", "dd.candidate"]);
        assert_eq!(host.writes_on(old.as_str()), [], "it is not touched meanwhile");
        let report = upgrader.reconcile().await.unwrap();
        let waits = row(&report, "dd");
        assert_eq!(waits.reason.as_str(), "waiting_for_idle");
        assert_eq!((waits.tasks, waits.failed), (Some(1), false));
        assert_eq!(waits.connected, Some(true));
        let created = host.twin.document("dd.candidate").unwrap()["Created"].clone();
        let created: chrono::DateTime<chrono::Utc> = created.as_str().unwrap().parse().unwrap();
        assert_eq!(waits.deadline, Some(created + HOUR));
        let report = host.finish(&mut upgrader).await;
        assert!(!report.has_failures(), "{report:?}");
        host.assert_settled_on("dd", NEW, "");
        let (asked, started) = gap(&host, &old);
        near(asked, TASK);
        assert!(started - asked < Duration::from_secs(2), "{:?}", started - asked);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_never_idle_is_replaced_at_the_end_of_the_wait_whoever_begins_it() {
    let mut host = Host::new();
    host.tasks = |_, _| Some(2);
    let old = host.run_with("dd", host_network);
    for _ in 0..3 {
        // Each process is killed in the middle of the wait.
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::Upgrade);
        assert!(host.go_on(&mut upgrader, HOUR / 4).await.is_none());
        assert_eq!(host.names(), ["dd", "dd.candidate"]);
    }
    host.once(NEW).await;
    host.assert_settled_on("dd", NEW, "");
    let (asked, ended, code) = host.end_of(&old).unwrap();
    near(asked, HOUR);
    assert_eq!((ended - asked, code), (DRAIN, 0), "its tasks are not cut short");
}

#[tokio::test(start_paused = true)]
async fn one_that_says_nothing_of_its_work_is_not_waited_for() {
    let host = Host::new();
    let old = host.run_with("dd", host_network);
    host.once(NEW).await;
    let (asked, ..) = host.end_of(&old).unwrap();
    near(asked, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_delegate_that_stops_answering_while_it_is_busy_is_waited_for_a_minute_longer() {
    let mut host = Host::new();
    host.tasks = |twin, _| (twin.elapsed() < TASK).then_some(3);
    let old = host.run_with("dd", host_network);
    host.once(NEW).await;
    let (asked, ..) = host.end_of(&old).unwrap();
    near(asked, TASK + Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn what_somebody_sets_during_the_wait_is_on_the_new_one() {
    let mut host = Host::new();
    host.tasks = |twin, _| Some(u64::from(twin.elapsed() < TASK));
    host.run_with("dd", host_network);
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut upgrader, TASK / 2).await.is_none());
    host.twin
        .update("dd", |host_config| host_config["Memory"] = (300 << 20).into());
    host.finish(&mut upgrader).await;
    host.scheduled_run(&mut upgrader).await;
    host.assert_settled_on("dd", NEW, "");
    let memory = host.twin.document("dd").unwrap()["HostConfig"]["Memory"].clone();
    assert_eq!(memory, 300 << 20);
}

#[tokio::test(start_paused = true)]
async fn the_replica_with_the_fewest_tasks_goes_first() {
    let mut host = Host::new();
    host.publish(NEW, good());
    // By its address: the first one has the most.
    host.tasks = |_, address| match address.ip() {
        std::net::IpAddr::V4(ip) => Some(10 - u64::from(ip.octets()[3])),
        std::net::IpAddr::V6(_) => None,
    };
    for name in ["aa", "bb", "cc"] {
        host.run(name);
    }
    host.once(NEW).await;
    let created: Vec<String> = host
        .twin
        .events()
        .iter()
        .filter(|event| event.what == Happened::Created && event.name.ends_with(".candidate"))
        .map(|event| event.name.clone())
        .collect();
    assert_eq!(created, ["cc.candidate", "bb.candidate", "aa.candidate"]);
}

#[tokio::test(start_paused = true)]
async fn a_drain_shows_its_tasks_and_its_deadline() {
    let mut host = Host::new();
    let drain = Duration::from_secs(300);
    host.twin
        .add_image(super::host::OLD, host.twin.image(Behaviour::drains(drain)));
    // Every two minutes one of them is done.
    host.tasks = |twin, _| Some(5 - twin.elapsed().as_secs() / 120);
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    let log = log_of(async {
        assert!(host.go_on(&mut upgrader, Duration::from_secs(60)).await.is_none());
        let report = upgrader.reconcile().await.unwrap();
        let delegate = row(&report, "dd");
        assert_eq!(delegate.reason.as_str(), "draining");
        let [drain] = delegate.draining.as_slice() else {
            panic!("{delegate:?}");
        };
        assert!(drain.container.starts_with("dd.draining-"), "{drain:?}");
        assert_eq!(drain.tasks, Some(5));
        assert_eq!(drain.until, delegate.deadline);
        let message = &delegate.message;
        assert!(
            message.contains("is finishing 5 tasks; it has until"),
            "{message}"
        );
        host.finish(&mut upgrader).await;
    })
    .await;
    host.assert_settled_on("dd", NEW, "");
    let progress: Vec<&String> = log
        .iter()
        .filter(|line| line.contains("left container"))
        .collect();
    let left = |line: &&String| {
        let words: Vec<&str> = line.split(" has ").collect();
        words
            .last()
            .map(|word| word.split(" left").next().unwrap().to_owned())
    };
    let left: Vec<_> = progress.iter().filter_map(left).collect();
    assert_eq!(left, ["4 tasks", "3 tasks"], "{log:#?}");
    let begins = log.iter().filter(|line| line.contains("is finishing")).count();
    assert_eq!(begins, 1, "{log:#?}");
}
