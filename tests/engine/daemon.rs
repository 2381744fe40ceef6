//! The daemon: its output, and how it ends.

use std::time::Duration;

use kit::lab::wire::ask;
use kit::lab::{Lab, PATIENCE, STOP_TIME, Signal, V1, V2, eventually, follow, image, image_of, life};

pub(crate) fn address(log: &str) -> String {
    let line = log
        .lines()
        .find(|line| line.contains("status at http://"))
        .expect("the address is logged");
    let rest = line.split("http://").nth(1).expect("an address");
    rest.split('/').next().expect("an address").to_owned()
}

#[test]
fn startup_only_reports_and_the_scheduled_run_upgrades() {
    let lab = Lab::new("scheduled");
    let name = lab.delegate("1", V1, &[]);
    let before = life(&name);
    let mut yearly = lab.upgrader(V2).with("SCHEDULE", "0 0 1 1 *").start();
    yearly.says("is published; waiting for the next scheduled run", PATIENCE);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(life(&name), before);
    yearly.signal(Signal::TERM);
    let mut often = lab.upgrader(V2).with("SCHEDULE", "*/2 * * * * *").start();
    often.says("replaced; the old container is gone", PATIENCE);
    assert_eq!(image_of(&name), image(V2));
    often.signal(Signal::TERM);
}

#[test]
fn the_page_the_status_and_the_metrics_show_the_delegates() {
    let lab = Lab::new("shown");
    lab.delegate("1", V1, &[]);
    let upgrader = lab.upgrader(V2).with("SCHEDULE", "0 0 1 1 *");
    let mut daemon = upgrader.start();
    daemon.says("delegate is healthy", PATIENCE);
    let address = address(&daemon.log());
    eventually("it is ready", PATIENCE, || {
        ask(&format!("http://{address}/readyz")).0 == 200
    });
    assert_eq!(ask(&format!("http://{address}/livez")).0, 200);
    let (_, metrics) = ask(&format!("http://{address}/metrics"));
    let row = format!("delegate_upgrader_delegate_healthy{{container=\"{}-1\"", lab.name);
    assert!(metrics.contains(&row) && !metrics.contains("# EOF"), "{metrics}");
    let (_, status) = ask(&format!("http://{address}/status"));
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["report"]["delegates"][0]["reason"], "awaiting_schedule");
    assert!(status["next_run"].is_string());
    let (_, page) = ask(&format!("http://{address}/"));
    assert!(
        page.contains(&format!("{}-1", lab.name)) && page.contains("is published"),
        "{page}"
    );
    let asking = upgrader.clone().with("LISTEN_ADDR", &address);
    assert_eq!(asking.run(&["healthcheck"]).code, Some(0));
    let told = asking.run(&["status"]);
    for text in [&metrics, &status.to_string(), &told.text] {
        let of_a_manager = text.to_lowercase().contains("manager");
        assert!(!of_a_manager, "with PUBLISHED_IMAGE nobody is asked: {text}");
    }
    told.says("is published; waiting for the next scheduled run");
    let name = format!("{}-1", lab.name);
    let one = asking.run(&["status", &name, "--check"]).ended(0);
    for text in [&name, "awaiting_schedule", "health_detail"] {
        one.says(text);
    }
    asking
        .run(&["status", "nobody"])
        .ended(2)
        .says(&format!("managed: {name}"));
    daemon.signal(Signal::TERM);
    assert_eq!(asking.run(&["healthcheck"]).code, Some(1));
    assert_eq!(asking.run(&["status"]).code, Some(69));
}

#[test]
fn sigterm_stops_the_daemon_at_once_even_during_a_drain() {
    let lab = Lab::new("sigterm");
    let name = lab.delegate("1", V1, &["--env", "DRAIN_SECONDS=20"]);
    let old = follow(&name);
    let upgrader = lab.upgrader(V2).with("RUN_ON_START", "true");
    let mut daemon = upgrader.start();
    daemon.says("is finishing", PATIENCE);
    let (code, took) = daemon.signal(Signal::TERM);
    assert_eq!(code, Some(0), "{}", daemon.log());
    assert!(took < STOP_TIME, "{took:?}");
    assert!(daemon.log().contains("resume at the next start"));
    let next = upgrader.start();
    next.says("the old container is gone", PATIENCE);
    assert_eq!(lab.names(), ["1"]);
    assert!(old.end().contains("drained in full"));
}

#[test]
fn reconnects_to_an_engine_that_comes_back() {
    let lab = Lab::new("away");
    lab.delegate("1", V1, &[]);
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("docker.sock");
    let host = format!("unix://{}", socket.display());
    let daemon = lab
        .upgrader(V2)
        .with("DOCKER_HOST", &host)
        .with("SCHEDULE", "0 0 1 1 *")
        .start();
    daemon.says("cannot reach the Docker engine", PATIENCE);
    let (status, why) = ask(&format!("http://{}/readyz", address(&daemon.log())));
    assert_eq!(status, 503, "{why}");
    std::os::unix::fs::symlink(kit::lab::engine::engine_socket(), &socket).expect("a link");
    daemon.says("the Docker engine is answering again", PATIENCE);
    daemon.says("delegate is healthy", PATIENCE);
}

#[test]
fn sigterm_stops_a_single_run_and_the_next_run_resumes_it() {
    let lab = Lab::new("once-sigterm");
    let name = lab.delegate("1", V1, &[]);
    let upgrader = lab.upgrader(V2).with("UPGRADE_HEALTHY_TIME", "8s");
    let mut once = upgrader.begin("once");
    once.says("has been healthy for", PATIENCE);
    let (code, took) = once.signal(Signal::TERM);
    assert_eq!(code, Some(1), "{}", once.log());
    assert!(took < STOP_TIME, "{took:?}");
    assert!(once.log().contains("resume at the next run"), "{}", once.log());
    assert_eq!(
        (lab.names(), image_of(&name)),
        (vec!["1".to_owned(), "1.candidate".to_owned()], image(V1))
    );
    upgrader.run(&["once"]).ended(0);
    assert_eq!((lab.names(), image_of(&name)), (vec!["1".to_owned()], image(V2)));
}

#[test]
fn an_invalid_daemon_address_is_a_configuration_error() {
    let lab = Lab::new("address");
    let asked = lab
        .upgrader(V2)
        .with("LISTEN_ADDR", "9464")
        .run(&["status"])
        .ended(78);
    asked.says("LISTEN_ADDR");
}
