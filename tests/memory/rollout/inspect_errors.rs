//! A container that the engine cannot describe.

use std::collections::BTreeMap;
use std::time::Duration;

use delegate_upgrader::container::RunState;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use serde_json::json;

use super::faults::killed_when;
use super::host::{Host, NEW, NEWER, OLD, good, row};
use kit::twin::{Call, Fault, Operation, OperatorAction};

/// The engine answers 500 whenever one of these is inspected.
fn hide(host: &Host, names: &'static [&str]) {
    host.twin.set_faults(move |call| match call.operation {
        Operation::Inspect if names.contains(&call.subject.as_str()) => Fault::Refuse(500),
        _ => Fault::None,
    });
}

fn inspects_of(host: &Host, name: &str) -> usize {
    let calls = host.twin.calls();
    let is_one = |call: &&Call| call.operation == Operation::Inspect && call.subject == name;
    calls.iter().filter(is_one).count()
}

fn runs(name: &str, image: &str) -> (String, RunState, String) {
    (name.to_owned(), RunState::Running, image.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_cannot_be_inspected_is_left_out_and_retried() {
    let host = Host::new();
    host.run("dd");
    host.twin.run("broken", &json!({ "Image": OLD }));
    hide(&host, &["broken"]);
    let report = host.once(NEW).await;
    assert!(!report.has_failures(), "{report:?}");
    assert_eq!(report.delegates.len(), 1);
    assert_eq!(host.containers(), [runs("broken", OLD), runs("dd", NEW)]);
    assert!(inspects_of(&host, "broken") > 1);
    assert_eq!(host.writes_on("broken"), []);
}

#[tokio::test(start_paused = true)]
async fn a_delegate_that_was_a_stranger_is_one_as_soon_as_it_can_be_inspected() {
    let host = Host::new();
    host.run("d1");
    host.run("d2");
    hide(&host, &["d2"]);
    let mut upgrader = host.upgrader(NEW);
    let report = host.scheduled_run(&mut upgrader).await;
    assert_eq!(report.delegates.len(), 1, "{report:?}");
    host.twin.clear_faults();
    let report = host.scheduled_run(&mut upgrader).await;
    assert!(!report.has_failures(), "{report:?}");
    assert_eq!(host.containers(), [runs("d1", NEW), runs("d2", NEW)]);
}

#[tokio::test(start_paused = true)]
async fn a_known_delegate_that_cannot_be_inspected_is_left_alone_and_the_others_go_on() {
    let host = Host::new();
    let old = host.run("d1");
    host.run("d2");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::ReportOnly);
    upgrader.reconcile().await.unwrap();
    hide(&host, &["d1"]);
    let report = host.scheduled_run(&mut upgrader).await;
    let d1 = row(&report, "d1");
    assert_eq!(
        (d1.reason.as_str(), d1.workload.as_str()),
        ("engine_error", "docker-delegate")
    );
    assert!(
        d1.message.contains("d1") && d1.message.contains("something is wrong with it"),
        "{d1:?}"
    );
    assert!(
        d1.failed && !report.is_in_progress(),
        "a single pass ends and says so"
    );
    assert!(inspects_of(&host, "d1") > 5, "it was looked at again");
    assert_eq!(host.containers(), [runs("d1", OLD), runs("d2", NEW)]);
    assert_eq!((host.find("d1").id, host.writes_on("d1").len()), (old, 0));

    host.twin.clear_faults();
    let report = host.scheduled_run(&mut upgrader).await;
    assert!(!report.has_failures(), "{report:?}");
    assert_eq!(host.containers(), [runs("d1", NEW), runs("d2", NEW)]);
}

/// A moment's trouble costs a moment.
#[tokio::test(start_paused = true)]
async fn a_delegate_is_served_as_soon_as_it_can_be_inspected_again() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::ReportOnly);
    upgrader.reconcile().await.unwrap();
    hide(&host, &["dd"]);
    upgrader.start_run(Mode::Upgrade);
    let report = upgrader.reconcile().await.unwrap();
    assert!(report.next_check.unwrap() - host.twin.wall_clock() <= chrono::TimeDelta::seconds(2));
    host.twin.clear_faults();
    let report = upgrader.reconcile().await.unwrap();
    assert_ne!(row(&report, "dd").reason.as_str(), "engine_error", "{report:?}");
}

