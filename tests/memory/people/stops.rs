//! Somebody stops a container while a delegate is being replaced, or the engine does: that judges no image, and what its
//! owner stopped stays stopped.

use std::time::Duration;

use delegate_upgrader::container::RunState;
use delegate_upgrader::engine::Engine as _;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use delegate_upgrader::status::report::Report;
use serde_json::{Value, json};

use crate::rollout::host::{DRAIN, Host, NEW, OLD, Upgrader, auto_remove, host_network, row};
use kit::twin::{Behaviour, Event, Fault, Happened, Operation, OperatorAction};

/// Half of a start-first proof.
const HALF_PROOF: Duration = Duration::from_secs(9);

type Change = fn(&mut Value);

/// A policy with which an engine that restarts leaves a container alone.
fn no_policy(body: &mut Value) {
    body["HostConfig"]["RestartPolicy"] = json!({ "Name": "no" });
}

/// Restarted after a failure only, and not by an engine that restarts.
fn on_failure(body: &mut Value) {
    body["HostConfig"]["RestartPolicy"] = json!({ "Name": "on-failure", "MaximumRetryCount": 3 });
}

fn unchanged(_: &mut Value) {}

fn vanishes_alone(body: &mut Value) {
    auto_remove(body);
    host_network(body);
}

async fn after(host: &Host, time: Duration) -> Upgrader {
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut upgrader, time).await.is_none());
    upgrader
}

fn reason(report: &Report) -> &str {
    row(report, "dd").reason.as_str()
}

/// Preparing its successor takes several calls, and each can be slow.
#[tokio::test(start_paused = true)]
async fn one_that_somebody_stops_while_its_candidate_is_prepared_keeps_its_name() {
    for change in [no_policy as Change, unchanged] {
        let host = Host::new();
        let old = host.run_with("dd", |body| {
            host_network(body);
            change(body);
        });
        host.twin.set_faults(|call| match call.operation {
            Operation::InspectImage => Fault::Slow(Duration::from_secs(10)),
            _ => Fault::None,
        });
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::Upgrade);
        let stop = async {
            while !host.names().contains(&"dd.candidate".to_owned()) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            host.twin.by_hand(OperatorAction::Kill("dd".to_owned())).unwrap();
        };
        let (report, ()) = tokio::join!(host.finish(&mut upgrader), stop);
        assert_eq!(host.names(), ["dd"], "{report:?}");
        assert_eq!(
            (host.find("dd").id, host.find("dd").state),
            (old.clone(), RunState::Exited)
        );
        let renamed = |event: &&Event| matches!(event.what, Happened::Renamed { .. });
        assert_eq!(host.events_of(&old).iter().find(renamed), None);
    }
}

/// Under another name, beside one that failed, nothing on the host shows who ended it: only this process saw it in service
/// then.
#[tokio::test(start_paused = true)]
async fn one_that_somebody_stops_and_renames_after_its_candidate_could_not_be_started() {
    let host = Host::new();
    let old = host.run_with("dd", no_policy);
    host.twin.set_faults(|call| match call.operation {
        Operation::Start => Fault::RefuseWith(500, "no space left on device"),
        _ => Fault::None,
    });
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    host.finish(&mut upgrader).await;
    host.twin.clear_faults();
    assert_eq!(
        (host.names(), host.find("dd.failed-1").state),
        (vec!["dd".to_owned(), "dd.failed-1".to_owned()], RunState::Created)
    );
    host.twin.by_hand(OperatorAction::Kill("dd".to_owned())).unwrap();
    host.scheduled_run(&mut upgrader).await;
    let rename = OperatorAction::Rename("dd".to_owned(), "dd-kept".to_owned());
    host.twin.by_hand(rename).unwrap();
    host.scheduled_run(&mut upgrader).await;
    assert_eq!(
        (host.find("dd-kept").id, host.find("dd-kept").state),
        (old, RunState::Exited)
    );
}

