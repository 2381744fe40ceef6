//! Somebody else has a hand in it: prunes, removes, or had a delegate that crashes.

use std::time::Duration;

use chrono::TimeDelta;
use delegate_upgrader::container::RunState;
use delegate_upgrader::engine::{Engine, EngineError};
use delegate_upgrader::reconcile::upgrade_run::Mode;
use serde_json::json;

use super::host::{DRAIN, HOUR, Host, NEW, OLD, auto_remove, host_network, row};
use kit::twin::{Behaviour, Fault, Happened, Operation, OperatorAction};

const CRASHING: &str = "harness/delegate:26.02.0";

fn count(host: &Host, id: &delegate_upgrader::container::ContainerId, what: &Happened) -> usize {
    host.events_of(id)
        .iter()
        .filter(|event| event.what == *what)
        .count()
}

/// What `docker system prune` does to a container that waits an hour for its start.
#[tokio::test(start_paused = true)]
async fn when_the_candidate_is_pruned_while_the_old_one_drains_the_old_one_comes_back_once() {
    let host = Host::new();
    let old = host.run_with("dd", host_network);
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut upgrader, DRAIN / 2).await.is_none());
    host.twin.remove(&host.find("dd.candidate").id).await.unwrap();
    host.finish(&mut upgrader).await;
    let now = host.find("dd");
    assert_eq!((&now.id, now.state), (&old, RunState::Running));
    assert_eq!(host.restart_policy("dd"), "unless-stopped");
    assert_eq!(host.names(), ["dd"]);
    let (told, ended, _) = host.end_of(&old).unwrap();
    assert_eq!(ended - told, DRAIN);
    assert_eq!(count(&host, &old, &Happened::Started), 2);
    assert_eq!(count(&host, &old, &Happened::Signalled), 1);
}

/// The same with a new process, which cannot know the policy: the delegate works all the same.
#[tokio::test(start_paused = true)]
async fn a_new_process_brings_the_old_one_back_once_too() {
    let host = Host::new();
    let old = host.run_with("dd", host_network);
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut upgrader, DRAIN / 2).await.is_none());
    host.twin.remove(&host.find("dd.candidate").id).await.unwrap();
    host.finish(&mut host.upgrader(NEW)).await;
    assert_eq!(
        (host.find("dd").id, host.names()),
        (old.clone(), vec!["dd".to_owned()])
    );
    assert_eq!(count(&host, &old, &Happened::Started), 2);
}

/// Somebody removes the old one while the new one fails to prove itself. It is all there is, and stays; a better image
/// takes its place, and the other replicas wait no longer than for that.
#[tokio::test(start_paused = true)]
async fn a_delegate_with_a_bad_image_is_replaced_by_the_next_image() {
    const BETTER: &str = "harness/delegate:26.04.1";
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run("aa");
    host.run("bb");
    // So nobody knows who removed it.
    host.twin.set_faults(|call| match call.operation {
        Operation::Events => Fault::ErrBefore,
        _ => Fault::None,
    });
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    host.go_on(&mut upgrader, Duration::from_secs(30)).await;
    host.twin
        .by_hand(OperatorAction::Remove("aa".to_owned()))
        .unwrap();
    let report = host.finish(&mut upgrader).await;
    assert_eq!(row(&report, "aa").reason.as_str(), "no_fallback", "{report:?}");
    assert_eq!(row(&report, "bb").reason.as_str(), "halted", "{report:?}");
    assert_eq!(host.names(), ["aa.candidate", "bb"]);
    host.publish(BETTER, Behaviour::default());
    let report = host.once(BETTER).await;
    assert!(!report.has_failures(), "{report:?}");
    assert_eq!(host.names(), ["aa", "bb"]);
    for name in ["aa", "bb"] {
        assert_eq!(host.find(name).image, BETTER);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delegate_that_keeps_crashing_is_replaced() {
    for change in [(|_: &mut serde_json::Value| ()) as fn(&mut _), host_network] {
        let host = Host::new();
        let crashes = Behaviour::exits(Duration::from_millis(20), 1);
        host.twin.add_image(CRASHING, host.twin.image(crashes));
        host.run_with("dd", |body| {
            body["Image"] = json!(CRASHING);
            change(body);
        });
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(host.find("dd").state, RunState::Restarting);
        let report = host.once(NEW).await;
        assert!(!report.has_failures(), "{report:?}");
        host.assert_settled_on("dd", NEW, "");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delegate_that_is_gone_at_the_end_of_a_run_was_not_served() {
    let host = Host::new();
    let id = host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    upgrader.reconcile().await.unwrap();
    host.twin.stop(&id, Duration::ZERO).await.unwrap();
    host.twin.remove(&id).await.unwrap();
    let report = host.finish(&mut upgrader).await;
    assert!(report.has_failures());
    assert_eq!(row(&report, "dd").reason.as_str(), "no_container");
    // What its owner has taken away for good is no failure of the next run.
    assert!(!host.scheduled_run(&mut upgrader).await.has_failures());
}

/// A host that wakes up after hours, or whose clock was wrong at its boot: that is no time in which anybody worked.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_cuts_no_drain_short_and_ends_no_proof() {
    for hours in [-30, 30] {
        let host = Host::new();
        let old = host.run("dd");
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::Upgrade);
        // Within the proof, and within the drain.
        for after in [8, 30] {
            assert!(
                host.go_on(&mut upgrader, Duration::from_secs(after))
                    .await
                    .is_none()
            );
            host.twin.jump_clock(TimeDelta::hours(hours));
        }
        let report = host.finish(&mut upgrader).await;
        assert!(!report.has_failures(), "{report:?}");
        host.assert_settled_on("dd", NEW, "");
        let (told, ended, code) = host.end_of(&old).unwrap();
        assert_eq!((ended - told, code), (DRAIN, 0));
    }
}

/// A look takes a while: the times that it read before and after are those of two clocks.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_during_a_look_cuts_no_drain_short() {
    for hours in [-30, 30] {
        let host = Host::new();
        let old = host.run("dd");
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::Upgrade);
        let into_the_drain = Duration::from_secs(38);
        assert!(host.go_on(&mut upgrader, into_the_drain).await.is_none());
        assert!(host.names().iter().any(|name| name.starts_with("dd.draining-")));
        host.twin.set_faults(|call| match call.operation {
            Operation::Containers => Fault::Slow(Duration::from_secs(4)),
            _ => Fault::None,
        });
        let set = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            host.twin.jump_clock(TimeDelta::hours(hours));
        };
        let (seen, ()) = tokio::join!(upgrader.reconcile(), set);
        assert!(seen.is_ok());
        host.twin.clear_faults();
        let report = host.finish(&mut upgrader).await;
        assert!(!report.has_failures(), "{report:?}");
        host.assert_settled_on("dd", NEW, "");
        let (told, ended, code) = host.end_of(&old).unwrap();
        assert_eq!((ended - told, code), (DRAIN, 0));
    }
}

