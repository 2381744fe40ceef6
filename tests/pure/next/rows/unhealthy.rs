//! Cases in which an unhealthy delegate is restarted, and cases in which it is not.

use std::time::Duration;

use delegate_upgrader::container::RunState;
use delegate_upgrader::document::{DependencyKind, Obstacle};
use delegate_upgrader::rollout::reason::{Awaited, Reason};
use delegate_upgrader::rollout::{Decision, Member, Reach, RequestedRestart, Step};

use super::super::scene::{Change, DEADLINE, STOP_TIMEOUT, Scene, V1, V2, ago, new, old};
use super::{check, table};

const RESTARTED: &str = "restart: restart old within 1h";
const HELD_BACK: &str = "restart_deferred: rest, restart_deferred";
const AT_REST: &str = "blocked: rest, awaiting_schedule";

/// A delegate that has failed this many checks, the only one on its host.
fn failing(checks: u64) -> Scene {
    let serving = old().unhealthy(86_400, 200).change(|m| {
        m.history.checks.failed = checks;
        m.history.checks.last_at = Some(ago(4));
    });
    Scene::new()
        .serving(serving)
        .policy(|policy| policy.restarts_unhealthy = true)
        .knowing(|facts| (facts.delegates, facts.unhealthy_delegates) = (1, 1))
}

fn changed(change: impl FnOnce(&mut Member)) -> Scene {
    failing(3).with(|rollout| change(rollout.serving.as_mut().unwrap()))
}

/// This process asked for a restart of the current life this many seconds ago.
fn asked_to_restart(seconds: i64) -> Scene {
    changed(|m| {
        m.history.checks.restart = Some(RequestedRestart {
            asked_at: ago(seconds),
            grace: m.stop_timeout,
        });
    })
}

/// The same, and that life ended this many seconds ago.
fn ended(asked: i64, ended: i64) -> Scene {
    asked_to_restart(asked).with(|rollout| {
        let serving = rollout.serving.as_mut().unwrap();
        (serving.state, serving.life.finished_at) = (RunState::Exited, Some(ago(ended)));
    })
}

fn reach(reach: Option<Reach>) -> Scene {
    failing(3).knowing(|facts| facts.manager = reach)
}

#[test]
#[rustfmt::skip]
fn a_delegate_that_fails_its_checks_is_restarted() {
    let checked = |seconds, is_due| changed(|m| {
        (m.history.checks.last_at, m.history.checks.is_due) = (Some(ago(seconds)), is_due);
    });
    let unreachable = Reach::Unreachable("connection refused".to_owned());
    let nameless = reach(None).with(|r| r.serving.as_mut().unwrap().image = "not a reference".into());
    let dependent = Obstacle::HasDependent { container: "sidecar".to_owned(), kind: DependencyKind::Network };
    let swarm = Obstacle::SwarmNetwork { network: "swarm".to_owned() };
    table(
        "Unhealthy, with HEALTH_ACTION=restart",
        vec![
            (asked_to_restart(100), "restart_in_progress: wait 10s, restarting"),
            (asked_to_restart(100).pulled(V2), "restart_in_progress: wait 10s, restarting"),
            (asked_to_restart(STOP_TIMEOUT + 10), "restart_in_progress: wait 10s, restarting"),
            // Docker itself restarted meanwhile, and has forgotten the request.
            (asked_to_restart(STOP_TIMEOUT + 11), RESTARTED),
            // Some engines stop a container without starting it again.
            (ended(100, 9), "restart_in_progress: wait 10s, restarting"),
            (ended(100, 10), "restart_in_progress: start old"),
            (ended(STOP_TIMEOUT + 100, 91), "restart_in_progress: start old"),
            // Its owner stopped it later.
            (ended(STOP_TIMEOUT + 100, 89), "blocked: rest, not_running"),
            (changed(|m| m.life.started_at = Some(ago(DEADLINE - 1))), "restart_backoff: rest, restart_backoff"),
            (changed(|m| m.life.started_at = Some(ago(DEADLINE))), RESTARTED),
            (changed(|m| m.history.checks.refused = Some("forbidden".to_owned())), "restart_refused: rest, restart_deferred"),
            (failing(3).with(|r| r.obstacle = Some(dependent.clone())), HELD_BACK),
            (failing(3).with(|r| r.obstacle = Some(swarm.clone())), RESTARTED),
            (reach(None), "restart_deferred: find out manager_reachable"),
            (reach(Some(Reach::Asking)), "restart_deferred: wait 500ms, restart_deferred"),
            (reach(Some(unreachable)), HELD_BACK),
            (nameless, RESTARTED),
            // It may have recovered since.
            (checked(5, false), "restart_deferred: find out health"),
            (checked(5, true), "restart_deferred: wait 500ms, restart_deferred"),
            (checked(5, false).knowing(|facts| facts.is_plan = true), RESTARTED),
            (failing(3), RESTARTED),
            (failing(2), AT_REST),
            (failing(3).policy(|policy| policy.restarts_unhealthy = false), AT_REST),
            (failing(3).policy(|policy| policy.health_only = true), RESTARTED),
            (asked_to_restart(100).policy(|policy| policy.health_only = true), "restart_in_progress: wait 10s, restarting"),
            (failing(2).policy(|policy| policy.health_only = true), "health_only: rest, health_only"),
            (
                failing(3).policy(|policy| policy.health_only = true).with(|r| r.owner.opted_out = Some("a label")),
                "left_alone: rest, opted_out",
            ),
            (changed(|m| m.health = old().health), AT_REST),
            (changed(|m| m.state = RunState::Paused), "blocked: rest, not_running"),
            // Restarts by its policy are the engine's business.
            (changed(|m| m.state = RunState::Restarting), AT_REST),
        ],
    );
    assert_eq!(asked_to_restart(100).reason().deadline(), Some(ago(100 - STOP_TIMEOUT)));
}

