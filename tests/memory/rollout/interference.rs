//! Other hands on the host: they prune, remove, recreate, and set the clock.

use std::time::Duration;

use chrono::TimeDelta;
use delegate_upgrader::container::RunState;
use delegate_upgrader::engine::EngineError;
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use serde_json::{Value, json};

use super::host::{DRAIN, HOUR, Host, NEW, NEWER, OLD, auto_remove, good, host_network, row};
use kit::twin::{Behaviour, Fault, Happened, Operation, OperatorAction};

const CRASHING: &str = "harness/delegate:26.02.0";

/// As `docker system prune` does with a container that waits an hour for its start; the same process continues, or a new one.
#[tokio::test(start_paused = true)]
async fn brings_the_old_container_back_once_when_its_candidate_is_pruned() {
    for is_killed in [false, true] {
        let host = Host::new();
        let old = host.run_with("dd", host_network);
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::Upgrade);
        assert!(host.go_on(&mut upgrader, DRAIN / 2).await.is_none());
        host.twin.by_hand(OperatorAction::PruneContainers).unwrap();
        if is_killed {
            upgrader = host.upgrader(NEW);
        }
        let report = host.finish(&mut upgrader).await;
        host.assert_settled_on("dd", OLD, "");
        assert_eq!(host.find("dd").id, old);
        let (told, ended, _) = host.end_of(&old).unwrap();
        assert_eq!(ended - told, DRAIN);
        let events = host.events_of(&old);
        let count = |what| events.iter().filter(|event| event.what == what).count();
        assert_eq!((count(Happened::Started), count(Happened::Signalled)), (2, 1));
        if !is_killed {
            assert_eq!(row(&report, "dd").reason.as_str(), "candidate_vanished");
        }
        host.upgrade(NEW).await;
    }
}

/// With `--rm`, the old container is what is left to copy, and vanishes when its tasks are done.
#[tokio::test(start_paused = true)]
async fn recreates_an_rm_delegate_whose_candidate_is_pruned() {
    let host = Host::new();
    let old = host.run_with("dd", |body| {
        auto_remove(body);
        host_network(body);
    });
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut upgrader, DRAIN / 2).await.is_none());
    host.twin.by_hand(OperatorAction::PruneContainers).unwrap();
    assert_eq!(host.names().len(), 1);
    host.finish(&mut upgrader).await;
    let (told, ended, _) = host.end_of(&old).unwrap();
    assert_eq!(ended - told, DRAIN);
    host.assert_fleeting_on("dd", OLD, "");
    host.once(NEW).await;
    host.assert_fleeting_on("dd", NEW, "");
}

/// The old container is removed while the new one fails to prove itself: it is made again from the new one's settings, and a
/// better image takes its place.
#[tokio::test(start_paused = true)]
async fn recreates_a_removed_delegate_from_its_candidate() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run("aa");
    host.run("bb");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    host.go_on(&mut upgrader, Duration::from_secs(30)).await;
    host.by_hand(OperatorAction::Remove, "aa");
    let report = host.finish(&mut upgrader).await;
    assert_eq!(row(&report, "aa").reason.as_str(), "rejected", "{report:?}");
    assert_eq!(row(&report, "bb").reason.as_str(), "halted", "{report:?}");
    assert_eq!(host.names(), ["aa", "aa.failed-1", "bb"]);
    assert_eq!(
        (host.find("aa").image.as_str(), host.find("aa").state),
        (OLD, RunState::Running)
    );
    host.publish(NEWER, good());
    let report = host.once(NEWER).await;
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled(&["aa", "bb"], NEWER, "");
}

#[tokio::test(start_paused = true)]
async fn replaces_a_delegate_that_keeps_crashing() {
    for change in [(|_| ()) as fn(&mut Value), host_network] {
        let host = Host::new();
        let crashes = Behaviour::exits(Duration::from_millis(20), 1);
        host.twin.add_image(CRASHING, host.twin.image(crashes));
        host.run_with("dd", |body| {
            body["Image"] = json!(CRASHING);
            change(body);
        });
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(host.find("dd").state, RunState::Restarting);
        host.upgrade(NEW).await;
    }
}

#[tokio::test(start_paused = true)]
async fn reports_a_delegate_that_is_gone_at_the_end_of_a_run_once() {
    let host = Host::new();
    let id = host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    upgrader.reconcile().await.unwrap();
    host.by_hand(OperatorAction::Remove, id.as_str());
    let report = host.finish(&mut upgrader).await;
    assert!(report.has_failures());
    assert_eq!(row(&report, "dd").reason.as_str(), "no_container");
    assert!(!host.scheduled_run(&mut upgrader).await.has_failures());
}

