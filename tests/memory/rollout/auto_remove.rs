//! Delegates that were started with `--rm`: Docker removes them once they have ended, and when it restarts. Their
//! successors have no `--rm`; the upgrader itself removes them once they have ended.

use std::time::Duration;

use delegate_upgrader::container::RunState;
use delegate_upgrader::engine::Engine as _;
use serde_json::{Value, json};

use super::faults::{killed_when, points, stride};
use super::host::{
    DRAIN, GROUP, HOUR, Host, NEW, NEWER, OLD, auto_remove, bad_images, good, host_network, row,
};
use kit::twin::{Behaviour, Fault, Operation, OperatorAction, Wellness, delegate_body};

const SECOND: Duration = Duration::from_secs(1);

fn stops_first(body: &mut Value) {
    auto_remove(body);
    host_network(body);
}

const WAYS: [fn(&mut Value); 2] = [auto_remove, stops_first];

fn assert_is_back(host: &Host, context: &str) {
    let now = host.find("dd");
    let state = (now.image.as_str(), now.state);
    assert_eq!(
        state,
        (OLD, RunState::Running),
        "{context}: {:?}",
        host.containers()
    );
    assert!(host.is_fleeting("dd"), "{context}: --rm is lost");
}

/// As Docker would: soon, unless the container is restarted.
#[tokio::test(start_paused = true)]
async fn removes_the_successor_of_an_rm_delegate_once_it_has_ended() {
    let host = Host::new();
    host.run_with("dd", auto_remove);
    host.twin.set_behaviour(NEW, &Behaviour::default());
    let mut upgrader = host.upgrader(NEW);
    host.scheduled_run(&mut upgrader).await;
    host.by_hand(OperatorAction::Restart, "dd");
    assert!(!host.scheduled_run(&mut upgrader).await.has_failures());
    host.assert_fleeting_on("dd", NEW, "it was restarted");
    host.by_hand(OperatorAction::Kill, "dd");
    assert!(host.continue_for(&mut upgrader, SECOND * 9).await.is_none());
    assert_eq!(host.find("dd").state, RunState::Exited);
    host.finish(&mut upgrader).await;
    assert!(host.names().is_empty(), "{:?}", host.names());
}

/// The old container is back unchanged, and the image is in quarantine.
#[tokio::test(start_paused = true)]
async fn keeps_rm_delegate_and_settings_despite_bad_image() {
    for bad in bad_images() {
        for change in WAYS {
            let host = Host::new();
            host.publish(NEW, bad.clone());
            host.run_with("dd", change);
            assert_eq!(host.reason(NEW).await, "rejected");
            assert_is_back(&host, &format!("{bad:?}"));
            assert_eq!(host.names(), ["dd", "dd.failed-1"]);
            // An hour later the image is tried again, and the attempts are still counted.
            assert_eq!(host.reason(NEW).await, "quarantined");
            tokio::time::sleep(HOUR).await;
            assert_eq!(host.reason(NEW).await, "rejected");
            assert_eq!(host.names(), ["dd", "dd.failed-2"]);
            host.publish(NEWER, good());
            host.upgrade(NEWER).await;
            host.assert_fleeting_on("dd", NEWER, "");
        }
    }
}

/// Docker removes all `--rm` containers when it restarts. In the middle of a replacement, the delegate comes back from its
/// candidate; once the candidate has taken over, the delegate is gone, as it would be without an upgrader.
#[tokio::test(start_paused = true)]
async fn restores_an_rm_delegate_when_the_engine_restarts_during_its_replacement() {
    let (mut back, mut gone) = (0, 0);
    for change in WAYS {
        for second in (2..90).step_by(stride(2)) {
            let host = Host::new();
            host.run_with("dd", change);
            let mut upgrader = host.starting(NEW);
            host.continue_for(&mut upgrader, SECOND * second).await;
            let names = host.names();
            let is_over = names.contains(&"dd".to_owned()) && host.find("dd").image == NEW;
            host.twin.restart_engine(SECOND * 3);
            // The image is blamed for the containers that the engine removed, but not for long.
            for _ in 0..3 {
                host.scheduled_run(&mut upgrader).await;
                tokio::time::sleep(HOUR).await;
            }
            let context = format!("the engine restarts after {second} s: {names:?}");
            if is_over && names.len() > 1 {
                assert_eq!(host.names(), [""; 0], "{context}");
                gone += 1;
            } else if names != ["dd"] {
                host.assert_fleeting_on("dd", NEW, &context);
                back += 1;
            }
        }
    }
    assert!(back > 10 && gone > 5, "{back} {gone}");
}

/// Between two observations, the old one ends because it was asked to stop, and the candidate ends by itself.
#[tokio::test(start_paused = true)]
async fn rejects_a_candidate_that_exits_at_once() {
    let host = Host::new();
    host.twin
        .set_behaviour(OLD, &Behaviour::drains(Duration::from_millis(10)));
    host.publish(NEW, Behaviour::exits(Duration::ZERO, 3));
    host.run_with("dd", stops_first);
    assert_eq!(host.reason(NEW).await, "rejected");
    assert_eq!(host.names(), ["dd", "dd.failed-1"]);
    assert_eq!(
        host.count(Operation::Start),
        3,
        "the trial, the candidate, and the old one again"
    );
}

