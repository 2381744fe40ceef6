//! A container in service, and a candidate beside it.

use chrono::TimeDelta;
use delegate_upgrader::config::UpdateOrder;
use delegate_upgrader::container::{Role, RunState};
use delegate_upgrader::document::{DependencyKind, Obstacle, SingleInstance};
use delegate_upgrader::rollout::Member;
use delegate_upgrader::rollout::reason::Reason;

use super::super::scene::{
    Change, DEADLINE, HEALTHY_TIME, Scene, V1, V2, V3, ago, copy, helper, new, now, old, remembered,
};
use super::upgrader::exchange;
use super::{check, table};

const UNWANTED: &str = "unwanted: withdraw new as d.withdrawn-now";
const RETIRE: &str = "name_retired: rename old to d.retired";
const DRAIN: &str = "name_draining: rename old to d.draining-now";

fn with(candidate: Member) -> Scene {
    Scene::new().serving(old()).candidate(candidate).pulled(V2)
}

const ANNOUNCE: &str = "between_lives: rename new to d.next";

/// The candidate is proven, and its name says that it is next.
fn next_after(serving: Member) -> Scene {
    behind(serving).with(|rollout| {
        if let Some(candidate) = &mut rollout.candidate {
            (candidate.name, candidate.role) = ("d.next".to_owned(), Role::Next);
        }
    })
}

fn behind(serving: Member) -> Scene {
    Scene::new()
        .serving(serving)
        .candidate(new().running(90, 90))
        .pulled(V2)
}

fn tried(trial: Option<Result<(), String>>) -> Scene {
    with(new().change(|m| m.history.trial = trial))
}

fn proven() -> Member {
    new().running(90, HEALTHY_TIME)
}

