//! Containers that somebody renames while a delegate is being replaced.

use std::time::Duration;

use chrono::TimeDelta;
use delegate_upgrader::container::{ContainerId, RunState};
use delegate_upgrader::reconcile::upgrade_run::Mode;
use serde_json::{Value, json};

use crate::rollout::host::{
    DRAIN, HOUR, Host, NEW, NEWER, OLD, Upgrader, auto_remove, good, host_network, row,
};
use kit::twin::{Behaviour, Fault, Happened, OnStop, Operation, OperatorAction};

pub(super) const KEPT: &str = "kept";

pub(super) fn rename(host: &Host, from: &str, to: &str) {
    let by_hand = OperatorAction::Rename(from.to_owned(), to.to_owned());
    host.twin.by_hand(by_hand).unwrap();
}

pub(super) fn draining(host: &Host) -> String {
    let names = host.names();
    names.into_iter().find(|name| name.contains("draining")).unwrap()
}

/// Runs a delegate whose image is replaced for so long.
pub(super) async fn upgrade_for(
    host: &Host,
    change: fn(&mut Value),
    time: Duration,
) -> (ContainerId, Upgrader) {
    let old = host.run_with("dd", change);
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut upgrader, time).await.is_none());
    (old, upgrader)
}

pub(super) fn running(host: &Host) -> Vec<(String, String)> {
    let containers = host.containers().into_iter();
    let running = containers.filter(|(_, state, _)| *state == RunState::Running);
    running.map(|(name, _, image)| (name, image)).collect()
}

pub(super) fn one(name: &str, image: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), image.to_owned())]
}

/// Stop-first: the successor that is to take its place is not given up for that.
#[tokio::test(start_paused = true)]
async fn the_old_one_while_it_drains_or_after_it_has_ended() {
    for after in [DRAIN / 2, DRAIN + Duration::from_secs(5)] {
        for is_new_process in [false, true] {
            let host = Host::new();
            host.publish(
                NEW,
                Behaviour {
                    ready_after: Duration::from_secs(30),
                    ..good()
                },
            );
            let (old, mut upgrader) = upgrade_for(&host, host_network, after).await;
            rename(&host, &draining(&host), KEPT);
            if is_new_process {
                upgrader = host.upgrader(NEW);
                upgrader.start_run(Mode::Upgrade);
            }
            let report = host.finish(&mut upgrader).await;
            assert!(!row(&report, "dd").failed, "{report:?}");
            assert_eq!(running(&host), one("dd", NEW));
            assert_eq!(host.restart_policy("dd"), "unless-stopped");
            // What somebody keeps is not removed, and it stays as it ended.
            assert_eq!(
                (host.find(KEPT).id, host.find(KEPT).state),
                (old.clone(), RunState::Exited)
            );
            let (told, ended, _) = host.end_of(&old).unwrap();
            assert_eq!(ended - told, DRAIN);
            host.once(NEW).await;
            assert_eq!(host.names(), ["dd", KEPT]);
        }
    }
}

/// It drains because of a request that this process never had an answer to, and no policy shows that.
#[tokio::test(start_paused = true)]
async fn the_old_one_whose_request_to_stop_had_no_answer() {
    let host = Host::new();
    let old = host.run_with("dd", |body| {
        host_network(body);
        body["HostConfig"]["RestartPolicy"] = json!({ "Name": "no", "MaximumRetryCount": 0 });
    });
    host.twin.set_faults(|call| match call.operation {
        Operation::Stop => Fault::ErrAfter,
        _ => Fault::None,
    });
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut upgrader, DRAIN / 2).await.is_none());
    let name = draining(&host);
    assert_eq!(host.find(&name).state, RunState::Running);
    rename(&host, &name, KEPT);
    host.twin.clear_faults();
    let report = host.finish(&mut upgrader).await;
    assert!(!row(&report, "dd").failed, "{report:?}");
    assert_eq!(running(&host), one("dd", NEW));
    assert_eq!(
        (host.find(KEPT).id, host.find(KEPT).state),
        (old.clone(), RunState::Exited)
    );
    let (told, ended, _) = host.end_of(&old).unwrap();
    assert_eq!(ended - told, DRAIN);
    // Two of them cannot run at once.
    let events = host.events_of(&host.find("dd").id);
    let started = events.iter().find(|event| event.what == Happened::Started);
    let started = started.expect("it was started").at;
    assert!(started >= ended, "{started:?} is before {ended:?}");
}