#[test]
#[rustfmt::skip]
fn each_restart_doubles_the_required_uptime_before_the_next() {
    for (restarts, minutes) in [(0, 1), (1, 2), (2, 4), (5, 32), (6, 60), (40, 60)] {
        let at = |age: i64| {
            changed(|m| {
                m.life.started_at = Some(ago(age));
                (m.history.checks.restarts, m.history.checks.has_passed) = (restarts, true);
            })
        };
        check(vec![(at(minutes * 60), RESTARTED)]);
        let Reason::RestartBackoff { attempt, until, .. } = at(minutes * 60 - 1).reason() else {
            panic!("{restarts} restarts, {minutes} minutes");
        };
        assert_eq!((attempt, until), (restarts + 1, ago(-1)));
    }
}

#[test]
#[rustfmt::skip]
fn restarts_nothing_while_most_are_unhealthy() {
    for (unhealthy, all, expected) in [
        (1, 1, RESTARTED),
        (1, 2, RESTARTED),
        (2, 2, HELD_BACK),
        (2, 3, HELD_BACK),
        (2, 4, RESTARTED),
        (3, 5, HELD_BACK),
        (3, 6, RESTARTED),
    ] {
        let scene = failing(3).knowing(|facts| (facts.unhealthy_delegates, facts.delegates) = (unhealthy, all));
        check(vec![(scene, expected)]);
    }
}

#[test]
#[rustfmt::skip]
fn due_replacement_precedes_restart() {
    let waiting = || Reason::WaitingForReplica { name: "e".to_owned() };
    let awaiting = Reason::AwaitingAnswer {
        from: Awaited::Manager,
        waited: Duration::ZERO,
        last_error: None,
    };
    let rejected = new().id("failed").policy("no").exited(60);
    check(vec![
        (failing(3).published(V2), "pull: pull harness/delegate:26.02.1"),
        (failing(3).published(V2).knowing(|facts| facts.is_pulling = true), "pulling: wait 2s, pulling"),
        (failing(3).keep(waiting()), "blocked: rest, waiting_for_replica"),
        (failing(3).keep(awaiting), "blocked: rest, awaiting_answer"),
        // No upgrade is due.
        (failing(3).pulled(V1), RESTARTED),
        (failing(3).pulled(V2).failed(1, rejected), RESTARTED),
        (failing(3).keep(Reason::Halted { name: "e".to_owned(), because: "e failed".to_owned() }), RESTARTED),
    ]);
}

#[test]
#[rustfmt::skip]
fn nothing_is_restarted_in_the_middle_of_a_replacement() {
    let proceeds = |scene: Scene| {
        let decision = scene.decided().decision;
        assert!(!matches!(decision, Decision::Act(Step::Restart { .. })), "{decision}");
    };
    proceeds(failing(3).candidate(new()));
    proceeds(failing(3).candidate(new().running(90, 60)));
    proceeds(failing(3).draining(90, old().id("older").asked_to_stop(60)));
    proceeds(failing(3).retired(old().id("older")));
    proceeds(failing(3).withdrawn(90, new().policy("no").asked_to_stop(60).running(90, 0)));
    proceeds(failing(3).host_network().failed(1, new().policy("no").running(90, 0).asked_to_stop(60)));
}
