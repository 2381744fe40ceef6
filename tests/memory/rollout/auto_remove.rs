//! Delegates that were started with `--rm`: they vanish by stopping, and when the engine restarts.

use std::time::Duration;

use delegate_upgrader::config::Strategy;
use delegate_upgrader::container::RunState;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use serde_json::Value;

use super::faults::killed_when;
use super::host::{DRAIN, HOUR, Host, NEW, NEWER, OLD, auto_remove, good, host_network, row};
use kit::twin::{Behaviour, Fault, Operation, Wellness};

fn dies_after_the_commit() -> Behaviour {
    Behaviour {
        ready_after: Duration::from_secs(5),
        ..Behaviour::exits(Duration::from_secs(30), 3)
    }
}

fn stops_first(body: &mut Value) {
    auto_remove(body);
    host_network(body);
}

#[tokio::test(start_paused = true)]
async fn it_is_replaced_both_ways_and_still_vanishes_by_stopping() {
    for (change, working) in [(auto_remove as fn(&mut Value), 1), (stops_first, 0)] {
        let host = Host::new();
        host.run_with("dd", change);
        let report = host.once(NEW).await;
        assert!(!report.has_failures(), "{report:?}");
        host.assert_fleeting_on("dd", NEW, "");
        assert_eq!(host.fewest_working(), working);
    }
}

/// Both ways, with every kind of bad image: the old one is back, as it was, and the image is quarantined.
#[tokio::test(start_paused = true)]
async fn a_bad_image_costs_neither_the_delegate_nor_its_configuration() {
    let cannot_start = Behaviour {
        start_error: Some("exec: /delegate: no such file".to_owned()),
        ..good()
    };
    for bad in [
        Behaviour::never_healthy(),
        Behaviour::exits(Duration::from_secs(1), 3),
        cannot_start,
    ] {
        for change in [auto_remove as fn(&mut Value), stops_first] {
            let host = Host::new();
            host.publish(NEW, bad.clone());
            host.run_with("dd", change);
            let report = host.once(NEW).await;
            assert_eq!(row(&report, "dd").reason.as_str(), "rejected", "{report:?}");
            assert_eq!(
                host.containers(),
                [
                    ("dd".to_owned(), RunState::Running, OLD.to_owned()),
                    ("dd.failed-1".to_owned(), RunState::Created, NEW.to_owned()),
                ],
            );
            assert!(host.auto_remove("dd"));
            // An hour later it is tried again, and the number counts on.
            assert_eq!(row(&host.once(NEW).await, "dd").reason.as_str(), "quarantined");
            tokio::time::sleep(HOUR).await;
            host.once(NEW).await;
            assert_eq!(host.names(), ["dd", "dd.failed-2"]);
            host.publish(NEWER, good());
            host.once(NEWER).await;
            host.assert_fleeting_on("dd", NEWER, "");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_delegate_whose_successor_dies_after_the_commit_is_brought_back() {
    let host = Host::new();
    // It works until the old one has been asked to stop.
    host.publish(
        NEW,
        Behaviour {
            ready_after: Duration::from_secs(5),
            ..Behaviour::exits(Duration::from_secs(30), 3)
        },
    );
    host.run_with("dd", auto_remove);
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "rejected", "{report:?}");
    assert_eq!(host.names(), ["dd", "dd.failed-1"]);
    assert_eq!(host.find("dd").state, RunState::Running);
    assert_eq!(host.find("dd").image, OLD);
    assert!(host.auto_remove("dd"));
}

/// The engine takes all `--rm` containers away when it restarts. From the standby the delegate comes back.
#[tokio::test(start_paused = true)]
async fn the_engine_s_restart_during_a_replacement_does_not_lose_it() {
    for change in [auto_remove as fn(&mut Value), stops_first] {
        for second in 3..60 {
            let host = Host::new();
            host.run_with("dd", change);
            let mut upgrader = host.upgrader(NEW);
            let pass = async {
                host.scheduled_run(&mut upgrader).await;
                host.twin.elapsed()
            };
            let restart = async {
                tokio::time::sleep(Duration::from_secs(second)).await;
                host.twin.restart_engine(Duration::from_secs(3));
            };
            let (done, ()) = tokio::join!(pass, restart);
            if done <= Duration::from_secs(second) {
                // Over by then: what the engine took is not ours to bring back.
                continue;
            }
            // Whom the engine took alone, the image is blamed for, but not for long.
            for _ in 0..2 {
                tokio::time::sleep(HOUR).await;
                host.scheduled_run(&mut upgrader).await;
            }
            host.assert_fleeting_on("dd", NEW, &format!("the engine restarts after {second} s"));
        }
    }
}

/// A delegate that is recreated from a standby vanishes too: then the standby itself serves, and the next upgrade is `--rm` again.
#[tokio::test(start_paused = true)]
async fn a_standby_serves_where_the_original_cannot_be_recreated() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run_with("dd", stops_first);
    let spoil = async {
        // The standby exists by then; whatever is made of the old image later ends at once.
        tokio::time::sleep(Duration::from_secs(20)).await;
        host.twin.set_behaviour(OLD, &Behaviour::exits(Duration::ZERO, 1));
    };
    tokio::join!(host.once(NEW), spoil);
    assert_eq!(
        host.find("dd").state,
        RunState::Running,
        "{:?}",
        host.containers()
    );
    assert_eq!(host.find("dd").image, OLD);
    assert!(!host.auto_remove("dd"));
    host.publish(NEWER, good());
    host.once(NEWER).await;
    host.assert_fleeting_on("dd", NEWER, "");
}

/// A new process does not know that the candidate it finds gone was there, and tries its image once more.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_was_brought_back_twice_still_vanishes_by_stopping() {
    for k in 0.. {
        let host = Host::new();
        host.publish(NEW, Behaviour::exits(Duration::from_millis(100), 3));
        host.run_with("dd", stops_first);
        let finished = !killed_when(&host, move |call| call.index >= k).await;
        host.once(NEW).await;
        assert!(host.auto_remove("dd"), "killed at call {k}");
        if finished {
            break;
        }
    }
}

