//! Many delegates whose health endpoints do not answer: each delays only its own check.

#![allow(
    clippy::print_stdout,
    reason = "the times are for whoever reads the log of the tests"
)]

use std::process::Command;
use std::time::{Duration, Instant};

use super::slow_answers::{address, status};
use kit::lab::{
    Lab, Signal, V1, V2, docker, eventually, expect, image, image_of, inspect, logs, project, send,
};

/// Ten requests without an answer take over 40 s one after the other, and an upgrade needs several of each.
const PATIENCE: Duration = Duration::from_secs(30);
const SET_UP: Duration = kit::lab::PATIENCE;

/// A network of its own, removed with the test's containers.
struct Network(String);

impl Drop for Network {
    fn drop(&mut self) {
        let attached = docker(&[
            "ps",
            "--all",
            "--quiet",
            "--filter",
            &format!("network={}", self.0),
        ]);
        let mut remove = vec!["rm", "--force"];
        remove.extend(attached.lines());
        docker(&remove);
        docker(&["network", "rm", &self.0]);
    }
}

/// The upgrader and the delegates are on different bridges: the engine drops the upgrader's packets to them.
#[test]
fn ten_delegates_on_another_bridge_delay_neither_report_nor_upgrade() {
    let lab = Lab::new("two-bridges");
    let network = Network(format!("{}-delegates", lab.name));
    docker(&["network", "create", &network.0]);
    let of_network = ["--network", &network.0];
    let old = lab.delegate("0", V1, &of_network);
    let current: Vec<String> = (1..10)
        .map(|number| lab.delegate(&number.to_string(), V2, &of_network))
        .collect();
    let tag = format!("{}-upgrader:dev", lab.name);
    expect(Command::new(project().join("tests/lab/upgrader-image")).arg(&tag));
    let settings = [
        format!("UPGRADER_WORKLOAD_NAME={}", lab.name),
        format!("PUBLISHED_IMAGE={}", image(V2)),
        "UPGRADE_HEALTHY_TIME=2s".to_owned(),
        "HEALTH_INTERVAL=1s".to_owned(),
        "SCHEDULE=*/10 * * * * *".to_owned(),
    ];
    let mut arguments = vec!["-v", "/var/run/docker.sock:/var/run/docker.sock"];
    for setting in &settings {
        arguments.extend(["-e", setting]);
    }
    arguments.push(&tag);
    let upgrader = lab.container("upgrader", &arguments);
    let begun = Instant::now();
    let rows = || -> Vec<String> {
        let asked = Command::new("docker")
            .args(["exec", &upgrader, "/delegate-upgrader", "status", "--json"])
            .output()
            .expect("docker exec");
        let status: serde_json::Value = serde_json::from_slice(&asked.stdout).unwrap_or_default();
        let delegates = status["report"]["delegates"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        delegates
            .iter()
            .map(|row| row["health"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    eventually("all are reported", PATIENCE, || {
        let rows = rows();
        rows.len() == 10 && rows.iter().all(|health| health == "healthy")
    });
    println!("all ten reported after {:.1} s", begun.elapsed().as_secs_f64());
    eventually("the old one is replaced", SET_UP, || {
        logs(&upgrader).contains("replaced; the old container is gone")
    });
    let log = logs(&upgrader);
    assert_eq!(image_of(&old), image(V2));
    assert!(current.iter().all(|name| image_of(name) == image(V2)));
    let at = |text: &str| {
        let line = log.lines().find(|line| line.contains(text)).expect("a line");
        let time = line.split_whitespace().next().expect("a time");
        chrono::DateTime::parse_from_rfc3339(time).expect("a time")
    };
    let took = at("replaced; the old container is gone") - at("scheduled run");
    println!("the upgrade took {took}");
    assert!(took.num_seconds() < 120, "{log}");
    docker(&["rm", "--force", &upgrader]);
    docker(&["rmi", &tag]);
}

/// The delegates accept the connection, as a hanging process does, and never answer.
#[test]
fn thirteen_hanging_delegates_delay_neither_report_nor_upgrade() {
    let lab = Lab::new("hangs");
    let of = |workload: &str, suffix: &str| {
        let variable = format!("DELEGATE_NAME={}-{workload}", lab.name);
        lab.container(suffix, &["--env", &variable, &image(V1)])
    };
    let works = of("works", "works");
    let hang: Vec<String> = (0..13)
        .map(|number| of("hangs", &format!("hangs-{number}")))
        .collect();
    for name in &hang {
        eventually("it listens", SET_UP, || !logs(name).is_empty());
        send(Signal::STOP, &inspect(name)["State"]["Pid"].to_string());
    }
    let upgrader = lab.upgrader(V2).with(
        "UPGRADER_WORKLOAD_NAME",
        &format!("{0}-hangs,{0}-works", lab.name),
    );
    let begun = Instant::now();
    let health_only = upgrader.clone().with("DISABLE_AUTO_UPGRADE", "true");
    let mut daemon = health_only.start();
    let address = address(&daemon);
    eventually("the one that works is reported", PATIENCE, || {
        let rows = status(&upgrader, &address);
        rows.iter()
            .any(|(name, health, _)| *name == works && health == "healthy")
    });
    println!("reported after {:.1} s", begun.elapsed().as_secs_f64());
    // One after the other, they would need over two minutes.
    eventually("the others are reported", PATIENCE * 3, || {
        let rows = status(&upgrader, &address);
        rows.iter().filter(|(_, health, _)| health == "unhealthy").count() == hang.len()
    });
    println!("all are reported after {:.1} s", begun.elapsed().as_secs_f64());
    daemon.signal(Signal::TERM);
    let begun = Instant::now();
    let daemon = upgrader.with("RUN_ON_START", "true").start();
    let replaced = format!("replaced; the old container is gone container=\"{works}\"");
    daemon.says(&replaced, PATIENCE * 4);
    println!("replaced after {:.1} s", begun.elapsed().as_secs_f64());
    drop(daemon);
    for name in &hang {
        docker(&["rm", "--force", name]);
    }
}