/// The same with a bad image: it comes back, with the policy that it had.
#[tokio::test(start_paused = true)]
async fn the_old_one_of_a_candidate_that_fails() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    let (old, mut upgrader) = upgrade_for(&host, host_network, DRAIN / 2).await;
    rename(&host, &draining(&host), KEPT);
    let report = host.finish(&mut upgrader).await;
    assert!(report.has_failures(), "{report:?}");
    assert_eq!((host.find(KEPT).id, running(&host)), (old, one(KEPT, OLD)));
    assert_eq!(host.restart_policy(KEPT), "unless-stopped");
}

/// Start-first: its label says that it is the successor, so that the drain goes on and no second delegate comes up.
#[tokio::test(start_paused = true)]
async fn the_new_one_while_the_old_one_drains() {
    for is_auto_remove in [false, true] {
        let change = if is_auto_remove {
            auto_remove
        } else {
            |_: &mut Value| ()
        };
        for is_new_process in [false, true] {
            let host = Host::new();
            let (old, mut upgrader) = upgrade_for(&host, change, Duration::from_secs(30)).await;
            rename(&host, "dd", KEPT);
            if is_new_process {
                upgrader = host.upgrader(NEW);
                upgrader.start_run(Mode::Upgrade);
            }
            host.finish(&mut upgrader).await;
            host.once(NEW).await;
            // One with `--rm` has vanished by the end of its drain, and nothing says any more that its successor had the name.
            let name = if is_auto_remove { "dd" } else { KEPT };
            assert_eq!(running(&host), one(name, NEW));
            assert_eq!(host.names(), [name]);
            let (told, ended, _) = host.end_of(&old).unwrap();
            assert_eq!(ended - told, DRAIN);
        }
    }
}

/// It is still the candidate, and becomes the delegate.
#[tokio::test(start_paused = true)]
async fn the_candidate_while_it_proves_itself() {
    let orders = [|_: &mut Value| (), host_network, auto_remove];
    for change in orders {
        for is_new_process in [false, true] {
            let host = Host::new();
            host.publish(
                NEW,
                Behaviour {
                    ready_after: Duration::from_secs(20),
                    ..good()
                },
            );
            host.run_with("dd", change);
            let mut upgrader = host.upgrader(NEW);
            upgrader.start_run(Mode::Upgrade);
            while !host
                .containers()
                .iter()
                .any(|(name, state, _)| name == "dd.candidate" && *state == RunState::Running)
            {
                assert!(host.go_on(&mut upgrader, Duration::from_secs(1)).await.is_none());
            }
            rename(&host, "dd.candidate", KEPT);
            if is_new_process {
                upgrader = host.upgrader(NEW);
                upgrader.start_run(Mode::Upgrade);
            }
            let report = host.finish(&mut upgrader).await;
            assert!(!report.has_failures(), "{is_new_process} {report:?}");
            assert_eq!(running(&host), one("dd", NEW));
            assert_eq!(host.names(), ["dd"]);
        }
    }
}

/// It is a delegate of its own under its new name, and the candidate was made for nothing.
#[tokio::test(start_paused = true)]
async fn the_one_in_service_while_its_candidate_proves_itself() {
    let host = Host::new();
    let (old, mut upgrader) = upgrade_for(&host, |_| (), Duration::from_secs(8)).await;
    rename(&host, "dd", KEPT);
    host.finish(&mut upgrader).await;
    assert_eq!((host.find(KEPT).id, running(&host)), (old, one(KEPT, OLD)));
    assert_eq!(host.restart_policy(KEPT), "unless-stopped");
    let report = host.once(NEW).await;
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on(KEPT, NEW, "");
}

/// What somebody keeps for later, and starts one day, is theirs.
#[tokio::test(start_paused = true)]
async fn an_old_one_that_somebody_kept_and_starts_again_is_left_alone() {
    let host = Host::new();
    let (old, mut upgrader) = upgrade_for(&host, |_| (), Duration::from_secs(30)).await;
    rename(&host, &draining(&host), KEPT);
    let report = host.finish(&mut upgrader).await;
    assert!(!row(&report, "dd").failed, "{report:?}");
    assert_eq!(
        (running(&host), host.find(KEPT).state),
        (one("dd", NEW), RunState::Exited)
    );
    host.twin
        .by_hand(OperatorAction::Restart(KEPT.to_owned()))
        .unwrap();
    let before = host.events_of(&old).len();
    host.go_on(&mut upgrader, HOUR).await;
    let events = &host.events_of(&old)[before..];
    assert!(events.is_empty(), "{events:?}");
}