/// The old one vanishes since it was asked to stop, and the candidate by itself, between two observations.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_ends_at_once_is_marked_at_the_first_attempt() {
    let host = Host::new();
    host.twin
        .add_image(OLD, host.twin.image(Behaviour::drains(Duration::from_millis(10))));
    host.publish(NEW, Behaviour::exits(Duration::ZERO, 3));
    host.run_with("dd", stops_first);
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "rejected", "{report:?}");
    assert_eq!(host.names(), ["dd", "dd.failed-1"]);
    let starts = host.twin.calls();
    let starts = starts.iter().filter(|call| call.operation == Operation::Start);
    assert_eq!(starts.count(), 2, "the candidate, and the old one again");
}

/// The old one had been asked to stop: it has its name back, and vanishes when its tasks are done.
#[tokio::test(start_paused = true)]
async fn an_rm_delegate_that_drains_when_its_successor_dies_is_there_after_its_drain() {
    let host = Host::new();
    host.publish(NEW, dies_after_the_commit());
    host.run_with("dd", auto_remove);
    let mut upgrader = host.upgrader(NEW);
    let report = host.scheduled_run(&mut upgrader).await;
    tokio::time::sleep(DRAIN * 2).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "rejected", "{report:?}");
    assert_eq!(host.names(), ["dd", "dd.failed-1"]);
    assert_eq!(host.find("dd").state, RunState::Running);
    assert!(host.auto_remove("dd"));
}

/// The same where another process goes on, which cannot know that the old one was asked.
#[tokio::test(start_paused = true)]
async fn an_rm_delegate_that_an_earlier_process_asked_to_stop_is_there_after_its_drain() {
    let host = Host::new();
    host.publish(NEW, dies_after_the_commit());
    host.run_with("dd", auto_remove);
    let mut first = host.upgrader(NEW);
    first.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut first, Duration::from_secs(25)).await.is_none());
    drop(first);
    tokio::time::sleep(Duration::from_secs(20)).await;
    host.finish(&mut host.upgrader(NEW)).await;
    tokio::time::sleep(DRAIN * 2).await;
    assert_eq!(host.find("dd").state, RunState::Running);
    // The marker says that the image was tried, whoever tried it.
    assert_eq!(host.names(), ["dd", "dd.failed-1"]);
    assert!(host.auto_remove("dd"));
}

#[tokio::test(start_paused = true)]
async fn an_rm_delegate_that_cannot_be_replaced_is_not_copied_at_every_observation() {
    let mut host = Host::new();
    host.strategy = Strategy::StartFirst;
    host.free_memory = Some(1024);
    host.run_with("dd", auto_remove);
    let mut upgrader = host.upgrader(NEW);
    let report = host.scheduled_run(&mut upgrader).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "cannot_start_first");
    let writes = host.twin.writes().len();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        upgrader.reconcile().await.unwrap();
    }
    assert_eq!(host.twin.writes().len(), writes, "{:#?}", host.twin.writes());
}

/// What one of them has learned of the memory is not forgotten while another one learns it.
#[tokio::test(start_paused = true)]
async fn many_delegates_that_cannot_be_replaced_need_one_question_each() {
    let mut host = Host::new();
    host.strategy = Strategy::StartFirst;
    host.free_memory = Some(1024);
    for number in 0..10 {
        host.run(&format!("dd-{number}"));
    }
    let mut upgrader = host.upgrader(NEW);
    host.scheduled_run(&mut upgrader).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = host.twin.calls().len();
    let report = upgrader.reconcile().await.unwrap();
    for delegate in &report.delegates {
        assert_eq!(delegate.reason.as_str(), "cannot_start_first");
    }
    let calls = host.twin.calls().len() - before;
    assert!(calls < 500, "{calls} calls");
}

/// The process is gone between the second rename and the stop, and the successor gets unhealthy.
#[tokio::test(start_paused = true)]
async fn an_rm_delegate_whose_successor_gets_unhealthy_before_the_drain_gets_its_name_back() {
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
        first.start_run(Mode::Upgrade);
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
