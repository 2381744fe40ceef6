//! A container that the engine cannot describe.

use std::collections::BTreeMap;
use std::time::Duration;

use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::Intent;
use serde_json::json;

use super::faults::killed_when;
use super::host::{Host, NEW, NEWER, OLD, Upgrader, good, row};
use kit::twin::{Call, Fault, Operation, OperatorAction};

/// Makes each inspect of this container meet this fault.
fn hide(host: &Host, name: &str, fault: Fault) {
    let name = name.to_owned();
    host.fault_where(fault, move |call| {
        call.operation == Operation::Inspect && call.subject == name
    });
}

fn inspects_of(host: &Host, name: &str) -> usize {
    let calls = host.twin.calls();
    let is_one = |call: &&Call| call.operation == Operation::Inspect && call.subject == name;
    calls.iter().filter(is_one).count()
}

/// An upgrader that has seen all containers.
async fn knowing(host: &Host) -> Upgrader {
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Intent::Report);
    upgrader.reconcile().await.unwrap();
    upgrader
}

/// With an error or without any answer, a container that may not be a delegate is skipped, and inspected again later.
#[tokio::test(start_paused = true)]
async fn skips_and_retries_an_unknown_container_that_cannot_be_inspected() {
    for fault in [Fault::Refuse(500), Fault::Hang] {
        let host = Host::new();
        host.run("d1");
        host.run("d2");
        hide(&host, "d2", fault);
        let mut upgrader = host.upgrader(NEW);
        let report = host.scheduled_run(&mut upgrader).await;
        assert!(
            !report.has_failures() && report.delegates.len() == 1,
            "{report:?}"
        );
        assert!(inspects_of(&host, "d2") > 1);
        assert_eq!(host.writes_on("d2"), []);
        assert_eq!(
            (host.find("d1").image.as_str(), host.find("d2").image.as_str()),
            (NEW, OLD)
        );
        host.twin.clear_faults();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let report = host.scheduled_run(&mut upgrader).await;
        assert!(!report.has_failures(), "{report:?}");
        host.assert_settled(&["d1", "d2"], NEW, "");
    }
}

#[tokio::test(start_paused = true)]
async fn skips_a_delegate_that_cannot_be_inspected_and_serves_the_others() {
    let host = Host::new();
    let old = host.run("d1");
    host.run("d2");
    let mut upgrader = knowing(&host).await;
    hide(&host, "d1", Fault::Refuse(500));
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
        "a single run ends and says so"
    );
    assert!(inspects_of(&host, "d1") > 5, "it was looked at again");
    assert_eq!((host.find("d1").id, host.writes_on("d1").len()), (old, 0));
    assert_eq!(host.find("d2").image, NEW);
    host.twin.clear_faults();
    assert!(!host.scheduled_run(&mut upgrader).await.has_failures());
    host.assert_settled(&["d1", "d2"], NEW, "");
}

/// A momentary problem delays it only for a moment.
#[tokio::test(start_paused = true)]
async fn serves_a_delegate_as_soon_as_it_can_be_inspected_again() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = knowing(&host).await;
    hide(&host, "dd", Fault::Refuse(500));
    upgrader.start_run(Intent::Upgrade);
    let report = upgrader.reconcile().await.unwrap();
    let wait = report.next_check.unwrap() - host.twin.wall_clock();
    assert!(wait <= chrono::TimeDelta::seconds(2));
    host.twin.clear_faults();
    let report = upgrader.reconcile().await.unwrap();
    assert_ne!(row(&report, "dd").reason.as_str(), "engine_error", "{report:?}");
}

