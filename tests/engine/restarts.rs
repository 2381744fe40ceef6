//! What survives a restart of the engine: drains, and their deadlines. These tests stop and kill the engine, so they
//! take turns, and are ignored where others use it: `make test` gives them a lab of their own. An engine that is not
//! a lab's is left alone.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::scope;
use std::time::Duration;

use chrono::{DateTime, Utc};

use kit::lab::{
    Daemon, Lab, Signal, Upgrader, V1, V2, assert_in_time, docker, end_of, eventually, expect, follow, image,
    image_of, life, send,
};

/// Enough for a replacement up to its commit, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lets one test at a time have the whole engine.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lab's engine, for one test at a time.
pub(crate) struct Engine(PathBuf);

impl Engine {
    /// Runs a test with the engine configured so.
    fn with(configuration: &str, test: impl FnOnce(&Self)) {
        let _turn = turn();
        let Some(engine) = Self::of_the_lab() else {
            return;
        };
        std::fs::write(engine.0.join("daemon.json"), configuration).expect("daemon.json");
        engine.restart(Signal::TERM);
        test(&engine);
    }

    /// That of the lab, if it can be restarted.
    pub(crate) fn of_the_lab() -> Option<Self> {
        let directory = PathBuf::from(std::env::var("LAB_DIR").expect("LAB_DIR: run this with `make test`"));
        if !directory.join("start-engine").exists() {
            eprintln!("skipped: this engine is not the lab's own; LAB_ENGINE=own brings one up");
            return None;
        }
        Some(Self(directory))
    }

    /// Ends the engine with a signal and starts it again.
    pub(crate) fn restart(&self, signal: Signal) {
        let id = std::fs::read_to_string(self.0.join("docker.pid")).expect("docker.pid");
        send(signal, &id);
        expect(&mut Command::new(self.0.join("start-engine")));
    }
}

/// A delegate whose replacement has come to the drain of the old one.
struct Draining {
    lab: Lab,
    upgrader: Upgrader,
    daemon: Daemon,
    name: String,
    /// The id of the old one, and of the new one.
    old: String,
    new: String,
    told: DateTime<Utc>,
}

impl Draining {
    /// `arguments` are further ones of `docker run`.
    fn begin(test: &str, arguments: &[&str], timeout: &str) -> Self {
        let lab = Lab::new(test);
        let name = lab.delegate("1", V1, arguments);
        let old = life(&name).0;
        let upgrader = lab
            .upgrader(V2)
            .with("RUN_ON_START", "true")
            .with("CONTAINER_STOP_TIMEOUT", timeout);
        let daemon = upgrader.start();
        let told = daemon.time_of("to stop within", PATIENCE);
        // Whoever is cut off while it tells a container cannot know whether it has.
        daemon.says("is finishing", PATIENCE);
        let new = life(&name).0;
        Self {
            lab,
            upgrader,
            daemon,
            name,
            old,
            new,
            told,
        }
    }

    fn assert_replaced(&self) {
        self.daemon.says("runs the published image", PATIENCE);
        eventually("the old one is gone", PATIENCE, || self.lab.names() == ["1"]);
        let (id, _, running, policy) = life(&self.name);
        assert_eq!(
            (id, running, policy),
            (self.new.clone(), true, "always".to_owned())
        );
        assert_eq!(image_of(&self.name), image(V2));
    }
}

/// Two at once.
fn both<A: Send, B: Send>(one: impl FnOnce() -> A + Send, two: impl FnOnce() -> B + Send) -> (A, B) {
    scope(|scope| {
        let one = scope.spawn(one);
        let two = two();
        (one.join().expect("the other one"), two)
    })
}

/// Without live-restore the engine's end is the end of every drain.
fn the_old_one_does_not_come_back(test: &str, signal: Signal) {
    // The engine gives each container its own time when it stops.
    let arguments = [
        "--restart",
        "always",
        "--env",
        "DRAIN_SECONDS=60",
        "--stop-timeout",
        "1",
    ];
    Engine::with("{}", |engine| {
        let (same, mut another) = both(
            || Draining::begin(&format!("{test}-same"), &arguments, "600"),
            || Draining::begin(&format!("{test}-another"), &arguments, "600"),
        );
        for draining in [&same, &another] {
            assert!(life(&draining.old).2, "it drains for longer than that");
        }
        another.daemon.signal(Signal::KILL);
        engine.restart(signal);
        another.daemon = another.upgrader.start();
        for draining in [&same, &another] {
            eventually("it stays down, and goes", PATIENCE, || {
                let names = draining.lab.names();
                let there = names.iter().any(|name| name.starts_with("1.draining"));
                assert!(!there || !runs(&draining.old), "the old one came back");
                !there
            });
            draining.assert_replaced();
        }
    });
}

