//! Drains: an old container gets the whole `CONTAINER_STOP_TIMEOUT`, and no more, whatever happens meanwhile.

use std::thread::sleep;
use std::time::Duration;

use crate::proxy::{Proxy, Treatment};
use kit::lab::{
    Lab, PATIENCE, STOP_TIME, Signal, V1, V2, assert_in_time, docker, end_of, eventually, follow, image,
    image_of, life, running,
};

#[test]
fn a_drain_deadline_survives_a_kill_of_the_upgrader() {
    let lab = Lab::new("drain-killed");
    let name = lab.delegate("1", V1, &["--env", "IGNORE_SIGTERM=true"]);
    let old = life(&name).0;
    let upgrader = lab
        .upgrader(V2)
        .with("RUN_ON_START", "true")
        .with("CONTAINER_STOP_TIMEOUT", "20");
    let mut daemon = upgrader.start();
    let told = daemon.time_of("to stop within 20s", PATIENCE);
    // By now the engine has received the stop request.
    daemon.says("is finishing", PATIENCE);
    daemon.signal(Signal::KILL);
    sleep(Duration::from_secs(3));
    let next = upgrader.start();
    assert_in_time(told, 20.0, end_of(&old, PATIENCE), &next.log());
    next.says("the old container is gone", PATIENCE);
    assert_eq!((lab.names(), image_of(&name)), (vec!["1".to_owned()], image(V2)));
}

#[test]
fn a_drain_and_its_deadline_survive_a_proxy_that_cuts_long_requests() {
    let proxy = Proxy::that_treats(|_, path| match path.rsplit('/').next() {
        Some("stop" | "events") => Treatment::Cut,
        _ => Treatment::LetThrough,
    });
    let upgrader = |lab: &Lab| {
        lab.upgrader(V2)
            .with("RUN_ON_START", "true")
            .with("DOCKER_HOST", &proxy.host())
    };
    let deaf = Lab::new("drain-cut-deaf");
    let busy = Lab::new("drain-cut-busy");
    let deaf_name = deaf.delegate("1", V1, &["--env", "IGNORE_SIGTERM=true"]);
    let busy_name = busy.delegate("1", V1, &["--env", "DRAIN_SECONDS=6"]);
    let (deaf_old, busy_log) = (life(&deaf_name).0, follow(&busy_name));
    let deaf_daemon = upgrader(&deaf).with("CONTAINER_STOP_TIMEOUT", "8").start();
    let busy_daemon = upgrader(&busy).start();
    let told = deaf_daemon.time_of("to stop within 8s", PATIENCE);
    assert_in_time(told, 8.0, end_of(&deaf_old, PATIENCE), &deaf_daemon.log());
    for daemon in [&deaf_daemon, &busy_daemon] {
        daemon.says("the old container is gone", PATIENCE);
    }
    assert!(busy_log.end().contains("drained in full"));
    for (lab, name) in [(&deaf, &deaf_name), (&busy, &busy_name)] {
        assert_eq!((lab.names(), image_of(name)), (vec!["1".to_owned()], image(V2)));
    }
}

#[test]
fn another_delegate_is_upgraded_while_one_drains() {
    let lab = Lab::new("drain-beside");
    let first = lab.delegate("1", V1, &["--env", "DRAIN_SECONDS=600"]);
    let second = lab.delegate("2", V1, &[]);
    let draining = life(&first).0;
    let _daemon = lab.upgrader(V2).with("RUN_ON_START", "true").start();
    // Between two renames no container has the name.
    let named = format!("^/{second}$");
    eventually("the second one is replaced", PATIENCE, || {
        let rows = running("name", &named);
        rows.first().is_some_and(|(_, of, _)| *of == image(V2))
    });
    assert_eq!(image_of(&first), image(V2));
    assert!(life(&draining).2, "the first one's drain was over by then");
    docker(&["kill", &draining]);
    eventually("it is removed", PATIENCE, || lab.names() == ["1", "2"]);
}

#[test]
fn an_upgrader_stopped_at_any_stage_resumes_where_it_left_off() {
    let stages = [
        "creating the candidate",
        "starting ",
        "has been healthy for",
        "retiring the old",
        "to stop within",
        "is finishing",
        "runs the published image",
    ];
    for (name, signal) in [("sigterm-stages", Signal::TERM), ("killed-stages", Signal::KILL)] {
        let lab = Lab::new(name);
        let name = lab.delegate("1", V1, &["--env", "DRAIN_SECONDS=10"]);
        let old = follow(&name);
        let upgrader = lab.upgrader(V2).with("RUN_ON_START", "true");
        // A stage may end before the log shows the previous one; then the next signal comes at a later stage.
        for stage in 0..6 {
            let mut daemon = upgrader.start();
            daemon.says_one_of(&stages[stage..], PATIENCE);
            let (code, took) = daemon.signal(signal);
            let expected = (signal == Signal::TERM).then_some(0);
            assert_eq!(code, expected, "{}", daemon.log());
            assert!(took < STOP_TIME, "{took:?} after {}", daemon.log());
        }
        upgrader.run(&["once"]).ended(0);
        assert_eq!((lab.names(), image_of(&name)), (vec!["1".to_owned()], image(V2)));
        assert!(old.end().contains("drained in full"));
    }
}

#[test]
fn sigterm_ends_daemon_while_engine_hangs() {
    let lab = Lab::new("sigterm-hangs");
    let proxy = Proxy::that_never_answers();
    let upgrader = lab.upgrader(V2).with("DOCKER_HOST", &proxy.host());
    let mut daemon = upgrader.start();
    daemon.says("status at", PATIENCE);
    sleep(Duration::from_secs(1));
    let (code, took) = daemon.signal(Signal::TERM);
    assert_eq!(code, Some(0), "{}", daemon.log());
    assert!(took < STOP_TIME, "{took:?} after {}", daemon.log());
}