/// While one inspect hangs, the other answers grow old: a step must not rest on answers from a minute ago.
#[tokio::test(start_paused = true)]
async fn never_acts_on_data_read_before_a_hung_inspect() {
    for nth in 1..60 {
        let host = Host::new();
        host.run("d1");
        host.run("d2");
        let mut inspects = 0;
        host.fault_where(Fault::HangAfter, move |call| {
            inspects += u32::from(call.operation == Operation::Inspect);
            call.operation == Operation::Inspect && inspects == nth
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
        host.assert_settled(&["d1", "d2"], NEW, "");
    }
}

/// An earlier process left a rollout half done, and one of its containers at a time cannot be inspected. The upgrader
/// waits for a container that may be serving. Any other failed inspect takes no delegate out of service.
#[tokio::test(start_paused = true)]
async fn leaves_a_rollout_alone_while_what_may_serve_cannot_be_inspected() {
    use Operation::{Remove, Rename, Start, Stop};
    for stage in [Start, Rename, Stop, Remove] {
        for part in 0..2 {
            let host = Host::new();
            host.run("dd");
            assert!(killed_when(&host, move |call| call.operation == stage).await);
            let names = host.names();
            assert_eq!(names.len(), 2, "{stage:?}");
            hide(&host, &names[part], Fault::Refuse(500));
            let before = host.twin.writes().len();
            let context = format!("{stage:?}, {names:?} without {}", names[part]);
            let reason = host.reason(NEW).await;
            if names[part] == "dd" || stage == Stop {
                assert_eq!(reason, "engine_error", "{context}");
                assert_eq!(host.twin.writes().len(), before, "{context}");
            }
            host.twin.clear_faults();
            host.once(NEW).await;
            host.assert_settled_on("dd", NEW, &context);
            assert_eq!(host.fewest_working(), 1, "{context}");
        }
    }
}

/// The end of a pull does not show that the engine can describe its containers again.
#[tokio::test(start_paused = true)]
async fn changes_nothing_when_a_pull_ends_during_failed_inspects() {
    let host = Host::new();
    host.publish(NEWER, good());
    host.run("dd");
    assert!(killed_when(&host, |call| call.operation == Operation::Stop).await);
    let mut upgrader = host.starting(NEWER);
    let report = upgrader.reconcile().await.unwrap();
    assert_eq!(row(&report, "dd").reason.as_str(), "pulling");
    tokio::task::yield_now().await;
    hide(&host, &host.names()[1], Fault::Refuse(500));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = host.twin.writes().len();
    let report = upgrader.reconcile().await.unwrap();
    assert_eq!(row(&report, "dd").reason.as_str(), "engine_error", "{report:?}");
    assert_eq!(host.twin.writes().len(), before);
}

/// No delegate was found; or the engine cannot be reached at all, or hangs on every call.
#[tokio::test(start_paused = true)]
async fn observation_fails_on_engine_errors() {
    let host = Host::new();
    host.run("dd");
    hide(&host, "dd", Fault::Refuse(500));
    let mut upgrader = host.starting(NEW);
    assert!(upgrader.reconcile().await.is_err());
    host.twin.clear_faults();
    assert!(!host.scheduled_run(&mut upgrader).await.has_failures());
    host.assert_settled_on("dd", NEW, "");

    host.twin.run("stranger", &json!({ "Image": OLD }));
    hide(&host, "stranger", Fault::ErrBefore);
    assert!(upgrader.reconcile().await.is_err());

    for number in 0..20 {
        host.run(&format!("d{number}"));
    }
    host.fault(Operation::Inspect, Fault::Hang);
    let begun = host.twin.elapsed();
    assert!(host.upgrader(NEW).reconcile().await.is_err());
    let took = host.twin.elapsed() - begun;
    assert!(took <= Duration::from_secs(61), "{took:?}");
}

/// A known engine fault: the inspect of one container never ends, while all other calls are answered.
#[tokio::test(start_paused = true)]
async fn names_a_container_whose_inspect_hangs_and_delays_the_others_once() {
    let host = Host::new();
    host.run("d1");
    host.run("d2");
    let mut upgrader = knowing(&host).await;
    hide(&host, "d1", Fault::Hang);
    upgrader.reconcile().await.unwrap();
    let begun = host.twin.elapsed();
    let report = upgrader.reconcile().await.unwrap();
    let took = host.twin.elapsed() - begun;
    assert!(took < Duration::from_secs(2), "{took:?}");
    let d1 = row(&report, "d1");
    assert_eq!(d1.reason.as_str(), "engine_error");
    let words = "d1: the engine did not answer within 1s";
    assert!(d1.message.contains(words), "{d1:?}");
    assert_eq!(row(&report, "d2").reason.as_str(), "awaiting_schedule");
    let report = host.scheduled_run(&mut upgrader).await;
    assert!(
        row(&report, "d1").failed && row(&report, "d2").reason.runs_the_target(),
        "{report:?}"
    );
    host.twin.clear_faults();
    assert!(!host.scheduled_run(&mut upgrader).await.has_failures());
}

/// A list and its inspects do not show the same moment.
#[tokio::test(start_paused = true)]
async fn repeats_an_observation_if_something_changed_meanwhile() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    host.fault_where(Fault::Slow(Duration::from_secs(10)), |call| {
        call.operation == Operation::Inspect && call.index < 3
    });
    let others = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let rename = OperatorAction::Rename("dd".to_owned(), "dd-old".to_owned());
        host.twin.by_hand(rename).unwrap();
        host.run("dd");
    };
    let (report, ()) = tokio::join!(upgrader.reconcile(), others);
    let delegates = report.unwrap().delegates.into_iter();
    let names: Vec<String> = delegates.map(|delegate| delegate.container).collect();
    assert_eq!(names, ["dd", "dd-old"]);
}