/// A host that wakes up after hours, or whose clock was wrong at its boot, in the proof, in the drain, or while its containers
/// are read.
#[tokio::test(start_paused = true)]
async fn cuts_no_drain_short_when_the_clock_is_set() {
    for hours in [-30, 30] {
        for is_late in [false, true] {
            let host = Host::new();
            let old = host.run("dd");
            let mut upgrader = host.upgrader(NEW);
            upgrader.start_run(Mode::Upgrade);
            for after in [8, 30] {
                assert!(
                    host.go_on(&mut upgrader, Duration::from_secs(after))
                        .await
                        .is_none()
                );
                if !is_late {
                    host.twin.jump_clock(TimeDelta::hours(hours));
                }
            }
            if is_late {
                assert!(host.names().iter().any(|name| name.starts_with("dd.draining-")));
                host.fault(Operation::Containers, Fault::Slow(Duration::from_secs(4)));
                let set = async {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    host.twin.jump_clock(TimeDelta::hours(hours));
                };
                let (seen, ()) = tokio::join!(upgrader.reconcile(), set);
                assert!(seen.is_ok());
                host.twin.clear_faults();
            }
            let report = host.finish(&mut upgrader).await;
            assert!(!report.has_failures(), "{report:?}");
            host.assert_settled_on("dd", NEW, "");
            let (told, ended, code) = host.end_of(&old).unwrap();
            assert_eq!((ended - told, code), (DRAIN, 0));
        }
    }
}

/// The owner recreated the delegate while an old one was left, and the new one stays unhealthy.
#[tokio::test(start_paused = true)]
async fn ends_a_run_where_an_old_container_is_behind_an_unhealthy_stranger() {
    let host = Host::new();
    host.run("dd");
    let bad = "harness/delegate:26.03.0";
    host.twin
        .add_image(bad, host.twin.image(Behaviour::never_healthy()));
    let draining = format!("dd.draining-{}", host.twin.wall_clock().timestamp());
    let rename = OperatorAction::Rename("dd".to_owned(), draining.clone());
    host.twin.by_hand(rename).unwrap();
    host.run_with("dd", |body| body["Image"] = json!(bad));
    let mut upgrader = host.upgrader(bad);
    upgrader.start_run(Mode::Upgrade);
    host.go_on(&mut upgrader, HOUR * 3).await;
    assert_eq!(host.names(), ["dd", &draining]);
    assert_eq!(host.find(&draining).state, RunState::Running);
}

/// The owner recreates the delegate while a candidate for the one before proves itself.
#[tokio::test(start_paused = true)]
async fn replaces_a_delegate_that_its_owner_recreated_during_its_replacement() {
    let host = Host::new();
    let ready_after = Duration::from_secs(20);
    host.publish(
        NEW,
        Behaviour {
            ready_after,
            ..Behaviour::default()
        },
    );
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    let recreate = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        host.by_hand(OperatorAction::Remove, "dd");
        host.run("dd")
    };
    let (report, second) = tokio::join!(host.scheduled_run(&mut upgrader), recreate);
    assert_eq!(
        row(&report, "dd").reason.as_str(),
        "settings_changed",
        "{report:?}"
    );
    host.scheduled_run(&mut upgrader).await;
    host.assert_settled_on("dd", NEW, "");
    let document = host.twin.document("dd").unwrap();
    let replaces = &document["Config"]["Labels"]["io.delegate-upgrader.replaces"];
    assert_eq!(replaces, second.as_str());
}

/// Another upgrader promotes the candidate before a rename to a name like this arrives there, which finds nothing.
async fn promoted_before(host: &Host, to: &'static str, upgrade: impl Future) {
    host.twin.set_faults(move |call| match call.operation {
        Operation::Rename if call.detail.starts_with(to) => Fault::Slow(Duration::from_secs(20)),
        _ => Fault::None,
    });
    let late = || {
        let mut writes = host.twin.writes().into_iter();
        writes.find(|call| call.detail.starts_with(to))
    };
    let promote = async {
        for _ in 0..600 {
            if late().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let rename = |from: &str, to: &str| {
            let rename = OperatorAction::Rename(from.to_owned(), to.to_owned());
            host.twin.by_hand(rename)
        };
        let _ = rename("dd", "dd.retired");
        rename("dd.candidate", "dd").unwrap();
    };
    tokio::join!(promote, upgrade);
    let late = late().expect("it is withdrawn or judged");
    assert_eq!(late.subject, "dd.candidate");
    let outcome = &late.outcome;
    assert!(matches!(outcome, Some(Err(EngineError::NotFound(_)))), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_late_verdict_does_not_reach_a_candidate_that_was_promoted() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run_with("dd", host_network);
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    let upgrade = host.go_on(&mut upgrader, DRAIN + Duration::from_secs(150));
    promoted_before(&host, "dd.failed-1", upgrade).await;
}

#[tokio::test(start_paused = true)]
async fn a_late_withdrawal_does_not_reach_a_candidate_that_was_promoted() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut upgrader, Duration::from_secs(30)).await.is_none());
    let mut next = host.upgrader(OLD);
    next.start_run(Mode::Upgrade);
    let upgrade = host.go_on(&mut next, Duration::from_secs(60));
    promoted_before(&host, "dd.withdrawn-", upgrade).await;
}
