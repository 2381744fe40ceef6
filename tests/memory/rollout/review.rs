//! What a reviewer tried in order to lose a delegate, to be told an untruth, or to wait for ever.

use std::time::Duration;

use delegate_upgrader::config::Strategy;
use delegate_upgrader::container::RunState;
use delegate_upgrader::engine::Engine;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use serde_json::json;

use super::host::{DRAIN, HOUR, Host, NEW, NEWER, OLD, auto_remove, good, host_network, row};
use kit::twin::{Behaviour, Fault, Operation, OperatorAction, Wellness};

const LATEST: &str = "harness/delegate:latest";

fn dies_after_the_commit() -> Behaviour {
    Behaviour {
        ready_after: Duration::from_secs(5),
        ..Behaviour::exits(Duration::from_secs(30), 3)
    }
}

/// The old one had been told to stop: it has its name back, and vanishes when its tasks are done.
#[tokio::test(start_paused = true)]
async fn an_rm_delegate_that_drains_when_its_successor_dies_is_there_after_its_drain() {
    let host = Host::new();
    host.publish(NEW, dies_after_the_commit());
    host.run_with("dd", auto_remove);
    let mut upgrader = host.upgrader(NEW);
    let report = host.pass(&mut upgrader).await;
    tokio::time::sleep(DRAIN * 2).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "rejected", "{report:?}");
    assert_eq!(host.names(), ["dd", "dd.failed-1"]);
    assert_eq!(host.find("dd").state, RunState::Running);
    assert!(host.auto_remove("dd"));
}

/// The same where another process goes on, which cannot know that the old one was told.
#[tokio::test(start_paused = true)]
async fn an_rm_delegate_that_an_earlier_process_told_to_stop_is_there_after_its_drain() {
    let host = Host::new();
    host.publish(NEW, dies_after_the_commit());
    host.run_with("dd", auto_remove);
    let mut first = host.upgrader(NEW);
    first.start_run(Mode::Upgrade).await.unwrap();
    assert!(host.go_on(&mut first, Duration::from_secs(25)).await.is_none());
    drop(first);
    tokio::time::sleep(Duration::from_secs(20)).await;
    host.finish(&mut host.upgrader(NEW)).await;
    tokio::time::sleep(DRAIN * 2).await;
    assert_eq!(host.find("dd").state, RunState::Running);
    assert_eq!(host.names(), ["dd"]);
    assert!(host.auto_remove("dd"));
}

#[tokio::test(start_paused = true)]
async fn a_moving_tag_is_rolled_back_too() {
    let host = Host::new();
    let before = host
        .twin
        .add_image(LATEST, host.twin.image(Behaviour::drains(DRAIN)));
    host.publish(LATEST, good());
    host.run_with("dd", |body| body["Image"] = json!(LATEST));
    host.once(LATEST).await;
    assert_ne!(host.twin.document("dd").unwrap()["Image"], before.as_str());
    let mut upgrader = host.upgrader(LATEST);
    upgrader.rollback("dd").await.unwrap();
    let report = host.finish(&mut upgrader).await;
    assert!(row(&report, "dd").runs_the_target(), "{report:?}");
    assert_eq!(host.twin.document("dd").unwrap()["Image"], before.as_str());
    // And stays there.
    let report = host.once(LATEST).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "rolled_back");
}

/// Whoever goes on after the process that rolled back is gone.
#[tokio::test(start_paused = true)]
async fn a_rollback_that_was_interrupted_goes_on() {
    let host = Host::new();
    host.run("dd");
    host.once(NEW).await;
    let mut rollback = host.upgrader(NEW);
    rollback.rollback("dd").await.unwrap();
    assert!(host.go_on(&mut rollback, Duration::from_secs(5)).await.is_none());
    drop(rollback);
    host.find("dd.candidate");
    host.once(NEW).await;
    host.assert_settled_on("dd", OLD, "");
}