/// The run ends without a verdict, on the old image, and the next one upgrades.
async fn ends_without_a_verdict(host: &Host, upgrader: &mut Upgrader, words: &str) {
    let report = host.finish(upgrader).await;
    let dd = row(&report, "dd");
    let reasons = ["inconclusive", "asked_to_stop"];
    assert!(reasons.contains(&dd.reason.as_str()), "{report:?}");
    assert!(dd.message.contains(words), "{}", dd.message);
    assert_eq!(
        (host.names(), host.find("dd").state, host.find("dd").image),
        (vec!["dd".to_owned()], RunState::Running, OLD.to_owned())
    );
    let report = host.scheduled_run(upgrader).await;
    assert!(!report.has_failures(), "{report:?}");
    assert_eq!(
        (host.names(), host.find("dd").image),
        (vec!["dd".to_owned()], NEW.to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_somebody_stops_is_not_judged() {
    for change in [unchanged as Change, no_policy, auto_remove] {
        let stop: fn(String) -> OperatorAction = OperatorAction::Stop;
        for act in [stop, OperatorAction::Remove] {
            let host = Host::new();
            host.run_with("dd", change);
            let mut upgrader = after(&host, HALF_PROOF).await;
            host.twin.by_hand(act("dd.candidate".to_owned())).unwrap();
            if !host.auto_remove("dd") && act("x".to_owned()) == OperatorAction::Remove("x".to_owned()) {
                // What somebody removed is gone, whoever did it.
                let report = host.finish(&mut upgrader).await;
                assert_eq!(reason(&report), "candidate_vanished", "{report:?}");
                assert_eq!(host.names(), ["dd"]);
                continue;
            }
            ends_without_a_verdict(&host, &mut upgrader, "somebody").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_one_that_somebody_stops_gives_way_to_the_old_one_and_is_not_judged() {
    for (change, time) in [
        // It proves itself, the old one has ended.
        (host_network as Change, DRAIN + Duration::from_secs(9)),
        (vanishes_alone, DRAIN + Duration::from_secs(9)),
        // It has taken over, the old one finishes its tasks.
        (unchanged, Duration::from_secs(40)),
    ] {
        let host = Host::new();
        host.run_with("dd", change);
        let mut upgrader = after(&host, time).await;
        let new = host
            .twin
            .glance()
            .into_iter()
            .find(|each| each.image == NEW && each.state == RunState::Running);
        let new = new.unwrap_or_else(|| panic!("{:?}", host.containers()));
        host.twin.by_hand(OperatorAction::Stop(new.name)).unwrap();
        ends_without_a_verdict(&host, &mut upgrader, "somebody").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_somebody_paused_is_not_judged() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = after(&host, HALF_PROOF).await;
    host.twin.pause(&host.find("dd.candidate").id);
    ends_without_a_verdict(&host, &mut upgrader, "somebody paused it").await;
}

/// A candidate that fails by itself is judged as ever.
#[tokio::test(start_paused = true)]
async fn an_image_that_ends_by_itself_is_judged() {
    for change in [no_policy as Change, auto_remove] {
        let host = Host::new();
        host.publish(NEW, Behaviour::exits(Duration::from_secs(8), 0));
        host.run_with("dd", change);
        let report = host.once(NEW).await;
        assert_eq!(reason(&report), "rejected", "{report:?}");
        assert_eq!(reason(&host.once(NEW).await), "quarantined");
    }
}

/// Where a socket proxy refuses the events, nothing is known.
#[tokio::test(start_paused = true)]
async fn without_the_engine_s_events_an_end_is_an_end() {
    let host = Host::new();
    host.run_with("dd", no_policy);
    host.twin.set_faults(|call| match call.operation {
        Operation::Events => Fault::Refuse(403),
        _ => Fault::None,
    });
    let mut upgrader = after(&host, HALF_PROOF).await;
    host.twin
        .by_hand(OperatorAction::Stop("dd.candidate".to_owned()))
        .unwrap();
    assert_eq!(reason(&host.finish(&mut upgrader).await), "rejected");
    host.publish("harness/delegate:26.04.1", Behaviour::default());
    let report = host.once("harness/delegate:26.04.1").await;
    assert_eq!(reason(&report), "up_to_date", "{report:?}");
}

/// The engine restarts or is killed during the proof. The upgrader in a container goes with it.
#[tokio::test(start_paused = true)]
async fn what_ended_with_the_engine_is_not_judged() {
    for change in [no_policy as Change, on_failure] {
        for killed in [false, true] {
            for same_process in [false, true] {
                let host = Host::new();
                let id = host.run_with("dd", change);
                let mut upgrader = after(&host, HALF_PROOF).await;
                let downtime = Duration::from_secs(3);
                if killed {
                    host.twin.kill_engine(downtime);
                } else {
                    host.twin.restart_engine(downtime);
                }
                tokio::time::sleep(2 * downtime).await;
                if !same_process {
                    upgrader = host.upgrader(NEW);
                    upgrader.start_run(Mode::ReportOnly);
                }
                let report = host.finish(&mut upgrader).await;
                assert_eq!(host.names(), ["dd"], "{killed} {same_process} {report:?}");
                // With a policy that starts both again, the replacement goes on.
                let starts_again = host.restart_policy("dd") != "no";
                assert_eq!(host.find("dd").state == RunState::Running, starts_again);
                assert_eq!(host.find("dd").id == id, !starts_again);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_delegate_that_its_owner_stops_or_pauses_stays_so() {
    for (change, time) in [
        (unchanged as Change, HALF_PROOF),
        (no_policy, HALF_PROOF),
        // Before its first step.
        (unchanged, Duration::from_secs(1)),
    ] {
        for pauses in [false, true] {
            let host = Host::new();
            let id = host.run_with("dd", change);
            let mut upgrader = after(&host, time).await;
            if pauses {
                host.twin.pause(&id);
            } else {
                host.twin.by_hand(OperatorAction::Stop("dd".to_owned())).unwrap();
            }
            let report = host.finish(&mut upgrader).await;
            assert_eq!(reason(&report), "not_running", "{report:?}");
            assert_eq!((host.names(), host.find("dd").id), (vec!["dd".to_owned()], id));
            assert_ne!(host.find("dd").state, RunState::Running);
        }
    }
}

/// `docker stop -t 600`, or Compose with a `stop_grace_period`: it finishes its tasks for longer than the proof takes.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_is_being_stopped_is_not_replaced() {
    for change in [unchanged as Change, host_network] {
        let host = Host::new();
        let id = host.run_with("dd", change);
        let mut upgrader = after(&host, Duration::from_secs(1)).await;
        let owner = host.twin.client(9);
        let grace = Duration::from_secs(600);
        delegate_upgrader::engine::Engine::stop(&owner, &id, grace)
            .await
            .unwrap();
        host.finish(&mut upgrader).await;
        tokio::time::sleep(DRAIN).await;
        let report = host.scheduled_run(&mut upgrader).await;
        assert_eq!(reason(&report), "not_running", "{report:?}");
        assert_eq!((host.names(), host.find("dd").id), (vec!["dd".to_owned()], id));
    }
}

/// Whatever was made for its replacement goes, once.
#[tokio::test(start_paused = true)]
async fn one_with_auto_remove_that_is_being_stopped_is_not_replaced() {
    let host = Host::new();
    let id = host.run_with("dd", |body| {
        host_network(body);
        vanishes_alone(body);
    });
    let owner = host.twin.client(9);
    let stop = delegate_upgrader::engine::Engine::stop(&owner, &id, Duration::from_secs(600));
    stop.await.unwrap();
    let report = host.once(NEW).await;
    assert_eq!(reason(&report), "asked_to_stop", "{report:?}");
    assert_eq!(host.writes_on("dd.attempt"), []);
    assert_eq!((host.names(), host.find("dd").id), (vec!["dd".to_owned()], id));
}

/// What runs again was not stopped.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_its_owner_restarted_is_replaced() {
    for change in [unchanged as Change, no_policy] {
        let host = Host::new();
        host.run_with("dd", change);
        let mut upgrader = after(&host, Duration::from_secs(5)).await;
        host.twin
            .by_hand(OperatorAction::Restart("dd".to_owned()))
            .unwrap();
        let report = host.finish(&mut upgrader).await;
        assert!(!report.has_failures(), "{report:?}");
        assert_eq!(
            (host.names(), host.find("dd").image),
            (vec!["dd".to_owned()], NEW.to_owned())
        );
    }
}

/// Its withdrawal fails, and then the engine does not tell who stopped it.
#[tokio::test(start_paused = true)]
async fn what_somebody_stopped_is_not_forgotten_with_a_failed_call() {
    let host = Host::new();
    let id = host.run_with("dd", host_network);
    let owner = host.twin.client(9);
    owner.stop(&id, Duration::from_secs(600)).await.unwrap();
    let (mut first, mut asked) = (true, false);
    host.twin.set_faults(move |call| match call.operation {
        Operation::Events if std::mem::replace(&mut asked, true) => Fault::ErrBefore,
        Operation::Rename if std::mem::take(&mut first) => Fault::ErrBefore,
        _ => Fault::None,
    });
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "asked_to_stop", "{report:?}");
    assert_eq!((host.names(), host.find("dd").id), (vec!["dd".to_owned()], id));
}

/// The proof of an image that crashes waits for no answer of the engine's events, however long each takes.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_ended_is_rejected_though_the_engine_never_says_who_stopped_it() {
    let host = Host::new();
    host.publish(NEW, Behaviour::exits(Duration::from_secs(1), 3));
    let id = host.run_with("dd", no_policy);
    host.twin.set_faults(|call| match call.operation {
        Operation::Events => Fault::Hang,
        _ => Fault::None,
    });
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "rejected", "{report:?}");
    assert_eq!(
        (host.find("dd").id, host.find("dd").state),
        (id, RunState::Running)
    );
}

/// The engine that restarts has forgotten who stopped it, and would have started it again if it had ended it itself.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_its_owner_stopped_before_the_engine_restarted_stays_so() {
    for is_new_process in [false, true] {
        let host = Host::new();
        let id = host.run_with("dd", unchanged);
        let mut upgrader = after(&host, HALF_PROOF).await;
        host.twin.by_hand(OperatorAction::Kill("dd".to_owned())).unwrap();
        host.twin.restart_engine_live(Duration::from_secs(45));
        if is_new_process {
            upgrader = host.upgrader(NEW);
            upgrader.start_run(Mode::Upgrade);
        }
        let report = host.finish(&mut upgrader).await;
        assert_eq!(host.names(), ["dd"], "{is_new_process} {report:?}");
        let dd = host.find("dd");
        assert_eq!((dd.id, dd.state), (id, RunState::Exited), "{is_new_process}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_the_engine_would_have_started_again_was_stopped_by_somebody_whatever_events_tell() {
    for fault in [Fault::ErrBefore, Fault::Refuse(403)] {
        let host = Host::new();
        let id = host.run_with("dd", unchanged);
        let mut upgrader = after(&host, HALF_PROOF).await;
        host.twin.set_faults(move |call| match call.operation {
            Operation::Events => fault.clone(),
            _ => Fault::None,
        });
        host.twin.by_hand(OperatorAction::Kill("dd".to_owned())).unwrap();
        let report = host.finish(&mut upgrader).await;
        assert_eq!(host.names(), ["dd"], "{report:?}");
        let dd = host.find("dd");
        assert_eq!((dd.id, dd.state), (id.clone(), RunState::Exited));
    }
}
