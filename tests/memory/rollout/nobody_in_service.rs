//! No delegate in service is the worst state: the upgrader takes the quickest way to a delegate, whatever else is in progress.

use std::time::Duration;

use chrono::TimeDelta;
use delegate_upgrader::container::RunState;
use kit::twin::{Behaviour, Call, Glance, Operation, OperatorAction, Wellness};
use serde_json::{Value, json};

use super::faults::{killed_after_writes, killed_during, killed_when};
use super::host::{DRAIN, HOUR, Host, NEW, OLD, bad_images, good, host_network, never_restarted, row};

/// The engine doubles the pause between restarts, up to a minute.
fn restarts_always(body: &mut Value) {
    body["HostConfig"]["RestartPolicy"] = json!({ "Name": "always" });
}

#[tokio::test(start_paused = true)]
async fn a_rejected_candidate_ignoring_sigterm_delays_a_restore_by_ten_seconds() {
    let host = Host::new();
    let deaf = Behaviour {
        on_stop: Behaviour::ignores_stop().on_stop,
        ..Behaviour::never_healthy()
    };
    host.publish(NEW, deaf);
    let old = host.run_with("dd", host_network);
    assert_eq!(host.reason(NEW).await, "rejected");
    let failed = host.find("dd.failed-1").id;
    let (told, ended, code) = host.end_of(&failed).unwrap();
    assert_eq!((ended - told, code), (Duration::from_secs(10), 137));
    assert_eq!(host.find("dd").id, old);
    assert_eq!(host.find("dd").state, RunState::Running);
}

/// The time in its name is still to come, so each new life seems to be the life that was asked to stop.
#[tokio::test(start_paused = true)]
async fn the_old_container_serves_again_at_once_if_the_clock_was_set_back() {
    let host = Host::new();
    host.twin.set_behaviour(OLD, &Behaviour::drains(HOUR / 2));
    host.publish(NEW, Behaviour::never_healthy());
    let old = host.run_with("dd", host_network);
    let mut upgrader = host.starting(NEW);
    host.continue_for(&mut upgrader, HOUR / 4).await;
    assert!(host.names().iter().any(|name| name.starts_with("dd.draining-")));
    host.twin.jump_clock(TimeDelta::hours(-3));
    host.continue_for(&mut upgrader, HOUR).await;
    assert_eq!(host.find("dd").id, old);
    assert_eq!(host.find("dd").state, RunState::Running);
}

/// The candidate may have taken tasks by then.
#[tokio::test(start_paused = true)]
async fn a_rejected_candidate_with_tasks_gets_its_full_stop_timeout() {
    let mut host = Host::new();
    host.endpoint.tasks = |twin, _| twin.glance().iter().any(|it| it.image == NEW).then_some(1);
    let deaf = Behaviour {
        on_stop: Behaviour::ignores_stop().on_stop,
        ..Behaviour::never_healthy()
    };
    host.publish(NEW, deaf);
    host.run_with("dd", host_network);
    assert_eq!(host.reason(NEW).await, "rejected");
    let (told, ended, _) = host.end_of(&host.find("dd.failed-1").id).unwrap();
    assert!(
        ended - told >= crate::settings::STOP_TIMEOUT,
        "{:?}",
        ended - told
    );
}

