//! The engine of a manager is killed in the middle of an update. These tests need the engine for themselves, so they are
//! ignored if others use it: `make swarm` gives them a lab of their own.

use std::process::Command;

use kit::lab::{CRASHES, Signal, V1, V2, eventually, image};

use crate::restarts::{Engine, turn};
use crate::swarm::{PATIENCE, Service};

/// Whether all of its tasks run, with no update in progress.
fn is_at_rest(service: &Service, image: &str) -> bool {
    let state = service.document()["UpdateStatus"]["State"].clone();
    state != "updating" && state != "rollback_started" && service.running() == [image, image]
}

/// At each of these moments, the engine is killed and restarted while the upgrader continues: the state that Swarm ends in
/// is the one that the upgrader reports.
fn whatever_it_said_last(published: &str, moments: &[&str]) {
    let _turn = turn();
    let Some(engine) = Engine::of_the_lab() else {
        return;
    };
    for moment in moments {
        let service = Service::with_replicas("swarm-engine", 2);
        let daemon = service
            .upgrader(published)
            .with("RUN_ON_START", "true")
            .with("SCHEDULE", "*/10 * * * * *")
            .with("UPGRADE_HEALTHY_DEADLINE", "40s")
            .start();
        daemon.says(moment, PATIENCE);
        engine.restart(Signal::KILL);
        // The manager answers again, and Swarm continues its update.
        eventually("the manager answers", PATIENCE, || {
            let listed = Command::new("docker").args(["service", "ls"]).output();
            listed.is_ok_and(|listed| listed.status.success())
        });
        daemon.says_one_of(&["runs the published image", "next attempt after"], PATIENCE);
        let failed = service.label("failed-image");
        let kept = if failed.is_some() { V1 } else { published };
        eventually("all run what is to run", PATIENCE * 2, || {
            is_at_rest(&service, &image(kept))
        });
        eprintln!("killed at {moment:?}: {kept} runs, failed: {failed:?}");
        assert!(service.image().starts_with(&image(kept)), "{}", daemon.log());
        if published == CRASHES {
            assert!(failed.is_some(), "{}", daemon.log());
        }
    }
}

#[test]
#[ignore = "it has the engine for itself: make swarm runs it"]
fn an_update_continues_after_the_swarm_managers_engine_is_killed() {
    let moments = [
        "is about to be tried",
        "updating it to",
        "is rolling out",
        "1 of 2 run",
    ];
    whatever_it_said_last(V2, &moments);
}

#[test]
#[ignore = "it has the engine for itself: make swarm runs it"]
fn a_failure_is_undone_after_the_swarm_managers_engine_is_killed() {
    whatever_it_said_last(CRASHES, &["updating it to", "is rolling out", "rolling back to"]);
}
