//! Events of delegates between two observations.

use std::time::Duration;

use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::Intent;

use super::host::{HOUR, Host, NEW, OLD, Upgrader, row};
use kit::twin::{Behaviour, Fault, Operation, OperatorAction};

const SECOND: Duration = Duration::from_secs(1);

/// An idle upgrader that watches for changes.
async fn at_rest(host: &Host) -> Upgrader {
    let mut upgrader = host.upgrader(OLD).watching();
    host.scheduled_run(&mut upgrader).await;
    tokio::time::sleep(SECOND).await;
    upgrader.reconcile().await.unwrap();
    upgrader
}

/// Whether something wakes it within a second.
async fn wakes(upgrader: &mut Upgrader) -> bool {
    tokio::time::timeout(SECOND, upgrader.answered()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn notices_any_change_to_a_delegate_within_a_second() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = at_rest(&host).await;
    assert!(!wakes(&mut upgrader).await, "nothing happened");
    for act in [
        OperatorAction::Kill("dd".to_owned()),
        OperatorAction::Start("dd".to_owned()),
        OperatorAction::Rename("dd".to_owned(), "mine".to_owned()),
        OperatorAction::Remove("mine".to_owned()),
    ] {
        let what = format!("{act:?}");
        host.twin.by_hand(act).unwrap();
        assert!(wakes(&mut upgrader).await, "{what}");
        upgrader.reconcile().await.unwrap();
        assert!(!wakes(&mut upgrader).await, "{what} has been observed");
    }
    // The delegate ends by itself in the middle of an idle hour.
    let host = Host::new();
    host.twin.set_behaviour(OLD, &Behaviour::exits(HOUR, 1));
    host.run("dd");
    at_rest(&host).await.answered().await;
    let late = host.twin.elapsed() - HOUR;
    assert!(late <= SECOND, "{late:?}");
}

/// Another event may wake the upgrader at that moment.
#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_does_not_lose_an_event() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = at_rest(&host).await;
    host.by_hand(OperatorAction::Kill, "dd");
    let awaited = tokio::time::timeout(SECOND / 10, upgrader.answered()).await;
    assert!(awaited.is_err(), "a burst takes longer");
    assert!(wakes(&mut upgrader).await);
}

#[tokio::test(start_paused = true)]
async fn ignores_events_of_other_containers() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = at_rest(&host).await;
    host.run_with("web", |body| body["Env"] = serde_json::json!([]));
    host.by_hand(OperatorAction::Kill, "web");
    assert!(!wakes(&mut upgrader).await);
}

/// A drain that finishes long before its deadline is over at once.
#[tokio::test(start_paused = true)]
async fn removes_an_old_container_as_soon_as_it_has_finished_its_tasks() {
    let host = Host::new();
    let old = host.run("dd");
    let mut upgrader = host.upgrader(NEW).watching();
    upgrader.start_run(Intent::Upgrade);
    host.finish(&mut upgrader).await;
    let (_, ended, _) = host.end_of(&old).unwrap();
    let removed = host.events_of(&old).last().unwrap().at;
    assert!(removed - ended <= SECOND, "{:?}", removed - ended);
}

/// If a socket proxy refuses the events, the upgrader does not ask again, and the next observation shows the change.
#[tokio::test(start_paused = true)]
async fn keeps_polling_if_the_engine_reports_no_events() {
    for (fault, asked) in [
        (Fault::Refuse(403), 1),
        (Fault::Refuse(400), 2),
        (Fault::ErrBefore, 2),
    ] {
        let host = Host::new();
        host.run("dd");
        host.fault(Operation::Watch, fault);
        let mut upgrader = at_rest(&host).await;
        host.by_hand(OperatorAction::Kill, "dd");
        assert!(!wakes(&mut upgrader).await);
        let report = upgrader.reconcile().await.unwrap();
        assert_eq!(row(&report, "dd").reason.as_str(), "not_running");
        tokio::time::sleep(SECOND * 31).await;
        assert_eq!(host.count(Operation::Watch), asked);
    }
}

/// A restarted engine has lost the connection.
#[tokio::test(start_paused = true)]
async fn resumes_watching_a_restarted_engine() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = at_rest(&host).await;
    tokio::time::sleep(SECOND * 60).await;
    host.twin.restart_engine(SECOND * 5);
    assert!(wakes(&mut upgrader).await, "the connection ended");
    tokio::time::sleep(SECOND * 60).await;
    upgrader.reconcile().await.unwrap();
    host.by_hand(OperatorAction::Kill, "dd");
    assert!(wakes(&mut upgrader).await);
}
