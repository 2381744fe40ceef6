//! Old ones under another name that come back.

use std::time::Duration;

use delegate_upgrader::container::RunState;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use serde_json::{Value, json};

use super::renames::{KEPT, draining, one, rename, running, upgrade_for};
use crate::rollout::host::{DRAIN, Host, NEW, OLD, good, host_network};
use kit::twin::{Behaviour, Fault, Operation, OperatorAction};

/// A candidate that somebody starts too early crashes, and the process that withdraws it is killed. The next one does not
/// know any more that the container is the old one: only the label of the withdrawn candidate has its policy.
#[tokio::test(start_paused = true)]
async fn the_old_one_of_a_candidate_that_is_withdrawn_as_the_process_dies() {
    let host = Host::new();
    host.publish(NEW, Behaviour::exits(Duration::from_secs(2), 3));
    let (old, mut upgrader) = upgrade_for(&host, host_network, DRAIN / 4).await;
    rename(&host, &draining(&host), KEPT);
    assert_eq!(host.restart_policy(KEPT), "no");
    let start = OperatorAction::Start("dd.candidate".to_owned());
    host.twin.by_hand(start).unwrap();
    assert!(host.go_on(&mut upgrader, DRAIN / 2).await.is_none());
    drop(upgrader);
    let withdrawn = host.names().into_iter().find(|name| name.contains("withdrawn"));
    assert_eq!(host.find(&withdrawn.unwrap()).state, RunState::Exited);
    assert_eq!(host.find(KEPT).state, RunState::Running);
    host.once(NEW).await;
    assert_eq!(
        (host.find(KEPT).id, host.restart_policy(KEPT)),
        (old, "unless-stopped".to_owned())
    );
}

/// Somebody starts the candidate beside it, which ends for want of the port. Only its label says whose the old one is.
#[tokio::test(start_paused = true)]
async fn the_old_one_whose_candidate_somebody_started_beside_it() {
    let host = Host::new();
    host.publish(NEW, good());
    let without_policy = |body: &mut Value| {
        host_network(body);
        body["HostConfig"]["RestartPolicy"] = json!({ "Name": "no", "MaximumRetryCount": 0 });
    };
    let (old, mut upgrader) = upgrade_for(&host, without_policy, DRAIN / 2).await;
    rename(&host, &draining(&host), KEPT);
    let start = OperatorAction::Start("dd.candidate".to_owned());
    host.twin.by_hand(start).unwrap();
    // It has ended when it is looked at next.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(host.find("dd.candidate").state, RunState::Exited);
    host.finish(&mut upgrader).await;
    assert_eq!(
        (host.find(KEPT).id, running(&host)),
        (old.clone(), one(KEPT, OLD))
    );
    let (told, ended, _) = host.end_of(&old).unwrap();
    assert_eq!(ended - told, DRAIN);
    host.once(NEW).await;
    assert_eq!(
        (running(&host), host.names()),
        (one(KEPT, NEW), vec![KEPT.to_owned()])
    );
}

/// Somebody changed a setting of it, so that the candidate, which was never started, is not what would replace it.
#[tokio::test(start_paused = true)]
async fn the_old_one_that_somebody_changes_while_it_drains() {
    let host = Host::new();
    let (old, mut upgrader) = upgrade_for(&host, host_network, DRAIN / 2).await;
    rename(&host, &draining(&host), KEPT);
    let memory = OperatorAction::SetMemory(KEPT.to_owned(), 3 << 30);
    host.twin.by_hand(memory).unwrap();
    host.finish(&mut upgrader).await;
    assert_eq!((host.find(KEPT).id, running(&host)), (old, one(KEPT, OLD)));
    assert_eq!(host.restart_policy(KEPT), "unless-stopped");
    host.once(NEW).await;
    assert_eq!(
        (running(&host), host.names()),
        (one(KEPT, NEW), vec![KEPT.to_owned()])
    );
}

/// It has its policy back already, and the process is killed before it starts it: that it ended before its successor was
/// started is all that shows that it was asked to.
#[tokio::test(start_paused = true)]
async fn the_old_one_that_has_its_policy_back_as_the_process_dies() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    let (old, mut upgrader) = upgrade_for(&host, host_network, DRAIN * 2).await;
    assert_eq!(host.find("dd.candidate").state, RunState::Running);
    rename(&host, &draining(&host), KEPT);
    host.twin.set_faults(|call| match call.operation {
        Operation::Start => Fault::ErrBefore,
        _ => Fault::None,
    });
    while host.restart_policy(KEPT) == "no" {
        let pause = Duration::from_secs(1);
        assert!(host.go_on(&mut upgrader, pause).await.is_none());
    }
    drop(upgrader);
    assert_eq!(host.names(), ["dd.failed-1", KEPT]);
    assert_eq!(host.find(KEPT).state, RunState::Exited);
    host.twin.set_faults(|_| Fault::None);
    host.once(NEW).await;
    assert_eq!((host.find(KEPT).id, running(&host)), (old, one(KEPT, OLD)));
}

/// Somebody stopped it beside a candidate that kept crashing, so it stays down, also for a new process.
#[tokio::test(start_paused = true)]
async fn not_the_one_that_somebody_stopped_before_its_candidate_crashed_for_the_last_time() {
    let host = Host::new();
    host.publish(NEW, Behaviour::exits(Duration::from_secs(5), 3));
    let old = host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    let candidate = || host.names().contains(&"dd.candidate".to_owned());
    while !candidate() || host.find("dd.candidate").state == RunState::Created {
        let _ = host.go_on(&mut upgrader, Duration::from_millis(500)).await;
    }
    host.twin.by_hand(OperatorAction::Kill("dd".to_owned())).unwrap();
    host.finish(&mut upgrader).await;
    drop(upgrader);
    assert!(
        host.names().contains(&"dd.failed-1".to_owned()),
        "{:?}",
        host.names()
    );
    rename(&host, "dd", KEPT);
    host.once(NEW).await;
    let kept = host.find(KEPT);
    assert_eq!((kept.id, kept.state), (old, RunState::Exited));
}
