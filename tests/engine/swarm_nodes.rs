//! A Swarm of two nodes: a second engine in its own network. These tests need the engine for themselves, so they are
//! ignored if others use it: `make swarm` gives them a lab of their own.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::MutexGuard;

use kit::lab::{CRASHES, Lab, V1, V2, build_images, docker, eventually, expect, image, project};

use crate::restarts::{Engine, turn};
use crate::swarm::{PATIENCE, Service, leave};

/// The lab's engine as the manager, and a second node.
struct Nodes {
    worker: String,
    _turn: MutexGuard<'static, ()>,
}

fn cable(action: &str) {
    expect(Command::new(project().join("tests/lab/node")).arg(action));
}

impl Nodes {
    /// `None` if the engine is not the lab's own.
    fn start() -> Option<Self> {
        let turn = turn();
        Engine::of_the_lab()?;
        build_images();
        let socket = expect(&mut Command::new(project().join("tests/lab/node")));
        let nodes = Self {
            worker: format!("unix://{socket}"),
            _turn: turn,
        };
        leave();
        docker(&["swarm", "init", "--advertise-addr", "10.77.0.1"]);
        // The manager gives up a silent node after three of these.
        docker(&["swarm", "update", "--dispatcher-heartbeat", "1s"]);
        let token = docker(&["swarm", "join-token", "--quiet", "worker"]);
        docker(&[
            "--host",
            &nodes.worker,
            "swarm",
            "join",
            "--token",
            &token,
            "10.77.0.1:2377",
        ]);
        eventually("both are ready", PATIENCE, || ready() == 2);
        Some(nodes)
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        cable("plug");
        let _ = Command::new("docker")
            .args(["--host", &self.worker, "swarm", "leave", "--force"])
            .output();
        leave();
    }
}

/// How many nodes are ready for the manager.
fn ready() -> usize {
    let nodes = docker(&["node", "ls", "--format", "{{.Status}}"]);
    nodes.lines().filter(|status| *status == "Ready").count()
}

/// The number of running tasks, and the number of nodes that they run on.
fn spread(service: &Service) -> (usize, usize) {
    let tasks = service.tasks("{{.CurrentState}} {{.Node}}");
    let running = tasks.iter().filter(|task| task.starts_with("Running"));
    let nodes: Vec<&str> = running.filter_map(|task| task.rsplit(' ').next()).collect();
    (nodes.len(), nodes.iter().collect::<BTreeSet<_>>().len())
}

fn service(test: &str, arguments: &[&str]) -> Service {
    Service::of(Lab::new(test), "service", arguments)
}

#[test]
#[ignore = "it has the engine for itself: make swarm runs it"]
fn an_update_reaches_each_node() {
    let Some(_nodes) = Nodes::start() else {
        return;
    };
    for arguments in [["--replicas", "4"], ["--mode", "global"]] {
        let service = service("swarm-nodes", &arguments);
        let before = spread(&service);
        assert_eq!(before.1, 2, "it runs on both");
        service.run(V2, &["once"]).ended(0);
        assert_eq!(spread(&service), before);
        assert!(service.running().iter().all(|running| *running == image(V2)));
        service.run(CRASHES, &["once"]).ended(1);
        eventually("all run the one before", PATIENCE, || {
            spread(&service) == before && service.running().iter().all(|running| *running == image(V2))
        });
    }
}

/// Swarm may wait forever for a task on that node: then the update is rolled back, though no task has failed.
#[test]
#[ignore = "it has the engine for itself: make swarm runs it"]
fn losing_a_node_mid_update_costs_no_task() {
    let Some(_nodes) = Nodes::start() else {
        return;
    };
    let service = service("swarm-node-gone", &["--replicas", "4"]);
    assert_eq!(spread(&service), (4, 2));
    let daemon = service.upgrader(V2).with("RUN_ON_START", "true").start();
    daemon.says("is rolling out", PATIENCE);
    cable("unplug");
    eventually("the node is given up", PATIENCE, || ready() == 1);
    daemon.says_one_of(&["runs the published image", "next attempt after"], PATIENCE);
    let cause = service.label("failed-cause");
    let kept = if cause.is_some() { V1 } else { V2 };
    eprintln!("{kept} runs on the other node: {cause:?}");
    assert!(
        cause.is_none_or(|cause| cause.contains("of 4 ran after")),
        "{}",
        daemon.log()
    );
    let all_run = |version: &str| service.running() == [(); 4].map(|()| image(version));
    eventually("all run on the other node", PATIENCE, || all_run(kept));
    cable("plug");
    eventually("the node is back", PATIENCE, || ready() == 2);
    drop(daemon);
    let run = service.run(V2, &["retry", &service.name]);
    assert!(matches!(run.code, Some(0)), "{}", run.text);
    eventually("all run the new one", PATIENCE, || all_run(V2));
}

/// Only this node may run the tasks, so the update stalls, and the previous image runs once the node is back.
#[test]
#[ignore = "it has the engine for itself: make swarm runs it"]
fn an_update_that_loses_its_only_node_reverts_to_the_previous_image() {
    let Some(_nodes) = Nodes::start() else {
        return;
    };
    let only = ["--replicas", "2", "--constraint", "node.role==worker"];
    let service = service("swarm-only-node", &only);
    let before = service.image();
    let daemon = service.upgrader(V2).with("RUN_ON_START", "true").start();
    daemon.says("is rolling out", PATIENCE);
    cable("unplug");
    daemon.says("rolling back to", PATIENCE * 2);
    cable("plug");
    eventually("it runs what it ran before", PATIENCE * 2, || {
        service.image() == before && service.running() == [image(V1), image(V1)]
    });
    daemon.says("next attempt after", PATIENCE * 2);
    let cause = service.label("failed-cause").expect("it is in quarantine");
    assert!(cause.contains("of 2 ran after"), "{cause}");
}
