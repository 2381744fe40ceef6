//! No delegate in service is the worst state: the way out of it comes first.

use kit::lab::{
    Lab, PATIENCE, V1, V2, docker, end_of, eventually, image, image_of, inspect, life, runs, runs_image,
};

/// A version that the Manager no longer accepts keeps ending at once: Docker cannot rename it between its lives.
#[test]
fn delegates_that_exit_immediately_are_replaced() {
    for (number, port) in [None, Some("127.0.0.1:43490:3460")].into_iter().enumerate() {
        let lab = Lab::new(&format!("ends-at-once-{number}"));
        let mut options = vec!["--restart", "always", "--env", "CRASH_AFTER_SECONDS=0"];
        options.extend(port.iter().flat_map(|port| ["--publish", port]));
        let name = lab.delegate("1", V1, &options);
        eventually("Docker has restarted it often", PATIENCE, || {
            inspect(&name)["RestartCount"].as_u64() > Some(5)
        });
        // The new image does not end, whatever the container's variable says.
        let version = lab.image_with("26.08.2", "CRASH_AFTER_SECONDS=999999");
        let run = lab.upgrader(&version).run(&["once"]).ended(0);
        assert_eq!(image_of(&name), image(&version), "{}", run.text);
        assert_eq!(lab.names(), ["1"], "{}", run.text);
        let (.., policy) = life(&name);
        assert_eq!(policy, "always");
    }
}

/// A candidate that was never in service has no tasks, so it does not get a delegate's hour to stop.
#[test]
fn candidate_that_ignores_sigterm_keeps_the_old_container_out_for_ten_seconds() {
    let lab = Lab::new("deaf");
    let options = ["--publish", "127.0.0.1:43491:3460"];
    let name = lab.delegate("1", V1, &options);
    let before = life(&name);
    let version = lab.image_with("26.08.3", "HEALTH=never\nIGNORE_SIGTERM=true");
    let upgrader = lab.upgrader(&version).with("CONTAINER_STOP_TIMEOUT", "10m");
    let upgrader = upgrader.with("UPGRADE_HEALTHY_DEADLINE", "15s");
    let started = std::time::Instant::now();
    upgrader.run(&["once"]).ended(1);
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
    assert_eq!(life(&name).0, before.0);
    assert!(life(&name).2);
    assert_eq!(inspect(&format!("{name}.failed-1"))["State"]["ExitCode"], 137);
}

#[test]
fn a_copy_of_the_old_container_serves_while_the_original_drains() {
    let lab = Lab::new("copy-serves");
    // The new container works when it takes the name, and ends soon after.
    let name = lab.delegate("1", V1, &["--env", "DRAIN_SECONDS=60"]);
    let old = life(&name).0;
    let version = lab.image_with("26.08.4", "CRASH_AFTER_SECONDS=15\nDRAIN_SECONDS=0");
    let upgrader = lab.upgrader(&version).begin("once");
    // No container has the name for a moment.
    let shown = ["ps", "--no-trunc", "--format", "{{.Names}} {{.Image}} {{.ID}}"];
    let is_copy = |line: &str| line.starts_with(&format!("{name} {} ", image(V1))) && !line.ends_with(&old);
    eventually("a copy of the old container serves", PATIENCE, || {
        docker(&shown).lines().any(is_copy)
    });
    assert_eq!(inspect(&old)["State"]["Running"], true, "it finishes its tasks");
    end_of(&old, PATIENCE);
    drop(upgrader);
}

/// `docker system prune --all` while a bad candidate is proving itself and the old container has stopped for it.
#[test]
fn a_pruned_old_container_and_its_image_are_restored() {
    // The second one leaves time for the prune before it ends.
    let behaviours = [
        ("HEALTH=never", "15s"),
        ("HEALTH=never\nCRASH_AFTER_SECONDS=20", "2m"),
    ];
    for (number, (behaviour, deadline)) in behaviours.into_iter().enumerate() {
        let lab = Lab::new(&format!("pruned-{number}"));
        let version = lab.image_with(&format!("26.02.9{number}"), behaviour);
        let publish = format!("127.0.0.1:4348{number}:3460");
        let own = lab.image_with(&format!("26.01.9{number}"), "TASKS=0");
        let name = lab.delegate("1", &own, &["--publish", &publish]);
        let upgrader = lab.upgrader(&version).with("UPGRADE_HEALTHY_DEADLINE", deadline);
        let upgrader = upgrader.begin("once");
        let candidate = format!("{name}.candidate");
        eventually("the candidate runs", PATIENCE, || runs(&candidate));
        // The upgrader must not act between two commands of the prune.
        upgrader.stopped(|| {
            let names = lab.names();
            let stopped = names.iter().find(|name| name.contains("draining"));
            docker(&["rm", &format!("{}-{}", lab.name, stopped.expect("an old one"))]);
            docker(&["rmi", "--force", &image(&own)]);
        });
        eventually("the delegate is back", PATIENCE, || {
            runs_image(&name, &image(&own))
        });
        drop(upgrader);
    }
}

/// The setting for health checks only comes while the old container drains.
#[test]
fn health_only_mode_completes_a_replacement_that_stopped_the_delegate() {
    let lab = Lab::new("health-only-between");
    let options = ["--publish", "127.0.0.1:43492:3460", "--env", "DRAIN_SECONDS=5"];
    let name = lab.delegate("1", V1, &options);
    let mut upgrader = lab.upgrader(V2).begin("once");
    eventually("the old container drains", PATIENCE, || {
        lab.names().iter().any(|name| name.contains("draining"))
    });
    upgrader.signal(kit::lab::Signal::KILL);
    let only = lab.upgrader(V2).with("DISABLE_AUTO_UPGRADE", "true").start();
    eventually("a delegate serves", PATIENCE, || runs(&name));
    drop(only);
}
