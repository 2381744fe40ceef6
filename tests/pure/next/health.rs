//! When an unhealthy delegate is restarted, and when not.

use std::time::Duration;

use delegate_upgrader::container::RunState;
use delegate_upgrader::document::{DependencyKind, Obstacle};
use delegate_upgrader::rollout::reason::{Awaited, Reason};
use delegate_upgrader::rollout::{Decision, Member, Reach, RequestedRestart, Row, Step, StoppedBy};

use super::scene::{Change, DEADLINE, STOP_TIMEOUT, Scene, V1, V2, ago, new, old, standby};

const RESTARTED: &str = "restart old within 1h after 3 failures";
const HELD_BACK: &str = "rest: restart_held_back";

/// A delegate that has failed so many checks, the only one of its host.
fn failing(checks: u64) -> Member {
    old()
        .unhealthy(86_400, 200)
        .change(|m| m.history.checks.failed = checks)
        .change(|m| m.history.checks.last_at = Some(ago(4)))
}

fn scene(serving: Member) -> Scene {
    let mut scene = Scene::new().serving(serving).knowing(|facts| {
        facts.delegates = 1;
        facts.unhealthy_delegates = 1;
    });
    scene.policy.restarts_unhealthy = true;
    scene
}

pub(super) fn unhealthy() -> Scene {
    scene(failing(3))
}

pub(super) fn changed(change: impl FnOnce(&mut Member)) -> Scene {
    let mut scene = unhealthy();
    change(scene.rollout.serving.as_mut().unwrap());
    scene
}

/// This process asked for a restart of its present life so many seconds ago.
fn asked_to_restart(seconds: i64) -> Scene {
    changed(|m| {
        m.history.checks.restart = Some(RequestedRestart {
            life: m.started_at,
            asked_at: ago(seconds),
            grace: m.stop_timeout,
        });
    })
}

#[test]
fn one_that_failed_three_checks_in_a_row_is_restarted_where_that_is_asked_for() {
    assert_eq!(unhealthy().next(), RESTARTED);
    assert_eq!(scene(failing(2)).next(), "rest: awaiting_schedule");
    let mut report = unhealthy();
    report.policy.restarts_unhealthy = false;
    assert_eq!(report.next(), "rest: awaiting_schedule");
    assert_eq!(
        scene(old().change(|m| m.history.checks.failed = 3)).next(),
        "rest: awaiting_schedule",
        "it is healthy by now"
    );
}

#[test]
fn one_that_its_owner_looks_after_is_left_alone() {
    assert_eq!(
        unhealthy().with(|r| r.opted_out = Some("a label")).next(),
        "rest: opted_out"
    );
    let mut health_only = unhealthy();
    health_only.policy.health_only = true;
    assert_eq!(health_only.next(), "rest: health_only");
    for state in [
        RunState::Paused,
        RunState::Exited,
        RunState::Created,
        RunState::Dead,
    ] {
        let scene = changed(|m| m.state = state.clone());
        assert_eq!(scene.next(), "rest: not_running", "{state:?}");
    }
    // Its restarts are the engine's business.
    let crashing = changed(|m| m.state = RunState::Restarting);
    assert_eq!(crashing.next(), "rest: awaiting_schedule");
}

#[test]
fn each_restart_doubles_the_time_that_the_next_life_has() {
    for (restarts, minutes) in [(0, 1), (1, 2), (2, 4), (5, 32), (6, 60), (40, 60)] {
        let at = |age: i64| {
            changed(|m| {
                m.started_at = Some(ago(age));
                m.history.stopper.as_mut().unwrap().started_at = m.started_at;
                m.history.checks.restarts = restarts;
                m.history.checks.has_passed = true;
            })
        };
        assert_eq!(at(minutes * 60).next(), RESTARTED, "{restarts}");
        let early = at(minutes * 60 - 1);
        assert_eq!(early.next(), "rest: restart_backoff", "{restarts}");
        let Reason::RestartBackoff { attempt, until, .. } = early.reason() else {
            panic!("{}", early.reason());
        };
        assert_eq!((attempt, until), (restarts + 1, ago(-1)));
    }
}

