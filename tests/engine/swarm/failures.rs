//! Images that fail, and the outcome for the service.

use kit::lab::servers::asking;
use kit::lab::{CRASHES, V1, V2, docker, eventually, image, image_of};

use super::{PATIENCE, Service};

/// Swarm watches a task for as long as a new one must be healthy. Within this time, even on a busy machine, it notices the end of
/// a task, which comes a second after its start. A rollback takes as long.
pub(super) const CRASH_IS_NOTICED: &str = "20s";

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn the_upgrader_rolls_back_when_swarm_does_not() {
    let service = Service::new(
        "swarm-pause",
        &["--update-failure-action", "pause", "--update-monitor", "20s"],
    );
    let before = service.image();
    service.run(CRASHES, &["once"]).ended(1);
    assert_eq!(service.image(), before);
    let failed = service.label("failed-image").expect("it is in quarantine");
    assert!(failed.starts_with(&image(CRASHES)), "{failed}");
    service.will_run(&[V1, V1]);
    let doctor = service.run(V2, &["doctor"]);
    doctor.says("its FailureAction is pause");
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn an_image_that_crashes_is_rolled_back_and_stays_in_quarantine() {
    let service = Service::new("swarm-crashes", &[]);
    let before = service.image();
    let crashes = || {
        service
            .upgrader(CRASHES)
            .with("UPGRADE_HEALTHY_TIME", CRASH_IS_NOTICED)
    };
    crashes().run(&["once"]).ended(1);
    assert_eq!(service.image(), before);
    service.will_run(&[V1, V1]);
    let failed = service.label("failed-image").expect("it is in quarantine");
    assert!(failed.starts_with(&image(CRASHES)), "{failed}");
    let cause = service.label("failed-cause").unwrap();
    assert!(cause.contains("non-zero exit"), "{cause}");
    let version = service.document()["Version"].clone();
    for _ in 0..3 {
        let run = crashes().run(&["once"]).ended(1);
        run.says("next attempt after");
    }
    assert_eq!(service.document()["Version"], version);
    // Another published image is tried at once.
    service.run(V2, &["once"]).ended(0);
    assert_eq!(service.running(), [image(V2), image(V2)]);
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn an_update_that_cannot_be_scheduled_is_rolled_back_at_the_deadline() {
    let service = Service::new("swarm-pending", &[]);
    let before = service.image();
    // The new spec fits no node.
    let upgrader = service.upgrader(V2).with("RUN_ON_START", "true");
    let upgrader = upgrader.with("UPGRADE_HEALTHY_TIME", "10s");
    let daemon = upgrader.with("UPGRADE_HEALTHY_DEADLINE", "15s").start();
    daemon.says("is rolling out", PATIENCE);
    service.update(&["--constraint-add", "node.labels.nowhere==1"]);
    // That is someone else's update, with our image: the upgrader waits for it, and rolls it back if it stalls.
    daemon.says("rolling back to", PATIENCE);
    eventually("it is back", PATIENCE, || service.image() == before);
}

/// Swarm watches a task for a limited time only; a later failure does not count as a failure of the update.
#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn an_image_that_fails_after_swarm_finished_the_update_is_rolled_back() {
    let service = Service::new(
        "swarm-late",
        &["--update-monitor", "100ms", "--restart-delay", "0s"],
    );
    let before = service.image();
    let run = service
        .upgrader(CRASHES)
        .with("UPGRADE_HEALTHY_TIME", CRASH_IS_NOTICED)
        .run(&["once"])
        .ended(1);
    assert_eq!(service.image(), before, "{}", run.text);
    run.says("rolling back to");
    let failed = service.label("failed-image").expect("it is in quarantine");
    assert!(failed.starts_with(&image(CRASHES)), "{failed}");
    service.will_run(&[V1, V1]);
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn a_failure_halts_only_its_own_workload() {
    let first = Service::with_replicas("swarm-halted", 1);
    let second = first.beside("second", &["--replicas", "1"]);
    let other = Service::with_replicas("swarm-not-halted", 1);
    let workloads = format!("{},{}", first.lab.name, other.lab.name);
    let versions = || [&first, &second].map(|service| service.document()["Version"].clone());
    let before = versions();
    let run = first
        .upgrader(CRASHES)
        .with("UPGRADER_WORKLOAD_NAME", &workloads)
        .with("UPGRADE_HEALTHY_TIME", CRASH_IS_NOTICED)
        .run(&["once"])
        .ended(1);
    let after = versions();
    let failed = [&first, &second].map(|service| service.label("failed-image").is_some());
    assert!(failed[0] != failed[1], "one was tried: {}", run.text);
    let untouched = usize::from(failed[0]);
    assert_eq!(after[untouched], before[untouched], "{}", run.text);
    run.says("reason=\"halted\"");
    assert!(other.label("failed-image").is_some(), "{}", run.text);
    for service in [&first, &second, &other] {
        service.will_run(&[V1]);
    }
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn a_manager_that_cannot_be_reached_changes_nothing_and_is_named_while_it_is_awaited() {
    let service = Service::with_replicas("swarm-away", 1);
    let before = service.document()["Version"].clone();
    // Nothing listens on that port.
    let upgrader = asking(&service.lab, "http://127.0.0.1:9").with("SWARM", "true");
    let run = |command: &str| upgrader.run(&[command]);
    let (once, plan) = std::thread::scope(|scope| {
        let plan = scope.spawn(|| run("plan"));
        (run("once"), plan.join().expect("a plan"))
    });
    for (run, waits) in [(once, 1), (plan, 0)] {
        assert_eq!(run.code, Some(1), "{}", run.text);
        run.assert_manager_is_away(waits);
    }
    assert_eq!(service.document()["Version"], before);
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn rolls_containers_back_although_a_service_fails() {
    let service = Service::new("swarm-mixed", &[]);
    let container = service.lab.delegate("1", V1, &[]);
    // The service's earlier image has a name of its own, which goes away.
    let earlier = image("26.01.7");
    docker(&["tag", &image(V1), &earlier]);
    service.update(&["--image", &earlier]);
    eventually("its owner has updated it", PATIENCE, || {
        service.running() == [earlier.clone(), earlier.clone()]
    });
    service.run(V2, &["once"]).ended(0);
    let upgraded = service.image();
    docker(&["rmi", &earlier]);
    let upgrader = service.upgrader(V2).with("UPGRADE_HEALTHY_DEADLINE", "30s");
    let back = upgrader.run(&["rollback", "--all", "--to", "0"]).ended(1);
    back.says(&format!("{} was not replaced: ", service.name));
    assert_eq!((image_of(&container), service.image()), (image(V1), upgraded));
    service.will_run(&[V2, V2]);
}