#[test]
#[rustfmt::skip]
fn a_candidate_proves_itself_beside_the_one_in_service() {
    let reconfigured = || {
        let changed = |member: &mut Member| member.reconfigured = Some("memory".to_owned());
        new().change(changed).change(|m| m.history.comparison = None)
    };
    let compared = |comparison: Option<Result<(), String>>| with(new().change(|m| m.history.comparison = comparison));
    table(
        "Side by side",
        vec![
            (
                Scene::new().serving(copy().running(5, 0).replaces("new")).candidate(new().exited(30)),
                "made_from_candidate: reject new as d.failed-1: exited with code 3 before it had proven itself",
            ),
            (
                Scene::new().serving(copy().running(5, 0).replaces("new")).candidate(new().unhealthy(DEADLINE, DEADLINE)),
                "made_from_candidate: reject new as d.failed-1: not healthy for 1m without a break within 10m: /api/health says unhealthy",
            ),
            (Scene::new().serving(copy().running(90, 90)).candidate(new().replaces("copy").running(10, 5)), "proving: wait 5s, proving"),
            (with(proven()).pulled(V3), UNWANTED),
            (with(proven().change(|m| m.fingerprint = Some("before".to_owned()))), "serving_changed: withdraw new as d.withdrawn-now: settings_changed"),
            (behind(old().exited(14)), "serving_down: wait 1s, interrupted"),
            (Scene::new().serving(old().exited(14)).candidate(new().exited(30)).pulled(V2), "serving_down: wait 1s, interrupted"),
            (behind(old().exited(15)), "serving_down: withdraw new as d.withdrawn-now: not_running"),
            (with(new().stopped(30)), "unwanted: withdraw new as d.withdrawn-now: candidate_vanished"),
            (with(new().exited(30)), "candidate_reject: reject new as d.failed-1: exited with code 3 before it had proven itself"),
            (compared(None), "prepare: prepare new"),
            (with(reconfigured()), "former_keep: keep memory of old"),
            (with(reconfigured()).former(new().id("former").policy("no")), "prepare: prepare new"),
            (compared(Some(Err("/Env".to_owned()))), "different: withdraw new as d.withdrawn-now: configuration_mismatch"),
            (with(new()), "candidate_start: start new"),
            (with(new()).knowing(|facts| facts.free_memory = None), "candidate_start: find out free_memory"),
            (with(new()).knowing(|facts| (facts.free_memory, facts.crowd) = (None, 1)), "candidate_start: wait 5s, waiting_for_others"),
            (Scene::new().serving(old().tasks(2)).candidate(new()).pulled(V2).host_network(), "wait_for_idle: wait 1s, waiting_for_idle"),
            // Docker cannot rename a container that it is restarting.
            (behind(old().state(RunState::Restarting)), ANNOUNCE),
            (Scene::new().serving(old().state(RunState::Restarting)).candidate(new()).pulled(V2).host_network(), ANNOUNCE),
            (next_after(old().state(RunState::Restarting)), "between_lives: stop old within 1h"),
            (next_after(old().exited(1)), "next_draining: rename old to d.draining-now"),
            (next_after(old().running(5, 3)), RETIRE),
            (tried(None).host_network(), "try_start: try new as d.trial-now"),
            (tried(Some(Err("no runtime".to_owned()))).host_network(), "try_start: withdraw new as d.withdrawn-now: start_refused"),
            (tried(None), "candidate_start: start new"),
            (with(new()).host_network(), DRAIN),
            (with(proven()), RETIRE),
            (with(proven()).host_network(), RETIRE),
            (with(new().running(90, HEALTHY_TIME - 1)), "proving: wait 1s, proving"),
            (with(new().unhealthy(90, 90)), "proving: wait 5s, proving"),
            (exchange(), "helper_create: create a helper from old with harness/delegate:26.02.1"),
            (exchange().helper(false, helper()), "helper_start: start helper"),
            (exchange().helper(false, helper().unhealthy(20, 20)), "helper_start: wait 5s, proving"),
            (exchange().helper(true, helper().running(90, 80)), "name_retired: rename old to d.retired"),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn a_candidate_is_judged_by_what_it_does() {
    let rejected = |words: &str| -> &'static str {
        format!("candidate_reject: reject new as d.failed-1: {words}").leak()
    };
    let exited = rejected("exited with code 3 before it had proven itself");
    let late = rejected("not healthy for 1m without a break within 10m: /api/health says unhealthy");
    let crashing = rejected("it keeps crashing: restarted 3 times, exited with code 3");
    check(vec![
        (with(new().unhealthy(DEADLINE - 1, 90)), "proving: wait 1s, proving"),
        (with(new().unhealthy(DEADLINE, 90)), late),
        // A fresh answer comes first, and a candidate that is healthy by then may still make it.
        (with(new().unhealthy(DEADLINE, 90).change(|m| m.history.is_awaited = true)), "proving: wait 500ms, proving"),
        (with(new().running(DEADLINE, HEALTHY_TIME - 5)), "proving: wait 500ms, proving"),
        // Proven at the last moment.
        (with(new().running(DEADLINE, HEALTHY_TIME)), RETIRE),
        // Time during which this process was not watching proves nothing.
        (with(new().running(86_400, 0).change(|m| m.history.seen_since = Some(now()))), "proving: wait 5s, proving"),
        (with(new().state(RunState::Dead)), exited),
        // Docker may restart it, unless it has no restart policy.
        (with(new().exited(9)), "proving: wait 5s, proving"),
        (with(new().exited(10)), exited),
        (with(new().exited(0).policy("no")), exited),
        (with(new().unhealthy(30, 30).restarts(2)), "proving: wait 5s, proving"),
        (with(proven().restarts(3)), crashing),
        (with(new().refused_for_good()), rejected("Docker could not start it: no such file")),
        // It did start in the end.
        (with(proven().refused_for_good()), RETIRE),
        // Docker cannot rename it between two lives.
        (with(new().state(RunState::Restarting).restarts(3)), "candidate_reject: stop new within 1h"),
        (with(proven().state(RunState::Restarting)).pulled(V3), "unwanted: stop new within 1h"),
    ]);
}

/// Other problems decide nothing, but the message names them.
#[test]
#[rustfmt::skip]
fn a_rejection_names_the_circumstances() {
    let scene = Scene::new()
        .serving(old().unhealthy(60, 60).change(|m| m.history.checks.took = Some(TimeDelta::seconds(14))))
        .candidate(new().unhealthy(DEADLINE, DEADLINE))
        .knowing(|facts| {
            facts.manager_problem = Some("the Manager has not answered for 5m".to_owned());
            (facts.unhealthy_delegates, facts.delegates) = (2, 3);
        });
    let words = scene.next();
    for part in [
        "candidate_reject: reject new as d.failed-1: not healthy",
        "the delegate in service was not healthy either",
        "the delegate in service took 14s to become healthy",
        "the delegate in service was restarted at",
        "the Manager has not answered for 5m",
        "2 of 3 delegates on this host were unhealthy",
    ] {
        assert!(words.contains(part), "{words}");
    }
    assert!(!with(new().exited(30)).next().contains("at that time"));
}

#[test]
#[rustfmt::skip]
fn an_unwanted_candidate_is_withdrawn_without_a_verdict() {
    let running = || new().running(90, 3);
    let rollback = || new().running(90, 3).change(|m| m.rolled_back_from = Some(remembered(V3)));
    let later = |seconds| new().id("f").policy("no").exited(60).change(|m| m.created_at = ago(seconds));
    let missing = || Obstacle::DependencyMissing { container: "vpn".to_owned(), kind: DependencyKind::Network };
    let up_to_date = || Reason::UpToDate { image: V1.to_owned() };
    check(vec![
        (with(new()).pulled(V3), UNWANTED),
        (with(running()).published(V3), UNWANTED),
        (with(running()).keep(up_to_date()), UNWANTED),
        (with(running().replaces("gone")), UNWANTED),
        (with(running()).failed(1, later(999)), UNWANTED),
        (with(running()).failed(1, later(1000)), "proving: wait 5s, proving"),
        (with(running()).failed(1, later(1001)), "proving: wait 5s, proving"),
        (with(new()).with(|r| r.obstacle = Some(missing())), UNWANTED),
        (with(running()).with(|r| r.obstacle = Some(missing())), "proving: wait 5s, proving"),
        (with(new()).host_network().update_order(UpdateOrder::StartFirst), UNWANTED),
        // The same image, whether pulled or not, or no word about it: the replacement continues.
        (with(running()).published(V2), "proving: wait 5s, proving"),
        (with(running()).keep(Reason::AwaitingSchedule { published: None }), "proving: wait 5s, proving"),
        // Another process rolls back from the published image.
        (with(rollback()).pulled(V3), "proving: wait 5s, proving"),
        (with(rollback()).keep(up_to_date()), "proving: wait 5s, proving"),
    ]);
}

#[test]
#[rustfmt::skip]
fn stopped_container_in_service_ends_the_replacement() {
    let paused = |seconds| old().state(RunState::Paused).change(|m| m.history.unhealthy_since = Some(ago(seconds)));
    let stopped = "serving_down: withdraw new as d.withdrawn-now: not_running";
    check(vec![
        (behind(paused(14)), "serving_down: wait 1s, interrupted"),
        (behind(paused(15)), stopped),
        (behind(old().state(RunState::Dead)), stopped),
        // The clock was set back far.
        (behind(old().exited(-16)), stopped),
        // A stop by the owner matters more than the candidate's state.
        (Scene::new().serving(old().exited(15)).candidate(new().exited(60)), stopped),
    ]);
}

#[test]
#[rustfmt::skip]
fn stop_first_waits_for_an_idle_moment_up_to_the_limit() {
    let with = |serving: Member, created: i64| {
        let candidate = new().change(|m| m.created_at = ago(created));
        Scene::new().serving(serving).candidate(candidate).pulled(V2).host_network()
    };
    let little = SingleInstance::TooLittleMemory { needed: 2, available: 1 };
    check(vec![
        (with(old().tasks(2), 3599), "wait_for_idle: wait 1s, waiting_for_idle"),
        (with(old().tasks(2), 3600), DRAIN),
        (with(old().tasks(0), 10), DRAIN),
        (with(old(), 10), DRAIN),
        (with(old().tasks(2), 0).policy(|policy| policy.idle_wait = std::time::Duration::ZERO), DRAIN),
        (Scene::new().serving(old().tasks(2)).candidate(new()).pulled(V2), "candidate_start: start new"),
        // Too little memory for two: the old container stops first.
        (Scene::new().serving(old()).candidate(new()).pulled(V2).knowing(|facts| facts.free_memory = Some(Err(little))), DRAIN),
    ]);
}

#[test]
#[rustfmt::skip]
fn failures_are_numbered_per_image() {
    let rejected = |id: &str, image: &str| new().id(id).image(image).policy("no").exited(90).change(|m| m.created_at = ago(2000));
    let starts = |scene: Scene, with: &str| {
        let words = scene.next();
        assert!(words.starts_with(with), "{words}");
    };
    let base = || with(new().exited(20));
    starts(base(), "candidate_reject: reject new as d.failed-1");
    starts(base().failed(1, rejected("f1", V2)), "candidate_reject: reject new as d.failed-2");
    starts(base().failed(3, rejected("f3", V2)), "candidate_reject: reject new as d.failed-4");
    // A failure of another image makes room, unless it is still running.
    starts(base().failed(1, rejected("f1", V3)), "candidate_reject: remove f1");
    starts(base().failed(2, rejected("f2", V3)), "candidate_reject: reject new as d.failed-1");
    starts(base().failed(1, rejected("f1", V3).running(50, 0).asked_to_stop(5)), "candidate_reject: reject new as d.failed-2");
    // Another container has that name.
    starts(base().with(|r| r.taken_names.push("d.failed-1".to_owned())), "candidate_reject: reject new as d.failed-2");
}
