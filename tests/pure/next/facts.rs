//! What has to be known before a decision, and what is decided on it.

use delegate_upgrader::container::RunState;
use delegate_upgrader::document::{Obstacle, SingleInstance};
use delegate_upgrader::rollout::reason::Reason;
use delegate_upgrader::rollout::{Backoff, Facts, Member, Reach, StoppedBy, Vanished};

use super::scene::{Change, DEADLINE, Scene, V2, ago, image_id, new, now, old, standby};

fn scene() -> Scene {
    Scene::new()
}

fn engine_error() -> Reason {
    Reason::EngineError {
        step: "start d".to_owned(),
        problem: "timed out".to_owned(),
    }
}

const COPIED_FILES: &str = "find out whether it can be recreated as it is";
const FREE_MEMORY: &str = "find out whether the host has memory for a second container";
const MANAGER: &str = "find out whether the Manager can be reached";

#[test]
fn a_failed_step_is_retried_later_and_not_waited_for_without_an_end() {
    let base = |attempts, seconds: i64| {
        let backoff = Backoff {
            reason: engine_error(),
            attempts,
            retry_at: ago(-seconds),
        };
        scene()
            .serving(old())
            .pulled(V2)
            .knowing(|facts| facts.backoff = Some(backoff))
    };
    assert_eq!(base(1, 2).next(), "wait 2 s: engine_error");
    assert_eq!(base(9, 60).next(), "wait 60 s: engine_error");
    assert_eq!(base(10, 60).next(), "rest: engine_error");
    assert_eq!(base(10, 0).next(), format!("create from old: {V2}, release 1"));
    // Before anything else, even where nothing is done anyway.
    assert_eq!(
        base(1, 2).with(|r| r.opted_out = Some("a label")).next(),
        "wait 2 s: engine_error"
    );
}

#[test]
fn nothing_is_done_to_a_delegate_that_cannot_be_inspected() {
    let base = scene()
        .serving(old())
        .pulled(V2)
        .with(|r| r.inspect_error = Some("no such container".to_owned()));
    assert_eq!(base.next(), "wait 1 s: engine_error");
    // Nor when its time has come: it is the next observation that shows it.
    let backoff = Backoff {
        reason: engine_error(),
        attempts: 10,
        retry_at: now(),
    };
    assert_eq!(
        base.knowing(|facts| facts.backoff = Some(backoff)).next(),
        "rest: engine_error"
    );
}

#[test]
fn an_image_that_is_being_pulled_is_waited_for() {
    let pulling = |scene: Scene| scene.knowing(|facts| facts.is_pulling = true);
    assert_eq!(
        pulling(scene().serving(old()).published(V2)).next(),
        "wait 2 s: pulling"
    );
    let alone = scene()
        .candidate(new().unhealthy(DEADLINE, DEADLINE))
        .published(V2);
    assert_eq!(pulling(alone).next(), "wait 2 s: pulling");
    // Not where there is nothing to pull.
    assert_eq!(pulling(scene().serving(old())).next(), "rest: awaiting_schedule");
}

#[test]
fn hidden_obstacles_are_looked_for_before_a_replacement_begins() {
    let unknown = |scene: Scene| scene.knowing(|facts| facts.hidden_obstacle = None);
    let published = || scene().serving(old()).published(V2);
    let pulled = || scene().serving(old()).pulled(V2);
    for base in [
        published(),
        pulled(),
        scene().serving(old().auto_remove()).pulled(V2),
    ] {
        assert_eq!(unknown(base.clone()).next(), COPIED_FILES);
        let copied = base.knowing(|facts| {
            facts.hidden_obstacle = Some(Err(Obstacle::CopiedFile {
                path: "/etc/ca.pem".to_owned(),
            }));
        });
        assert_eq!(copied.next(), "rest: obstacle");
    }
    // What was begun is finished, and where nothing is to be done nobody asks.
    assert_eq!(
        unknown(pulled().candidate(new())).next(),
        "start d.candidate (new)"
    );
    assert_eq!(unknown(scene().serving(old())).next(), "rest: awaiting_schedule");
    assert_eq!(
        unknown(pulled().with(|r| r.name_conflict = Some("d.candidate".to_owned()))).next(),
        "rest: name_taken"
    );
}