/// They keep what it was, stopped, and made another one with its name: nothing of that is ours, whatever failed before.
#[tokio::test(start_paused = true)]
async fn the_one_in_service_that_its_owner_keeps_beside_a_new_one() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    let old = host.run_with("dd", |_| ());
    let report = host.once(NEW).await;
    assert!(report.has_failures(), "{report:?}");
    host.twin
        .by_hand(OperatorAction::SetRestartPolicy("dd".to_owned(), "no".to_owned()))
        .unwrap();
    host.twin.by_hand(OperatorAction::Kill("dd".to_owned())).unwrap();
    rename(&host, "dd", KEPT);
    host.run_with("dd", |_| ());
    let before = host.events_of(&old).len();
    host.once(NEW).await;
    let events = &host.events_of(&old)[before..];
    assert!(events.is_empty(), "{events:?}");
    assert_eq!(running(&host), one("dd", OLD));
}

/// The clock says that it ended before its candidate was created, and no policy shows what was done to it.
#[tokio::test(start_paused = true)]
async fn the_old_one_after_the_clock_was_set_back() {
    let host = Host::new();
    let change = |body: &mut Value| {
        host_network(body);
        body["HostConfig"]["RestartPolicy"] = json!({ "Name": "no", "MaximumRetryCount": 0 });
    };
    host.publish(
        NEW,
        Behaviour {
            ready_after: Duration::from_secs(30),
            ..good()
        },
    );
    let (_, mut upgrader) = upgrade_for(&host, change, DRAIN / 2).await;
    host.twin.jump_clock(TimeDelta::hours(-1));
    let time = DRAIN / 2 + Duration::from_secs(5);
    assert!(host.go_on(&mut upgrader, time).await.is_none());
    rename(&host, &draining(&host), KEPT);
    let report = host.finish(&mut upgrader).await;
    assert!(!row(&report, "dd").failed, "{report:?}");
    assert_eq!(running(&host), one("dd", NEW));
}

/// Nothing of ours but its copy is left once its candidate is gone, and it still vanishes when it has finished its tasks.
#[tokio::test(start_paused = true)]
async fn the_old_one_with_auto_remove_whose_candidate_goes() {
    let host = Host::new();
    let change = |body: &mut Value| {
        host_network(body);
        auto_remove(body);
    };
    host.publish(NEW, good());
    let (old, mut upgrader) = upgrade_for(&host, change, DRAIN / 2).await;
    rename(&host, &draining(&host), KEPT);
    host.go_on(&mut upgrader, Duration::from_secs(15)).await;
    let remove = OperatorAction::Remove("dd.candidate".to_owned());
    host.twin.by_hand(remove).unwrap();
    host.finish(&mut upgrader).await;
    let (told, ended, _) = host.end_of(&old).unwrap();
    assert_eq!(ended - told, DRAIN);
    let names: Vec<String> = running(&host).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["dd"]);
    assert!(host.auto_remove("dd"));
}

/// Its own predecessor is gone, and one from before that still drains: that one is not needed any more.
#[tokio::test(start_paused = true)]
async fn the_new_one_behind_which_only_an_older_one_drains() {
    let host = Host::new();
    let drains = Behaviour::drains(HOUR / 2);
    host.twin.add_image(OLD, host.twin.image(drains));
    host.publish(NEWER, good());
    let (old, _) = upgrade_for(&host, |_| (), Duration::from_secs(60)).await;
    let mut upgrader = host.upgrader(NEWER);
    upgrader.start_run(Mode::Upgrade);
    let time = DRAIN + Duration::from_secs(60);
    assert!(host.go_on(&mut upgrader, time).await.is_none());
    assert_eq!(host.names().len(), 2, "{:?}", host.names());
    assert_eq!(host.find("dd").image, NEWER);
    rename(&host, "dd", KEPT);
    host.finish(&mut upgrader).await;
    assert_eq!(host.names(), [KEPT]);
    assert_eq!(running(&host), one(KEPT, NEWER));
    let starts = host.events_of(&old).into_iter();
    assert_eq!(starts.filter(|event| event.what == Happened::Started).count(), 1);
}

