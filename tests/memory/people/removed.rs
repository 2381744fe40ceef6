//! Somebody removes a delegate while it is being replaced, or stops one with `--rm`: it stays removed.

use std::time::Duration;

use delegate_upgrader::reconcile::upgrade_run::Mode;
use serde_json::Value;

use crate::rollout::host::{DRAIN, Host, NEW, Upgrader, auto_remove};
use kit::twin::OperatorAction;

/// Half of a start-first proof.
const HALF_PROOF: Duration = Duration::from_secs(9);

async fn after(host: &Host, time: Duration) -> Upgrader {
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut upgrader, time).await.is_none());
    upgrader
}

/// Nothing is left, and the next run brings nothing back.
async fn stays_removed(host: &Host, upgrader: &mut Upgrader) {
    host.finish(upgrader).await;
    assert_eq!(host.names(), Vec::<String>::new());
    host.scheduled_run(upgrader).await;
    assert_eq!(host.names(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_delegate_that_is_removed_while_its_candidate_proves_itself_stays_removed() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = after(&host, HALF_PROOF).await;
    host.twin.by_hand(OperatorAction::Remove("dd".into())).unwrap();
    stays_removed(&host, &mut upgrader).await;
}

/// Another process finds only what is left.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_is_removed_while_no_upgrader_runs_stays_removed() {
    let host = Host::new();
    host.run("dd");
    drop(after(&host, HALF_PROOF).await);
    host.twin.by_hand(OperatorAction::Remove("dd".into())).unwrap();
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    stays_removed(&host, &mut upgrader).await;
}

#[tokio::test(start_paused = true)]
async fn one_with_auto_remove_that_is_stopped_while_its_candidate_proves_itself_stays_removed() {
    for hand in [OperatorAction::Stop, OperatorAction::Remove] {
        let host = Host::new();
        host.run_with("dd", auto_remove);
        let mut upgrader = after(&host, HALF_PROOF).await;
        assert!(
            host.names().contains(&"dd.standby".to_owned()),
            "{:?}",
            host.names()
        );
        host.twin.by_hand(hand("dd".into())).unwrap();
        stays_removed(&host, &mut upgrader).await;
    }
}

/// The old one finishes its tasks, and then it goes.
#[tokio::test(start_paused = true)]
async fn a_new_one_that_is_removed_while_the_old_one_drains_stays_removed() {
    for change in [(|_| {}) as fn(&mut Value), auto_remove] {
        let host = Host::new();
        let old = host.run_with("dd", change);
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::Upgrade);
        let is_draining = || host.names().iter().any(|name| name.starts_with("dd.draining-"));
        while !(is_draining() && host.names().contains(&"dd".to_owned()) && host.find("dd").image == NEW) {
            assert!(host.go_on(&mut upgrader, Duration::from_secs(1)).await.is_none());
        }
        host.twin.by_hand(OperatorAction::Remove("dd".into())).unwrap();
        stays_removed(&host, &mut upgrader).await;
        let (asked, ended, code) = host.end_of(&old).expect("it ended");
        assert_eq!((ended - asked >= DRAIN, code), (true, 0));
    }
}