/// While one inspect hangs, the others grow old: a step must not rest on what they showed a minute ago.
#[tokio::test(start_paused = true)]
async fn nothing_is_done_by_what_was_read_before_an_inspect_that_hung() {
    for nth in 1..60 {
        let host = Host::new();
        host.run("d1");
        host.run("d2");
        let mut inspects = 0;
        host.twin.set_faults(move |call| {
            inspects += u32::from(call.operation == Operation::Inspect);
            let is_it = call.operation == Operation::Inspect && inspects == nth;
            if is_it { Fault::HangAfter } else { Fault::None }
        });
        host.once(NEW).await;
        let mut read = BTreeMap::new();
        for call in host.twin.calls().iter() {
            let id = call.id.as_ref().map(|id| id.as_str().to_owned());
            match (call.operation, id) {
                (Operation::Inspect, Some(id)) => _ = read.insert(id, call.at),
                (operation, Some(id)) if operation.is_write() => {
                    let age = call.at - read.get(&id).copied().unwrap_or(call.at);
                    assert!(
                        age < Duration::from_secs(5),
                        "{nth}: {call:?} by what is {age:?} old"
                    );
                }
                _ => {}
            }
        }
        assert_eq!(host.containers(), [runs("d1", NEW), runs("d2", NEW)]);
    }
}

/// Half a rollout that an earlier process left behind, with each of its containers unreadable in turn.
#[tokio::test(start_paused = true)]
async fn no_part_of_a_rollout_is_touched_while_another_part_of_it_cannot_be_inspected() {
    for stage in [
        Operation::Start,
        Operation::Rename,
        Operation::SetRestartPolicy,
        Operation::Stop,
        Operation::Remove,
    ] {
        for part in 0..2 {
            let host = Host::new();
            host.run("dd");
            assert!(killed_when(&host, move |call| call.operation == stage).await);
            let names = host.names();
            assert_eq!(names.len(), 2, "{stage:?}");
            let hidden = names[part].clone();
            host.twin.set_faults(move |call| match call.operation {
                Operation::Inspect if call.subject == hidden => Fault::Refuse(500),
                _ => Fault::None,
            });
            let before = host.twin.writes().len();
            let report = host.once(NEW).await;
            let context = format!("{stage:?}, {names:?} without {}", names[part]);
            assert_eq!(
                row(&report, "dd").reason.as_str(),
                "engine_error",
                "{context}: {report:?}"
            );
            assert_eq!(host.twin.writes().len(), before, "{context}");
            host.twin.clear_faults();
            host.once(NEW).await;
            host.assert_settled_on("dd", NEW, &context);
            assert_eq!(host.fewest_working(), 1, "{context}");
        }
    }
}

