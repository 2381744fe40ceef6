//! Events of delegates between two observations.

use std::time::Duration;

use delegate_upgrader::reconcile::upgrade_run::Mode;

use super::host::{DRAIN, HOUR, Host, NEW, OLD, Upgrader, good, row};
use kit::twin::{Behaviour, Call, Fault, Operation, OperatorAction};

/// An upgrader that hears of changes, at rest.
async fn at_rest(host: &Host) -> Upgrader {
    let mut upgrader = host.upgrader(OLD).watching();
    host.scheduled_run(&mut upgrader).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    upgrader.reconcile().await.unwrap();
    upgrader
}

/// Whether it goes on by itself within a second.
async fn goes_on(upgrader: &mut Upgrader) -> bool {
    let second = Duration::from_secs(1);
    tokio::time::timeout(second, upgrader.answered()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_to_a_delegate_is_looked_at_within_a_second() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = at_rest(&host).await;
    assert!(!goes_on(&mut upgrader).await, "nothing happened");
    for act in [
        OperatorAction::Kill("dd".to_owned()),
        OperatorAction::Start("dd".to_owned()),
        OperatorAction::Rename("dd".to_owned(), "mine".to_owned()),
        OperatorAction::Remove("mine".to_owned()),
    ] {
        let what = format!("{act:?}");
        host.twin.by_hand(act).unwrap();
        assert!(goes_on(&mut upgrader).await, "{what}");
        upgrader.reconcile().await.unwrap();
        assert!(!goes_on(&mut upgrader).await, "{what} has been looked at");
    }
}

/// Something else may wake it just then.
#[tokio::test(start_paused = true)]
async fn what_nobody_awaited_to_its_end_is_not_forgotten() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = at_rest(&host).await;
    host.twin.by_hand(OperatorAction::Kill("dd".to_owned())).unwrap();
    let moment = Duration::from_millis(100);
    let awaited = tokio::time::timeout(moment, upgrader.answered()).await;
    assert!(awaited.is_err(), "a burst takes longer");
    assert!(goes_on(&mut upgrader).await);
}

/// It ends by itself in the middle of an hour in which nothing is to be done.
#[tokio::test(start_paused = true)]
async fn so_is_an_end_by_itself() {
    let host = Host::new();
    host.twin
        .add_image(OLD, host.twin.image(Behaviour::exits(HOUR, 1)));
    host.run("dd");
    let mut upgrader = at_rest(&host).await;
    upgrader.answered().await;
    let late = host.twin.elapsed() - HOUR;
    assert!(late <= Duration::from_secs(1), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn what_happens_to_others_is_not_looked_at() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = at_rest(&host).await;
    host.run_with("web", |body| body["Env"] = serde_json::json!([]));
    host.twin.by_hand(OperatorAction::Kill("web".to_owned())).unwrap();
    assert!(!goes_on(&mut upgrader).await);
}

/// A drain that ends long before its deadline is over at once.
#[tokio::test(start_paused = true)]
async fn an_old_container_that_has_finished_its_tasks_is_removed_at_once() {
    let host = Host::new();
    host.twin
        .add_image(OLD, host.twin.image(Behaviour::drains(DRAIN)));
    host.publish(NEW, good());
    let old = host.run("dd");
    let mut upgrader = host.upgrader(NEW).watching();
    upgrader.start_run(Mode::Upgrade);
    host.finish(&mut upgrader).await;
    let (_, ended, _) = host.end_of(&old).unwrap();
    let events = host.events_of(&old);
    let removed = events.last().unwrap().at;
    assert!(removed - ended <= Duration::from_secs(1), "{:?}", removed - ended);
}

/// Where a socket proxy refuses it, nothing is asked again, and the next observation shows what happened.
#[tokio::test(start_paused = true)]
async fn an_engine_that_tells_nothing_is_looked_at() {
    let watches = |host: &Host| {
        let calls = host.twin.calls();
        let is_watch = |call: &&Call| call.operation == Operation::Watch;
        calls.iter().filter(is_watch).count()
    };
    for (fault, asked) in [
        (Fault::Refuse(403), 1),
        (Fault::Refuse(400), 2),
        (Fault::ErrBefore, 2),
    ] {
        let host = Host::new();
        host.run("dd");
        host.twin.set_faults(move |call| match call.operation {
            Operation::Watch => fault.clone(),
            _ => Fault::None,
        });
        let mut upgrader = at_rest(&host).await;
        host.twin.by_hand(OperatorAction::Kill("dd".to_owned())).unwrap();
        assert!(!goes_on(&mut upgrader).await);
        let report = upgrader.reconcile().await.unwrap();
        assert_eq!(row(&report, "dd").reason.as_str(), "not_running");
        tokio::time::sleep(Duration::from_secs(31)).await;
        assert_eq!(watches(&host), asked);
    }
}

/// The engine forgets who listened.
#[tokio::test(start_paused = true)]
async fn an_engine_that_was_restarted_is_listened_to_again() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = at_rest(&host).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    host.twin.restart_engine(Duration::from_secs(5));
    assert!(goes_on(&mut upgrader).await, "the connection ended");
    tokio::time::sleep(Duration::from_secs(60)).await;
    upgrader.reconcile().await.unwrap();
    host.twin.by_hand(OperatorAction::Kill("dd".to_owned())).unwrap();
    assert!(goes_on(&mut upgrader).await);
}