/// A `docker container prune` while an `--rm` delegate drains takes its copy and its candidate.
#[tokio::test(start_paused = true)]
async fn an_auto_removed_delegate_whose_copies_are_pruned_comes_back() {
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
    let report = host.finish(&mut upgrader).await;
    let (told, ended, _) = host.end_of(&old).unwrap();
    assert_eq!(ended - told, DRAIN);
    assert_eq!(
        row(&report, "dd").reason.as_str(),
        "candidate_vanished",
        "{report:?}"
    );
    host.assert_fleeting_on("dd", OLD, "");
    host.once(NEW).await;
    host.assert_fleeting_on("dd", NEW, "");
}

/// The owner recreated the delegate while an old one was left; the new one stays unhealthy.
#[tokio::test(start_paused = true)]
async fn a_run_ends_where_an_old_one_is_left_behind_an_unhealthy_stranger() {
    let host = Host::new();
    host.run("dd");
    let bad = "harness/delegate:26.03.0";
    host.twin
        .add_image(bad, host.twin.image(Behaviour::never_healthy()));
    let now = host.twin.wall_clock().timestamp();
    host.twin
        .by_hand(OperatorAction::Rename(
            "dd".to_owned(),
            format!("dd.draining-{now}"),
        ))
        .unwrap();
    host.run_with("dd", |body| body["Image"] = json!(bad));
    let mut upgrader = host.upgrader(bad);
    upgrader.start_run(Mode::Upgrade);
    let report = host.go_on(&mut upgrader, HOUR * 3).await;
    assert!(report.is_some(), "{:?}", host.containers());
}

/// The owner recreates the delegate while a candidate for the one before proves itself.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_its_owner_recreated_during_a_replacement_is_replaced_too() {
    let host = Host::new();
    host.publish(
        NEW,
        Behaviour {
            ready_after: Duration::from_secs(20),
            ..Behaviour::drains(Duration::from_millis(10))
        },
    );
    let old = host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    let anew = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        host.twin.stop(&old, Duration::ZERO).await.unwrap();
        host.twin
            .by_hand(OperatorAction::Remove("dd".to_owned()))
            .unwrap();
        host.run("dd");
    };
    let (report, ()) = tokio::join!(host.scheduled_run(&mut upgrader), anew);
    assert!(!report.has_failures(), "{report:?}");
    host.scheduled_run(&mut upgrader).await;
    host.assert_settled_on("dd", NEW, "");
}

/// Its predecessor was removed by hand while it proved itself, and it never works.
#[tokio::test(start_paused = true)]
async fn a_run_ends_where_only_a_candidate_that_never_works_is_left() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut upgrader, Duration::from_secs(10)).await.is_none());
    host.twin
        .by_hand(OperatorAction::Remove("dd".to_owned()))
        .unwrap();
    let report = host.go_on(&mut upgrader, HOUR * 3).await;
    assert!(report.is_some(), "{:?}", host.containers());
}

/// Another upgrader promotes the candidate before a name that starts like this arrives there, which finds nothing.
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
        let rename = |from: &str, to: String| OperatorAction::Rename(from.to_owned(), to);
        let since = host.twin.wall_clock().timestamp();
        let _ = host.twin.by_hand(rename("dd", format!("dd.draining-{since}")));
        host.twin
            .by_hand(rename("dd.candidate", "dd".to_owned()))
            .unwrap();
    };
    tokio::join!(promote, upgrade);
    let late = late().expect("it is withdrawn or judged");
    assert_eq!(late.subject, "dd.candidate");
    assert!(
        matches!(late.outcome, Some(Err(EngineError::NotFound(_)))),
        "{late:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_verdict_that_is_late_does_not_reach_one_that_was_promoted() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run_with("dd", host_network);
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    let upgrade = host.go_on(&mut upgrader, DRAIN + Duration::from_secs(150));
    promoted_before(&host, "dd.failed-1", upgrade).await;
}

#[tokio::test(start_paused = true)]
async fn a_withdrawal_that_is_late_does_not_reach_one_that_was_promoted() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut upgrader, Duration::from_secs(30)).await.is_none());
    drop(upgrader);
    let mut next = host.upgrader(OLD);
    next.start_run(Mode::Upgrade);
    promoted_before(
        &host,
        "dd.withdrawn-",
        host.go_on(&mut next, Duration::from_secs(60)),
    )
    .await;
}