#[test]
fn the_host_s_memory_is_measured_before_there_are_two() {
    let unknown = |scene: Scene| scene.knowing(|facts| facts.free_memory = None);
    let short = |facts: &mut Facts| {
        facts.free_memory = Some(Err(SingleInstance::TooLittleMemory {
            needed: 2,
            available: 1,
        }));
    };
    let pulled = || scene().serving(old()).pulled(V2);
    let created = || pulled().candidate(new());
    assert_eq!(unknown(pulled()).next(), FREE_MEMORY);
    assert_eq!(unknown(created()).next(), FREE_MEMORY);
    assert_eq!(
        unknown(scene().serving(old().auto_remove()).pulled(V2)).next(),
        FREE_MEMORY
    );
    // Too little of it: the old one stops first.
    assert_eq!(created().knowing(short).next(), "retire old as d.draining-now");
    // Stop-first takes no memory for two.
    assert_eq!(
        unknown(created().host_network()).next(),
        "retire old as d.draining-now"
    );
}

#[test]
fn no_candidate_is_rejected_before_the_manager_has_answered() {
    let failed = || {
        scene()
            .serving(old())
            .candidate(new().unhealthy(DEADLINE, DEADLINE))
            .pulled(V2)
    };
    let knowing = |scene: Scene, reach: Option<Reach>| scene.knowing(|facts| facts.manager = reach).next();
    assert_eq!(knowing(failed(), None), MANAGER);
    assert_eq!(knowing(failed(), Some(Reach::Asking)), "wait 0 s: confirming");
    let unreachable = || {
        Some(Reach::Unreachable(
            "the Manager is unreachable: connection refused".to_owned(),
        ))
    };
    assert!(knowing(failed(), unreachable()).starts_with("find out the common cause"));
    // One that was never started needs no Manager to fail.
    let refused = new().change(|m| m.history.start_refused = Some("no such file".to_owned()));
    let refused = scene().serving(old()).candidate(refused).pulled(V2);
    assert!(knowing(refused, None).starts_with("reject new as d.failed-1"));
    // One that is between two lives is stopped meanwhile.
    let crashing = scene()
        .serving(old())
        .candidate(new().state(RunState::Restarting).restarts(3))
        .pulled(V2);
    assert!(knowing(crashing, None).starts_with("set the restart policy"));
}

#[test]
fn nothing_is_held_against_one_that_vanished_while_the_manager_was_away() {
    let vanished = |reach: Option<Reach>| {
        let attempt = new().id("mark").policy("no").change(|m| m.created_at = ago(2));
        let scene = scene().serving(old().auto_remove()).attempt(attempt).pulled(V2);
        scene.knowing(|facts| facts.manager = reach)
    };
    assert_eq!(vanished(None).next(), MANAGER);
    assert_eq!(
        vanished(Some(Reach::Asking)).next(),
        "wait 0 s: candidate_vanished"
    );
    let away = Some(Reach::Unreachable("connection refused".to_owned()));
    assert_eq!(
        vanished(away.clone()).next(),
        "find out the common cause of a failure: connection refused (mark)"
    );
    let excused = vanished(away).with(|r| {
        let attempt = r.attempt.as_mut().unwrap();
        attempt
            .history
            .note_common_cause(now(), "connection refused".to_owned());
    });
    assert_eq!(excused.next(), "withdraw mark as d.withdrawn-now: inconclusive");
    // One that could not be started needs no Manager.
    let refused = vanished(None).with(|r| {
        r.vanished = vec![Vanished {
            image: image_id(V2),
            cause: Some("no such file".to_owned()),
            is_excused: false,
        }];
    });
    assert!(
        refused
            .next()
            .starts_with("reject mark as d.failed-1: it could not be started")
    );
}

#[test]
fn one_that_waits_for_a_replica_that_has_come_to_rest_is_halted() {
    let waiting = scene()
        .serving(old())
        .settle(Reason::WaitingForReplica { name: "e".to_owned() });
    assert_eq!(waiting.clone().next(), "rest: waiting_for_replica");
    let stalled = waiting.knowing(|facts| facts.stalled_replica = Some("no way back".to_owned()));
    assert_eq!(stalled.next(), "rest: halted");
}

#[test]
fn whether_somebody_stopped_the_new_one_is_asked_again_after_its_standby_was_made() {
    let base = |standby: Member| {
        let told = |member: Member| {
            let told = member.stopped_by(StoppedBy::Nobody);
            told.change(|m| m.history.stopper.as_mut().unwrap().asked_at = ago(5))
        };
        let serving = told(old().auto_remove());
        let candidate = told(new().auto_remove().running(90, 80));
        let scene = scene().serving(serving).candidate(candidate).standby(standby);
        scene.attempt(new().id("mark")).next()
    };
    let made = |seconds| standby().change(|m| m.created_at = ago(seconds));
    assert_eq!(base(made(6)), "retire old as d.draining-now");
    assert_eq!(base(made(4)), "find out whether somebody stopped old");
    // By a clock that was set back, nothing was made since.
    assert_eq!(base(made(-60)), "retire old as d.draining-now");
}