/// A delegate whose candidate is proving itself, and the upgrader that was killed meanwhile: in a container it ends with
/// the engine.
fn while_proving(lab: &Lab, arguments: &[&str]) -> (String, Upgrader) {
    let name = lab.delegate("1", V1, arguments);
    let upgrader = lab
        .upgrader(V2)
        .with("HEALTHY_TIME", "10s")
        .with("HEALTHY_DEADLINE", "40s");
    let mut once = upgrader.begin("once");
    once.says("reason=\"proving\"", PATIENCE);
    once.signal(Signal::KILL);
    (name, upgrader)
}

/// The engine goes in the middle of a proof, and its policy may not bring the candidate back.
fn no_image_is_judged(test: &str, signal: Signal) {
    Engine::with("{}", |engine| {
        for policy in ["no", "on-failure"] {
            let lab = Lab::new(&format!("{test}-{policy}"));
            let (name, upgrader) = while_proving(&lab, &["--restart", policy]);
            engine.restart(signal);
            docker(&["start", &name]);
            // What was begun comes to its end, and then there is a scheduled run.
            let mut log = String::new();
            for _ in 0..2 {
                let run = upgrader.run(&["once"]);
                log.push_str(&run.text);
                assert!(!log.contains("reason=\"rejected\""), "{log}");
            }
            assert_eq!(
                (image_of(&name), lab.names()),
                (image(V2), vec!["1".to_owned()]),
                "{log}"
            );
        }
    });
}

#[test]
#[ignore = "restarts the engine; make test runs it in a lab of its own"]
fn an_image_whose_candidate_ended_with_the_engine_is_not_judged() {
    no_image_is_judged("proof-stopped", Signal::TERM);
}

#[test]
#[ignore = "restarts the engine; make test runs it in a lab of its own"]
fn an_image_whose_candidate_ended_with_a_killed_engine_is_not_judged() {
    no_image_is_judged("proof-killed", Signal::KILL);
}

/// An engine that comes back removes what still runs with `--rm`, and tells that as it tells of somebody's `docker rm`.
fn one_with_auto_remove_comes_back(test: &str, configuration: &str, signal: Signal) {
    Engine::with(configuration, |engine| {
        let lab = Lab::new(test);
        let (name, upgrader) = while_proving(&lab, &["--rm"]);
        engine.restart(signal);
        // What was begun comes to its end, and then there is a scheduled run.
        let log: String = (0..2).map(|_| upgrader.run(&["once"]).text).collect();
        assert_eq!(
            (image_of(&name), lab.names()),
            (image(V2), vec!["1".to_owned()]),
            "{log}"
        );
    });
}

#[test]
#[ignore = "restarts the engine; make test runs it in a lab of its own"]
fn one_with_auto_remove_comes_back_after_its_engine_was_killed() {
    one_with_auto_remove_comes_back("rm-killed", "{}", Signal::KILL);
}

#[test]
#[ignore = "restarts the engine; make test runs it in a lab of its own"]
fn one_with_auto_remove_comes_back_after_a_restart_with_live_restore() {
    one_with_auto_remove_comes_back("rm-live", r#"{"live-restore": true}"#, Signal::TERM);
}

/// Whether a container runs; one that is gone does not.
fn runs(id: &str) -> bool {
    let seen = Command::new("docker")
        .args(["inspect", "--format", "{{.State.Running}}", id])
        .output()
        .expect("docker inspect");
    String::from_utf8_lossy(&seen.stdout).trim() == "true"
}

/// With live-restore containers go on while the engine is away, and it forgets whom it was to stop.
#[test]
#[ignore = "restarts the engine; make test runs it in a lab of its own"]
fn a_drain_and_its_deadline_outlive_restarts_of_the_engine_with_live_restore() {
    Engine::with(r#"{"live-restore": true}"#, |engine| {
        let deaf = ["--restart", "always", "--env", "IGNORE_SIGTERM=true"];
        let busy = ["--restart", "always", "--env", "DRAIN_SECONDS=40"];
        let (deaf, mut busy) = both(
            || Draining::begin("live-deaf", &deaf, "45"),
            || Draining::begin("live-busy", &busy, "600"),
        );
        busy.daemon.signal(Signal::KILL);
        for signal in [Signal::TERM, Signal::KILL] {
            engine.restart(signal);
            for draining in [&deaf, &busy] {
                assert!(runs(&draining.old), "live-restore keeps containers running");
            }
        }
        let log = follow(&busy.old);
        busy.daemon = busy.upgrader.start();
        let ended = end_of(&deaf.old, PATIENCE);
        assert_in_time(deaf.told, 45.0, ended, &deaf.daemon.log());
        assert!(log.end().contains("drained in full"));
        for draining in [&deaf, &busy] {
            draining.assert_replaced();
        }
    });
}

#[test]
#[ignore = "restarts the engine; make test runs it in a lab of its own"]
fn a_drain_ends_with_the_engine_and_the_old_one_does_not_come_back() {
    the_old_one_does_not_come_back("stopped", Signal::TERM);
}

#[test]
#[ignore = "restarts the engine; make test runs it in a lab of its own"]
fn a_drain_ends_with_a_killed_engine_and_the_old_one_does_not_come_back() {
    the_old_one_does_not_come_back("killed", Signal::KILL);
}