/// The check may be from long ago, where another delegate keeps the loop busy.
#[test]
fn one_that_may_have_recovered_is_checked_once_more() {
    let checked = |seconds, is_due| {
        let serving = changed(|m| {
            m.history.checks.last_at = Some(ago(seconds));
            m.history.is_check_due = is_due;
        });
        serving.next()
    };
    assert_eq!(checked(4, false), RESTARTED);
    assert_eq!(checked(5, false), "find out whether old is still unhealthy");
    assert!(
        checked(5, true).ends_with("restart_held_back"),
        "{}",
        checked(5, true)
    );
    let mut plan = changed(|m| m.history.checks.last_at = Some(ago(5)));
    plan.facts.is_plan = true;
    assert_eq!(plan.next(), RESTARTED);
}

#[test]
fn one_that_may_still_be_starting_has_as_long_as_a_candidate() {
    let at = |age: i64| {
        changed(|m| {
            m.started_at = Some(ago(age));
            m.history.stopper.as_mut().unwrap().started_at = m.started_at;
        })
    };
    assert_eq!(at(DEADLINE - 1).next(), "rest: restart_backoff");
    assert_eq!(at(DEADLINE).next(), RESTARTED);
}

#[test]
fn a_replacement_that_is_due_goes_first() {
    assert_eq!(unhealthy().published(V2).next(), format!("pull {V2}"));
    assert!(unhealthy().pulled(V2).next().starts_with("create from old"));
    let pulling = unhealthy().published(V2).knowing(|facts| facts.is_pulling = true);
    assert_eq!(pulling.next(), "wait 2 s: pulling");
    for reason in [
        Reason::WaitingForReplica { name: "e".to_owned() },
        Reason::AwaitingAnswer {
            from: Awaited::Manager,
            waited: Duration::ZERO,
            last_error: None,
        },
    ] {
        let expected = format!("rest: {}", reason.kind());
        assert_eq!(unhealthy().settle(reason).next(), expected);
    }
    // None is due.
    assert_eq!(unhealthy().pulled(V1).next(), RESTARTED);
    let rejected = new().id("failed").image(V2).exited(60).policy("no");
    assert_eq!(unhealthy().failed(1, rejected).pulled(V2).next(), RESTARTED);
    let halted = unhealthy()
        .settle(Reason::WaitingForReplica { name: "e".to_owned() })
        .knowing(|facts| facts.stalled_replica = Some("e is broken".to_owned()));
    assert_eq!(halted.next(), RESTARTED);
}

#[test]
fn nothing_is_restarted_in_the_middle_of_a_replacement() {
    let is_left_alone = |scene: &Scene| {
        let decided = scene.decision();
        assert!(
            !matches!(decided, Decision::Act(Step::Restart { .. })),
            "{decided}"
        );
    };
    is_left_alone(&unhealthy().candidate(new()));
    is_left_alone(&unhealthy().candidate(new().running(90, 60)));
    is_left_alone(&unhealthy().draining(90, old().id("older").asked_to_stop(60)));
    is_left_alone(&unhealthy().withdrawn(90, new().id("withdrawn").asked_to_stop(60)));
    is_left_alone(&unhealthy().standby(standby()));
    is_left_alone(&changed(|m| m.history.stop_requested_at = Some(ago(60))));
}

#[test]
fn without_the_manager_none_is_restarted() {
    let with = |reach: Option<Reach>| unhealthy().knowing(|facts| facts.manager = reach);
    assert_eq!(with(Some(Reach::Reachable)).next(), RESTARTED);
    assert_eq!(
        with(None).next(),
        "find out whether the Manager can be reached",
        "it is asked for when the answer counts"
    );
    assert_eq!(with(Some(Reach::Asking)).next(), "wait 0 s: restart_held_back");
    let unreachable = with(Some(Reach::Unreachable("connection refused".to_owned())));
    assert_eq!(unreachable.next(), HELD_BACK);
    assert_eq!(unreachable.reason().cause(), Some("manager_unreachable"));
    // Nobody can be asked about it.
    let mut nameless = with(None);
    nameless.rollout.serving.as_mut().unwrap().image = "not a reference".into();
    assert_eq!(nameless.next(), RESTARTED);
}