/// The end of a pull is no sign that the engine can describe its containers again.
#[tokio::test(start_paused = true)]
async fn a_pull_that_ends_during_failed_inspections_changes_nothing() {
    let host = Host::new();
    host.publish(NEWER, good());
    host.run("dd");
    assert!(killed_when(&host, |call| call.operation == Operation::SetRestartPolicy).await);
    let mut upgrader = host.upgrader(NEWER);
    upgrader.start_run(Mode::Upgrade);
    let report = upgrader.reconcile().await.unwrap();
    assert_eq!(row(&report, "dd").reason.as_str(), "pulling");
    tokio::task::yield_now().await;
    let old = host.names()[1].clone();
    host.twin.set_faults(move |call| match call.operation {
        Operation::Inspect if call.subject == old => Fault::Refuse(500),
        _ => Fault::None,
    });
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = host.twin.writes().len();
    let report = upgrader.reconcile().await.unwrap();
    assert_eq!(row(&report, "dd").reason.as_str(), "engine_error", "{report:?}");
    assert_eq!(host.twin.writes().len(), before);
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_observation_without_delegates_does_not_count() {
    let host = Host::new();
    host.run("dd");
    hide(&host, &["dd"]);
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(upgrader.reconcile().await.is_err());
    host.twin.clear_faults();
    let report = host.scheduled_run(&mut upgrader).await;
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on("dd", NEW, "");
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_engine_is_not_blamed_on_one_container() {
    let host = Host::new();
    host.run("dd");
    host.twin.run("stranger", &json!({ "Image": OLD }));
    host.twin.set_faults(|call| match call.operation {
        Operation::Inspect if call.subject == "stranger" => Fault::ErrBefore,
        _ => Fault::None,
    });
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::ReportOnly);
    assert!(upgrader.reconcile().await.is_err());
}

/// A known fault of engines: the inspect of one container never ends, and all other calls are answered.
#[tokio::test(start_paused = true)]
async fn a_container_whose_inspect_hangs_is_named_and_delays_the_others_once() {
    let host = Host::new();
    host.run("d1");
    host.run("d2");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::ReportOnly);
    upgrader.reconcile().await.unwrap();
    host.twin.set_faults(|call| match call.operation {
        Operation::Inspect if call.subject == "d1" => Fault::Hang,
        _ => Fault::None,
    });
    upgrader.reconcile().await.unwrap();
    let begun = host.twin.elapsed();
    let report = upgrader.reconcile().await.unwrap();
    let took = host.twin.elapsed() - begun;
    assert!(took < Duration::from_secs(2), "{took:?}");
    let d1 = row(&report, "d1");
    assert_eq!(d1.reason.as_str(), "engine_error");
    assert!(
        d1.message.contains("d1: the engine did not answer within 1s"),
        "{d1:?}"
    );
    assert_eq!(row(&report, "d2").reason.as_str(), "awaiting_schedule");
    let report = host.scheduled_run(&mut upgrader).await;
    assert!(
        row(&report, "d1").failed && row(&report, "d2").runs_the_target(),
        "{report:?}"
    );
    host.twin.clear_faults();
    let report = host.scheduled_run(&mut upgrader).await;
    assert!(!report.has_failures(), "{report:?}");
}

/// Where nothing is known yet, a stranger that hangs hides no delegate.
#[tokio::test(start_paused = true)]
async fn a_stranger_whose_inspect_hangs_hides_no_delegate() {
    let host = Host::new();
    host.run("dd");
    host.twin.run("stranger", &json!({ "Image": OLD }));
    host.twin.set_faults(|call| match call.operation {
        Operation::Inspect if call.subject == "stranger" => Fault::Hang,
        _ => Fault::None,
    });
    let report = host.once(NEW).await;
    assert!(row(&report, "dd").runs_the_target(), "{report:?}");
}

/// An engine that hangs on everything is no fault of its containers.
#[tokio::test(start_paused = true)]
async fn an_engine_that_inspects_nothing_is_an_error_of_the_engine() {
    let host = Host::new();
    for number in 0..20 {
        host.run(&format!("d{number}"));
    }
    host.twin.set_faults(|call| match call.operation {
        Operation::Inspect => Fault::Hang,
        _ => Fault::None,
    });
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::ReportOnly);
    let begun = host.twin.elapsed();
    assert!(upgrader.reconcile().await.is_err());
    let took = host.twin.elapsed() - begun;
    assert!(took <= Duration::from_secs(61), "{took:?}");
}

/// A list and its inspects are not one moment: after a change in between they are repeated.
#[tokio::test(start_paused = true)]
async fn a_torn_observation_is_repeated() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    host.twin.set_faults(|call| match call.operation {
        Operation::Inspect if call.index < 3 => Fault::Slow(Duration::from_secs(10)),
        _ => Fault::None,
    });
    let others = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        host.twin
            .by_hand(OperatorAction::Rename("dd".to_owned(), "dd-old".to_owned()))
            .unwrap();
        host.run("dd");
    };
    let (report, ()) = tokio::join!(upgrader.reconcile(), others);
    let report = report.unwrap();
    let names: Vec<_> = report
        .delegates
        .iter()
        .map(|delegate| delegate.container.as_str())
        .collect();
    assert_eq!(names, ["dd", "dd-old"]);
}