/// It serves, so it may have accepted tasks, although it reports none.
#[tokio::test(start_paused = true)]
async fn gives_a_rejected_container_that_served_its_full_stop_timeout() {
    let host = Host::new();
    let deaf = Behaviour::ignores_stop().on_stop;
    let ill = good().with_health(Wellness::For(Duration::from_secs(200)));
    host.publish(NEW, Behaviour { on_stop: deaf, ..ill });
    let old = host.run_with("dd", host_network);
    let removes = move |call: &Call| call.operation == Operation::Remove && call.id.as_ref() == Some(&old);
    assert!(killed_when(&host, removes).await);
    tokio::time::sleep(Duration::from_secs(300)).await;
    let mut other = host.begin(NEW, Duration::from_secs(30)).await;
    let mut rejecting = host.begin(NEW, Duration::from_secs(30)).await;
    let rejected = host.find("dd").id;
    let stops = |call: &Call| call.operation == Operation::Stop;
    assert!(killed_during(&host, stops, host.finish(&mut rejecting)).await);
    assert_eq!(host.find("dd.failed-1").id, rejected);
    host.finish(&mut other).await;
    let (told, ended, _) = host.end_of(&rejected).unwrap();
    assert!(ended - told >= crate::settings::STOP_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_copy_serves_while_the_old_container_finishes_its_tasks() {
    for is_ill in [false, true] {
        let host = Host::new();
        host.twin.set_behaviour(OLD, &Behaviour::drains(HOUR / 2));
        let old = host.run_with("dd", never_restarted);
        let before = host.twin.document("dd").unwrap();
        // The new one works when it takes the name, and fails soon after.
        let behaviour = if is_ill {
            good().with_health(Wellness::For(Duration::from_secs(200)))
        } else {
            Behaviour::exits(Duration::from_secs(200), 3)
        };
        host.publish(NEW, behaviour);
        let mut upgrader = host.starting(NEW);
        host.continue_for(&mut upgrader, HOUR / 3).await;
        let serving = host.find("dd");
        assert_eq!((serving.image.as_str(), serving.state), (OLD, RunState::Running));
        assert_ne!(serving.id, old, "a copy");
        assert_eq!(host.twin.health(&serving.id), Some(true));
        let draining = host.twin.glance().into_iter().find(|it| it.id == old).unwrap();
        assert_eq!(draining.state, RunState::Running, "it still finishes its tasks");
        host.finish(&mut upgrader).await;
        let (told, ended, code) = host.end_of(&old).unwrap();
        assert_eq!((ended - told, code), (HOUR / 2, 0));
        assert_eq!(host.names(), ["dd", "dd.failed-1"]);
        assert_eq!(
            host.twin.document("dd").unwrap()["HostConfig"],
            before["HostConfig"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn health_only_mode_still_completes_a_stop_first_replacement() {
    for behaviour in [good(), Behaviour::never_healthy()] {
        for done in 1.. {
            let mut host = Host::new();
            host.publish(NEW, behaviour.clone());
            host.run_with("dd", host_network);
            let finished = !killed_after_writes(&host, done).await;
            host.settings.policy.health_only = true;
            let mut upgrader = host.upgrader(NEW);
            host.scheduled_run(&mut upgrader).await;
            assert_eq!(host.find("dd").state, RunState::Running, "after {done} writes");
            if finished {
                break;
            }
        }
    }
}

/// The old container ended after the replacement was done. It stays down when the owner stops its successor.
#[tokio::test(start_paused = true)]
async fn health_only_mode_respects_an_owners_stop() {
    let mut host = Host::new();
    host.publish(NEW, good());
    host.run_with("dd", never_restarted);
    assert!(killed_when(&host, |call| call.operation == Operation::Remove).await);
    host.settings.policy.health_only = true;
    let mut upgrader = host.starting(NEW);
    host.continue_for(&mut upgrader, HOUR).await;
    host.by_hand(OperatorAction::Stop, "dd");
    for _ in 0..60 {
        host.continue_for(&mut upgrader, Duration::from_secs(30)).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
    let serving = host.find("dd");
    assert_eq!((serving.image.as_str(), serving.state), (NEW, RunState::Exited));
}

#[tokio::test(start_paused = true)]
async fn recovers_after_a_prune_of_the_old_container_and_its_image() {
    for behaviour in bad_images() {
        let host = Host::new();
        host.twin.publish(OLD, host.twin.image(Behaviour::drains(DRAIN)));
        host.publish(NEW, behaviour.clone());
        host.run_with("dd", host_network);
        let before = host.twin.document("dd").unwrap();
        let mut upgrader = host.starting(NEW);
        let runs = |it: &Glance| it.name == "dd.candidate" && it.state == RunState::Running;
        let mut is_at_rest = false;
        while !is_at_rest && !host.twin.glance().iter().any(runs) {
            let report = host.continue_for(&mut upgrader, Duration::from_millis(500)).await;
            is_at_rest = report.is_some();
        }
        // docker system prune --all
        host.twin.by_hand(OperatorAction::PruneContainers).unwrap();
        host.twin.by_hand(OperatorAction::PruneImages).unwrap();
        let report = host.finish(&mut upgrader).await;
        let now = host.find("dd");
        assert_eq!(
            (now.image.as_str(), now.state),
            (OLD, RunState::Running),
            "{behaviour:?} {report:?}"
        );
        assert_eq!(
            host.twin.document("dd").unwrap()["HostConfig"],
            before["HostConfig"]
        );
    }
}

/// The canary protects working delegates.
#[tokio::test(start_paused = true)]
async fn replicas_are_replaced_together_if_none_works() {
    let host = Host::new();
    host.twin
        .set_behaviour(OLD, &Behaviour::exits(Duration::from_millis(50), 1));
    let names = ["aa", "bb", "cc"];
    for name in names {
        host.run_with(name, restarts_always);
    }
    let mut upgrader = host.starting(NEW);
    host.continue_for(&mut upgrader, Duration::from_secs(6)).await;
    let candidates = host
        .names()
        .iter()
        .filter(|name| name.ends_with(".candidate"))
        .count();
    assert_eq!(candidates, 3, "{:?}", host.containers());
    host.finish(&mut upgrader).await;
    assert_eq!(host.names(), names);
    assert!(host.containers().iter().all(|(_, _, image)| image == NEW));
}

/// Upgrades exist for this very case: the version is no longer accepted, and the delegate ends at once.
#[tokio::test(start_paused = true)]
async fn replaces_a_delegate_that_exits_at_once() {
    for change in [|_: &mut Value| (), host_network as fn(&mut Value)] {
        for done in 1.. {
            let host = Host::new();
            host.twin
                .set_behaviour(OLD, &Behaviour::exits(Duration::from_millis(50), 1));
            let old = host.run_with("dd", |body| {
                change(body);
                restarts_always(body);
            });
            let finished = !killed_after_writes(&host, done).await;
            let begun = host.twin.elapsed();
            let report = host.once(NEW).await;
            let now = host.find("dd");
            assert_eq!(
                now.image,
                NEW,
                "after {done} writes: {:?} {report:?}",
                host.containers()
            );
            assert_ne!(now.id, old);
            assert!(
                host.twin.elapsed() - begun < HOUR / 6,
                "{:?}",
                host.twin.elapsed() - begun
            );
            assert_eq!(host.names(), ["dd"], "after {done} writes");
            if finished {
                assert_eq!(row(&report, "dd").reason.as_str(), "up_to_date");
                break;
            }
        }
    }
}