/// A process is killed at each call; the next one does not know how the candidate did.
#[tokio::test(start_paused = true)]
async fn restores_an_rm_delegate_unchanged_after_a_kill_at_any_point() {
    for k in points(2) {
        let host = Host::new();
        host.publish(NEW, Behaviour::exits(Duration::from_millis(100), 3));
        host.run_with("dd", stops_first);
        let finished = !killed_when(&host, move |call| call.index >= k).await;
        host.once(NEW).await;
        host.once(NEW).await;
        assert_is_back(&host, &format!("killed at call {k}"));
        if finished {
            break;
        }
    }
}

/// The old container was asked to stop, so Docker removes it at its end: a copy takes its place. A new process cannot know.
#[tokio::test(start_paused = true)]
async fn recreates_a_draining_rm_delegate_when_its_successor_exits() {
    let dies_after_the_commit = Behaviour::exits(SECOND * 30, 3).ready_in(SECOND * 5);
    for is_killed in [false, true] {
        let host = Host::new();
        host.publish(NEW, dies_after_the_commit.clone());
        host.run_with("dd", auto_remove);
        let mut upgrader = host.begin(NEW, SECOND * 25).await;
        if is_killed {
            upgrader = host.upgrader(NEW);
            tokio::time::sleep(SECOND * 20).await;
        }
        host.finish(&mut upgrader).await;
        tokio::time::sleep(DRAIN * 2).await;
        host.scheduled_run(&mut upgrader).await;
        assert_is_back(&host, &format!("killed: {is_killed}"));
        assert_eq!(host.names(), ["dd", "dd.failed-1"]);
    }
}

/// The process dies between the second rename and the stop, and the successor becomes unhealthy: the old container was
/// never asked to stop, so it gets its name back.
#[tokio::test(start_paused = true)]
async fn gives_the_name_back_to_an_old_container_that_was_never_asked_to_stop() {
    for change in [auto_remove as fn(&mut Value), |_| ()] {
        let host = Host::new();
        let health = Wellness::For(SECOND * 20);
        host.publish(NEW, good().with_health(health));
        let old = host.run_with("dd", change);
        host.fault_where(Fault::ErrBefore, |call| {
            call.operation == Operation::Rename && call.detail.contains("draining")
        });
        let mut first = host.starting(NEW);
        assert!(host.continue_for(&mut first, SECOND * 28).await.is_none());
        assert_eq!(host.names(), ["dd", "dd.retired"]);
        drop(first);
        host.twin.clear_faults();
        let mut next = host.upgrader(NEW);
        let report = host.finish(&mut next).await;
        assert_eq!(row(&report, "dd").reason.as_str(), "rejected", "{report:?}");
        assert_eq!(host.find("dd").id, old);
        assert_eq!(host.end_of(&old), None, "it was never asked to stop");
        assert_eq!(host.names(), ["dd", "dd.failed-1"]);
    }
}

/// Docker has removed the old container for good, so its successor is the only one left.
#[tokio::test(start_paused = true)]
async fn keeps_an_unhealthy_successor_once_the_old_container_is_gone() {
    let host = Host::new();
    let health = Wellness::For(SECOND * 60);
    host.publish(NEW, good().with_health(health));
    host.run_with("dd", auto_remove);
    host.once(NEW).await;
    let now = host.find("dd");
    assert_eq!((now.image.as_str(), now.state), (NEW, RunState::Running));
    assert_eq!(host.names(), ["dd"]);

    // A person has to decide, and every report says how.
    tokio::time::sleep(HOUR).await;
    let report = host.once(NEW).await;
    assert_eq!(report.summary(), "0 of 1 delegate OK, 1 unhealthy: dd");
    let next = format!("see `docker logs dd`; `delegate-upgrader rollback dd` returns to {OLD}");
    assert_eq!(report.delegates[0].next_step.as_ref(), Some(&next));
}

/// `docker commit` copies our labels into an image. A container of that image belongs to its owner: the upgrader neither
/// removes it once it has ended, nor starts it if it never ran, whatever its name.
#[tokio::test(start_paused = true)]
async fn labels_inherited_from_an_image_are_ignored() {
    for name in ["backup", "dd"] {
        let host = Host::new();
        host.run_with("dd", auto_remove);
        host.upgrade(NEW).await;
        let document = host.twin.document("dd").unwrap();
        let mut labels = document["Config"]["Labels"].clone();
        labels["io.delegate-upgrader.copy"] = "true".into();
        let mut committed = host.twin.image(good());
        committed.config["Labels"] = labels.clone();
        host.twin.add_image("mine:1", committed);
        host.by_hand(OperatorAction::Kill, "dd");
        host.finish(&mut host.upgrader(NEW)).await;
        assert!(host.names().is_empty());

        let mut body = delegate_body(GROUP, "mine:1");
        body["Labels"] = labels;
        body["HostConfig"]["RestartPolicy"] = json!({ "Name": "no", "MaximumRetryCount": 0 });
        host.twin.run(name, &body);
        host.by_hand(OperatorAction::Stop, name);
        host.twin.create("created", None, &body).await.unwrap();
        tokio::time::sleep(HOUR).await;
        for _ in 0..2 {
            host.once(NEW).await;
        }
        let states: Vec<_> = host
            .containers()
            .into_iter()
            .map(|(name, state, _)| (name, state))
            .collect();
        let mut expected = [
            ("created".to_owned(), RunState::Created),
            (name.to_owned(), RunState::Exited),
        ];
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(states, expected);
    }
}