/// Only its successor's label names it, and that one is replaced in turn and ends first.
#[tokio::test(start_paused = true)]
async fn the_old_one_of_one_that_is_replaced_in_turn() {
    for is_new_process in [false, true] {
        let host = Host::new();
        let drains = Behaviour::drains(HOUR / 2);
        host.twin.add_image(OLD, host.twin.image(drains));
        host.publish(NEWER, good());
        let (old, _) = upgrade_for(&host, |_| (), Duration::from_secs(62)).await;
        rename(&host, &draining(&host), KEPT);
        let mut upgrader = host.upgrader(NEWER);
        upgrader.start_run(Mode::Upgrade);
        assert!(host.go_on(&mut upgrader, HOUR / 4).await.is_none());
        assert_eq!(host.find("dd").image, NEWER);
        if is_new_process {
            upgrader = host.upgrader(NEWER);
            upgrader.start_run(Mode::Upgrade);
        }
        host.finish(&mut upgrader).await;
        assert_eq!(running(&host), one("dd", NEWER));
        assert_eq!(host.names(), ["dd", KEPT]);
        let (told, ended, _) = host.end_of(&old).unwrap();
        assert_eq!(ended - told, HOUR / 2);
    }
}

/// Its successor, which is given up for that, may still have tasks, and its port.
#[tokio::test(start_paused = true)]
async fn an_old_one_that_is_started_under_their_name_is_replaced_once_its_first_successor_has_ended() {
    let host = Host::new();
    let never_healthy = Behaviour::never_healthy();
    host.publish(
        NEW,
        Behaviour {
            on_stop: OnStop::Drain(DRAIN * 5),
            ..never_healthy
        },
    );
    let (old, mut upgrader) = upgrade_for(&host, host_network, DRAIN + Duration::from_secs(5)).await;
    rename(&host, &draining(&host), KEPT);
    host.twin.by_hand(OperatorAction::Start(KEPT.to_owned())).unwrap();
    host.go_on(&mut upgrader, Duration::from_secs(5)).await;
    let withdrawn = |host: &Host| {
        let names = running(host).into_iter();
        names.filter(|(name, _)| name.contains("withdrawn")).count()
    };
    assert_eq!(withdrawn(&host), 1, "{:?}", host.names());

    host.publish(NEWER, good());
    let mut upgrader = host.upgrader(NEWER);
    upgrader.start_run(Mode::Upgrade);
    host.go_on(&mut upgrader, DRAIN * 2).await;
    assert_eq!(withdrawn(&host), 1);
    // Beside it the old one finds its port taken, as a new one would.
    let names = host.names();
    assert_eq!((names.len(), names[1].as_str()), (2, KEPT), "{names:?}");
    host.finish(&mut upgrader).await;
    assert_eq!(running(&host), one(KEPT, NEWER));
    let is_gone = host.twin.glance().iter().all(|container| container.id != old);
    assert!(is_gone, "{:?}", host.containers());
}

/// Its image failed before; what else somebody did to it says nothing of a drain.
#[tokio::test(start_paused = true)]
async fn the_one_in_service_after_its_image_has_failed() {
    let changes: [fn(&mut Value); 2] = [|_| {}, auto_remove];
    for change in changes {
        let host = Host::new();
        host.publish(NEW, Behaviour::never_healthy());
        let old = host.run_with("dd", change);
        host.once(NEW).await;
        assert!(host.names().contains(&"dd.failed-1".to_owned()));
        let policy = OperatorAction::SetRestartPolicy("dd".to_owned(), "no".to_owned());
        let _ = host.twin.by_hand(policy);
        rename(&host, "dd", KEPT);
        let before = host.events_of(&old).len();
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::Upgrade);
        host.go_on(&mut upgrader, HOUR / 2).await;
        let ends = &host.events_of(&old)[before..];
        assert!(
            ends.iter().all(|event| event.what != Happened::Signalled),
            "{ends:?}"
        );
        assert_eq!((host.find(KEPT).id, running(&host)), (old, one(KEPT, OLD)));
        assert_eq!(host.restart_policy(KEPT), "no");
    }
}