#[test]
fn while_most_are_unhealthy_none_is_restarted() {
    for (unhealthy_delegates, delegates, is_restarted) in [
        (1, 1, true),
        (1, 2, true),
        (2, 2, false),
        (2, 3, false),
        (2, 4, true),
        (3, 5, false),
        (3, 6, true),
    ] {
        let scene = unhealthy().knowing(|facts| {
            facts.delegates = delegates;
            facts.unhealthy_delegates = unhealthy_delegates;
        });
        let expected = if is_restarted { RESTARTED } else { HELD_BACK };
        assert_eq!(scene.next(), expected, "{unhealthy_delegates} of {delegates}");
    }
}

#[test]
fn one_that_somebody_asked_to_stop_is_not_restarted() {
    let by = |by| scene(failing(3).stopped_by(by));
    let asked = by(StoppedBy::Somebody);
    assert_eq!(asked.next(), HELD_BACK);
    assert_eq!(asked.reason().cause(), Some("asked_to_stop"));
    for unknown in [StoppedBy::Nobody, StoppedBy::Engine, StoppedBy::Unknown] {
        assert_eq!(by(unknown).next(), RESTARTED, "{unknown:?}");
    }
    let mut unasked = scene(failing(3).stopped_by_whom());
    assert_eq!(unasked.next(), "find out whether somebody stopped old");
    // A plan asks nobody.
    unasked.facts.is_plan = true;
    assert_eq!(unasked.next(), RESTARTED);
}

#[test]
fn one_that_others_depend_on_or_that_something_else_manages_is_not_restarted() {
    let with = |obstacle| unhealthy().with(|r| r.obstacle = Some(obstacle));
    let shared = with(Obstacle::HasDependent {
        container: "sidecar".to_owned(),
        kind: DependencyKind::Network,
    });
    assert_eq!(shared.next(), HELD_BACK);
    let network = "swarm".to_owned();
    assert_eq!(with(Obstacle::SwarmNetwork { network }).next(), RESTARTED);
}

#[test]
fn what_the_engine_refuses_is_not_tried_again_in_this_run() {
    let refused = changed(|m| m.history.checks.refused = Some("forbidden".to_owned()));
    assert_eq!(refused.next(), HELD_BACK);
    assert_eq!(
        refused.reason().to_string(),
        "its health check failed 3 times in a row (/api/health says unhealthy), but it is not restarted: Docker \
         refused: forbidden"
    );
}

#[test]
fn a_restart_in_progress_comes_to_its_end_first() {
    for scene in [asked_to_restart(100), asked_to_restart(100).pulled(V2)] {
        assert_eq!(scene.next(), "wait 10 s: restarting");
        assert_eq!(scene.reason().deadline(), Some(ago(100 - STOP_TIMEOUT)));
    }
    // An engine that restarted meanwhile has forgotten it.
    assert_eq!(asked_to_restart(STOP_TIMEOUT + 10).decided().rows, [Row::H2]);
    assert_eq!(asked_to_restart(STOP_TIMEOUT + 11).next(), RESTARTED);
    let mut lives_again = asked_to_restart(100);
    let serving = lives_again.rollout.serving.as_mut().unwrap();
    serving.started_at = Some(ago(90));
    serving.history.checks.has_passed = true;
    assert_eq!(
        lives_again.next(),
        "find out whether somebody stopped old",
        "another life"
    );
}

#[test]
fn one_that_a_restart_left_stopped_is_started() {
    let ended = |asked: i64, ended: i64| {
        let mut scene = asked_to_restart(asked);
        let serving = scene.rollout.serving.as_mut().unwrap();
        (serving.state, serving.finished_at) = (RunState::Exited, Some(ago(ended)));
        scene
    };
    assert_eq!(ended(100, 9).next(), "wait 10 s: restarting");
    assert_eq!(ended(100, 10).next(), "start d (old)");
    assert_eq!(ended(STOP_TIMEOUT + 100, 91).next(), "start d (old)");
    // Nobody here has ended that life.
    assert_eq!(ended(STOP_TIMEOUT + 100, 89).next(), "rest: not_running");
    let mut earlier = ended(100, 10);
    earlier.rollout.serving.as_mut().unwrap().started_at = Some(ago(90));
    assert_eq!(earlier.next(), "rest: not_running");
}
