//! Drains and their deadlines survive a restart of the engine. These tests stop and kill the engine, so they take turns,
//! and are ignored if others use it: `make test` gives them a lab of their own. They leave an engine alone that is not a
//! lab's.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::scope;

use chrono::{DateTime, Utc};

use kit::lab::engine::set_live_restore;
use kit::lab::{
    Daemon, Lab, PATIENCE, Signal, Upgrader, V1, V2, assert_in_time, docker, end_of, eventually, expect,
    follow, image, image_of, life, logs, running, send,
};

/// Lets one test at a time have the whole engine.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lab's engine, for one test at a time.
pub(crate) struct Engine(PathBuf);

impl Engine {
    /// Runs a test with the engine configured this way.
    pub(crate) fn with(live_restore: bool, test: impl FnOnce(&Self)) {
        let _turn = turn();
        let Some(engine) = Self::of_the_lab() else {
            return;
        };
        set_live_restore(&engine.0, live_restore);
        engine.restart(Signal::TERM);
        test(&engine);
    }

    /// The lab's engine, if it can be restarted.
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

/// A delegate whose replacement has reached the drain of the old container.
struct Draining {
    lab: Lab,
    upgrader: Upgrader,
    daemon: Daemon,
    name: String,
    /// The ids of the old and the new container.
    old: String,
    new: String,
    told: DateTime<Utc>,
}

impl Draining {
    /// `arguments` are further ones for `docker run`.
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
        // A process that is cut off in the middle of a stop request cannot know whether the engine has received it.
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

/// Runs two functions at once.
fn both<A: Send, B: Send>(one: impl FnOnce() -> A + Send, two: impl FnOnce() -> B + Send) -> (A, B) {
    scope(|scope| {
        let one = scope.spawn(one);
        let two = two();
        (one.join().expect("the other one"), two)
    })
}

/// Without live-restore, a drain ends with the engine; `--restart always` starts a life that nobody asked to stop.
fn revived_container_is_asked_to_stop_again(test: &str, signal: Signal) {
    // When the engine stops, it gives each container the container's own time.
    let drain = "DRAIN_SECONDS=300";
    let arguments = ["--restart", "always", "--env", drain, "--stop-timeout", "1"];
    Engine::with(false, |engine| {
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
            let revived = life(&draining.old);
            assert!(revived.2, "its policy is its own, so Docker starts it again");
            let begun = |line: &&str| line.contains(", draining 300 s");
            eventually("it is asked to stop again", PATIENCE, || {
                logs(&draining.old).lines().filter(begun).count() == 2
            });
            assert_eq!(life(&draining.old).1, revived.1, "it finishes its tasks");
        }
        for draining in [&same, &another] {
            docker(&["kill", &draining.old]);
            draining.assert_replaced();
        }
    });
}

/// A delegate whose candidate is proving itself, while the upgrader is killed: an upgrader in a container ends with the engine.
fn while_proving(lab: &Lab, arguments: &[&str]) -> (String, Upgrader) {
    let name = lab.delegate("1", V1, arguments);
    let upgrader = lab
        .upgrader(V2)
        .with("UPGRADE_HEALTHY_TIME", "10s")
        .with("UPGRADE_HEALTHY_DEADLINE", "40s");
    let mut once = upgrader.begin("once");
    once.says("reason=\"proving\"", PATIENCE);
    once.signal(Signal::KILL);
    (name, upgrader)
}

/// A delegate without a restart policy stops when its engine restarts, and so does its candidate. Rejecting the candidate
/// costs little, and the message names the restart.
fn rejection_names_the_restart(test: &str, signal: Signal) {
    Engine::with(false, |engine| {
        let lab = Lab::new(test);
        let (name, upgrader) = while_proving(&lab, &[]);
        let old = life(&name).0;
        engine.restart(signal);
        docker(&["start", &name]);
        let run = upgrader.run(&["once"]).ended(1);
        run.says("the delegate in service was restarted at");
        let (id, _, is_running, _) = life(&name);
        assert_eq!((id, is_running), (old, true), "{}", run.text);
        assert_eq!(lab.names(), ["1", "1.failed-1"], "{}", run.text);
        upgrader.run(&["retry", &name]).ended(0);
        assert_eq!((image_of(&name), lab.names()), (image(V2), vec!["1".to_owned()]));
    });
}

#[test]
#[ignore = "restarts the engine; make test runs it in a lab of its own"]
fn a_rejection_names_the_engine_restart_or_crash_that_ended_the_candidate() {
    rejection_names_the_restart("proof-stopped", Signal::TERM);
    rejection_names_the_restart("proof-killed", Signal::KILL);
}

/// With a restart policy, both come back, and the proof continues.
#[test]
#[ignore = "restarts the engine; make test runs it in a lab of its own"]
fn proof_continues_after_an_engine_restart() {
    Engine::with(false, |engine| {
        let lab = Lab::new("proof-continues");
        let (name, upgrader) = while_proving(&lab, &["--restart", "always"]);
        let candidate = life(&format!("{name}.candidate")).0;
        engine.restart(Signal::TERM);
        let run = upgrader.run(&["once"]).ended(0);
        assert_eq!(life(&name).0, candidate, "{}", run.text);
        eventually("the old one is gone", PATIENCE, || lab.names() == ["1"]);
    });
}

/// An engine removes containers with `--rm` when it starts: one delegate stays in service, with either image.
fn delegate_with_auto_remove_survives(test: &str, live_restore: bool, signal: Signal) {
    Engine::with(live_restore, |engine| {
        let lab = Lab::new(test);
        let (name, upgrader) = while_proving(&lab, &["--rm"]);
        engine.restart(signal);
        let run = upgrader.run(&["once"]);
        assert!(life(&name).2, "{}", run.text);
        let retried = upgrader.run(&["retry", &name]);
        assert_eq!(
            (retried.code, image_of(&name), lab.names()),
            (Some(0), image(V2), vec!["1".to_owned()]),
            "{}{}",
            run.text,
            retried.text
        );
    });
}

#[test]
#[ignore = "restarts the engine; make test runs it in a lab of its own"]
fn delegate_with_auto_remove_survives_the_kill_of_its_engine() {
    delegate_with_auto_remove_survives("rm-killed", false, Signal::KILL);
}

#[test]
#[ignore = "restarts the engine; make test runs it in a lab of its own"]
fn delegate_with_auto_remove_survives_a_restart_with_live_restore() {
    delegate_with_auto_remove_survives("rm-live", true, Signal::TERM);
}

/// Whether a container runs; a removed container does not.
fn runs(id: &str) -> bool {
    !running("id", id).is_empty()
}

/// With live-restore, containers keep running without the engine, and it forgets which of them it should stop.
#[test]
#[ignore = "restarts the engine; make test runs it in a lab of its own"]
fn a_drain_and_its_deadline_survive_live_restore_restarts() {
    Engine::with(true, |engine| {
        let deaf = ["--restart", "always", "--env", "IGNORE_SIGTERM=true"];
        let busy = ["--restart", "always", "--env", "DRAIN_SECONDS=60"];
        let (deaf, mut busy) = both(
            || Draining::begin("live-deaf", &deaf, "65"),
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
        assert_in_time(deaf.told, 65.0, ended, &deaf.daemon.log());
        assert!(log.end().contains("drained in full"));
        for draining in [&deaf, &busy] {
            draining.assert_replaced();
        }
    });
}

#[test]
#[ignore = "restarts the engine; make test runs it in a lab of its own"]
fn an_old_container_revived_by_its_engine_is_stopped_again() {
    revived_container_is_asked_to_stop_again("stopped", Signal::TERM);
    revived_container_is_asked_to_stop_again("killed", Signal::KILL);
}

/// Since 28.5, inspect shows the daemon's own ulimits in a different order each time.
#[test]
#[ignore = "restarts the engine; make test runs it in a lab of its own"]
fn the_daemons_own_ulimits_are_not_a_delegate_change() {
    let _turn = turn();
    let Some(engine) = Engine::of_the_lab() else {
        return;
    };
    let path = engine.0.join("daemon.json");
    let before = std::fs::read_to_string(&path).expect("daemon.json");
    let mut configuration: serde_json::Value = serde_json::from_str(&before).expect("JSON");
    for name in ["nofile", "nproc", "sigpending"] {
        let limit = serde_json::json!({ "Name": name, "Hard": 1024, "Soft": 512 });
        configuration["default-ulimits"][name] = limit;
    }
    std::fs::write(&path, configuration.to_string()).expect("daemon.json");
    engine.restart(Signal::TERM);
    for order in ["start-first", "stop-first"] {
        let lab = Lab::new(&format!("ulimits-{order}"));
        let name = lab.delegate("1", V1, &[]);
        let upgrader = lab.upgrader(V2).with("UPGRADE_HEALTHY_TIME", "5s");
        let run = upgrader.with("UPDATE_ORDER", order).run(&["once"]).ended(0);
        run.never_says("changed");
        assert_eq!((lab.names(), image_of(&name)), (vec!["1".to_owned()], image(V2)));
    }
    std::fs::write(path, before).expect("daemon.json");
    engine.restart(Signal::TERM);
}