/// An idle delegate: it stops at once.
#[tokio::test(start_paused = true)]
async fn a_rollback_beside_a_daemon_s_pass_is_done_where_delegates_stop_at_once() {
    let host = Host::new();
    host.twin
        .add_image(OLD, host.twin.image(Behaviour::drains(Duration::from_millis(10))));
    host.run("dd");
    let mut daemon = host.upgrader(NEW);
    host.pass(&mut daemon).await;
    let mut rollback = host.upgrader(NEW);
    rollback.rollback("dd").await.unwrap();
    let (report, ()) = tokio::join!(host.finish(&mut rollback), async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        host.pass(&mut daemon).await;
    });
    assert!(row(&report, "dd").runs_the_target(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn an_rm_delegate_that_cannot_be_replaced_is_not_copied_at_every_look() {
    let mut host = Host::new();
    host.strategy = Strategy::StartFirst;
    host.free_memory = Some(1024);
    host.run_with("dd", auto_remove);
    let mut upgrader = host.upgrader(NEW);
    let report = host.pass(&mut upgrader).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "cannot_start_first");
    let writes = host.twin.writes().len();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        upgrader.reconcile().await.unwrap();
    }
    assert_eq!(host.twin.writes().len(), writes, "{:#?}", host.twin.writes());
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_a_delegate_that_is_just_being_replaced_tells_the_truth() {
    let host = Host::new();
    host.run_with("dd", host_network);
    let mut first = host.upgrader(NEW);
    first.start_run(Mode::Upgrade).await.unwrap();
    assert!(host.go_on(&mut first, DRAIN / 2).await.is_none());
    drop(first);
    let mut retry = host.upgrader(NEW);
    if retry.retry("dd").await.is_ok() {
        let report = host.finish(&mut retry).await;
        assert!(row(&report, "dd").runs_the_target(), "{report:?}");
    }
}

/// The process is gone between the second rename and the stop, and the successor falls ill.
#[tokio::test(start_paused = true)]
async fn an_rm_delegate_whose_successor_falls_ill_before_the_drain_gets_its_name_back() {
    for change in [auto_remove as fn(&mut _), |_: &mut _| ()] {
        let host = Host::new();
        host.publish(
            NEW,
            Behaviour {
                health: Wellness::For(Duration::from_secs(20)),
                ..good()
            },
        );
        host.run_with("dd", change);
        // No stop reaches the engine after the commit.
        host.twin.set_faults(|call| match call.operation {
            Operation::Stop | Operation::SetRestartPolicy => Fault::ErrBefore,
            _ => Fault::None,
        });
        let mut first = host.upgrader(NEW);
        first.start_run(Mode::Upgrade).await.unwrap();
        assert!(host.go_on(&mut first, Duration::from_secs(28)).await.is_none());
        drop(first);
        host.twin.clear_faults();
        let names = host.names();
        assert!(names.iter().any(|name| name.contains("draining")), "{names:?}");
        tokio::time::sleep(Duration::from_secs(5)).await;
        host.finish(&mut host.upgrader(NEW)).await;
        tokio::time::sleep(DRAIN * 2).await;
        assert_eq!(
            (host.find("dd").image.as_str(), host.find("dd").state),
            (OLD, RunState::Running),
            "{:?}",
            host.containers()
        );
    }
}

/// The owner made the delegate anew while an old one was left; the new one is ill for ever.
#[tokio::test(start_paused = true)]
async fn a_pass_ends_where_an_old_one_is_left_behind_a_stranger_that_is_ill() {
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
    upgrader.start_run(Mode::Upgrade).await.unwrap();
    let report = host.go_on(&mut upgrader, HOUR * 3).await;
    assert!(report.is_some(), "{:?}", host.containers());
}

#[tokio::test(start_paused = true)]
async fn a_pass_ends_where_the_engine_refuses_to_change_a_restart_policy() {
    let host = Host::new();
    host.run("dd");
    host.twin.set_faults(|call| {
        if call.operation == Operation::SetRestartPolicy {
            Fault::Refuse(500)
        } else {
            Fault::None
        }
    });
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade).await.unwrap();
    let report = host.go_on(&mut upgrader, HOUR * 3).await;
    assert!(report.is_some(), "{:?}", host.containers());
}

/// The owner makes the delegate anew while a candidate for the one before proves itself.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_its_owner_made_anew_during_a_replacement_is_replaced_too() {
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
    let (report, ()) = tokio::join!(host.pass(&mut upgrader), anew);
    assert!(!report.has_failures(), "{report:?}");
    host.pass(&mut upgrader).await;
    host.assert_settled_on("dd", NEW, "");
}

/// What the daemon asked an hour ago is older than what an operator's pass has just learned.
#[tokio::test(start_paused = true)]
async fn a_daemon_does_not_undo_what_a_later_pass_of_another_process_did() {
    for change in [|_: &mut serde_json::Value| (), host_network] {
        let host = Host::new();
        host.publish(NEWER, good());
        host.run_with("dd", change);
        let mut daemon = host.upgrader(NEW);
        host.pass(&mut daemon).await;
        host.once(NEWER).await;
        host.finish(&mut daemon).await;
        host.assert_settled_on("dd", NEWER, "");
    }
}

#[tokio::test(start_paused = true)]
async fn a_daemon_does_not_call_what_was_rolled_back_published() {
    let host = Host::new();
    host.run("dd");
    let mut daemon = host.upgrader(NEW);
    host.pass(&mut daemon).await;
    host.pass(&mut daemon).await;
    let mut rollback = host.upgrader(NEW);
    rollback.rollback("dd").await.unwrap();
    host.finish(&mut rollback).await;
    let report = host.finish(&mut daemon).await;
    assert_ne!(row(&report, "dd").reason.as_str(), "up_to_date", "{report:?}");
}

/// Its predecessor was removed by hand while it proved itself, and it never works.
#[tokio::test(start_paused = true)]
async fn a_pass_ends_where_a_candidate_that_never_works_is_all_there_is() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade).await.unwrap();
    assert!(host.go_on(&mut upgrader, Duration::from_secs(10)).await.is_none());
    host.twin
        .by_hand(OperatorAction::Remove("dd".to_owned()))
        .unwrap();
    let report = host.go_on(&mut upgrader, HOUR * 3).await;
    assert!(report.is_some(), "{:?}", host.containers());
}

/// It came back once; that says nothing about the next time it is told to stop.
#[tokio::test(start_paused = true)]
async fn an_old_one_that_comes_back_twice_is_started_twice() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run_with("dd", host_network);
    let mut upgrader = host.upgrader(NEW);
    host.pass(&mut upgrader).await;
    host.twin.set_faults(|call| match call.operation {
        Operation::Stop if call.subject.starts_with("dd.draining") => Fault::ErrAfter,
        _ => Fault::None,
    });
    upgrader.retry("dd").await.unwrap();
    host.finish(&mut upgrader).await;
    assert_eq!(
        host.find("dd").state,
        RunState::Running,
        "{:?}",
        host.containers()
    );
    assert_eq!(host.find("dd").image, OLD);
}
