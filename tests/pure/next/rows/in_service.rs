//! A container in service, without a candidate.

use chrono::{DateTime, TimeDelta, Utc};
use delegate_upgrader::config::{Timing, UpdateOrder};
use delegate_upgrader::container::{ContainerId, Request, RunState};
use delegate_upgrader::document::{DependencyKind, Obstacle};
use delegate_upgrader::host::hold::{Holds, Rejected};
use delegate_upgrader::rollout::reason::Reason;
use delegate_upgrader::rollout::{Facts, Intent};

use super::super::scene::{
    Change, Scene, V1, V2, V3, ago, copy, holds, image_id, new, old, parsed, remembered,
};
use super::{check, table};

const CREATE: &str = "create: create release 1 from old with harness/delegate:26.02.1";
/// An attempt that was given up has used up a number.
const CREATE_AGAIN: &str = "create: create release 2 from old with harness/delegate:26.02.1";
const PULL: &str = "pull: pull harness/delegate:26.02.1";

fn current() -> Scene {
    Scene::new().serving(old())
}

fn published() -> Scene {
    current().published(V2)
}

fn pulled() -> Scene {
    current().pulled(V2)
}

fn rejected(seconds: i64) -> delegate_upgrader::rollout::Member {
    new().id("f1").policy("no").exited(seconds)
}

#[test]
#[rustfmt::skip]
fn a_delegate_in_service_is_replaced_when_nothing_is_in_the_way() {
    let unknown = |scene: Scene, forget: fn(&mut Facts)| scene.knowing(forget);
    let snoozed = || published().with(|r| r.owner.snooze_until = Some(ago(-60)));
    let waiting = || current().keep(Reason::WaitingForReplica { name: "e".to_owned() });
    let by_upgrader = |seconds| Scene::new().serving(old().emulating().exited(seconds));
    let back = || old().change(|m| m.rolled_back_from = Some(remembered(V2)));
    let delayed = || {
        let timing = Timing { delay: std::time::Duration::from_secs(60), ..Timing::default() };
        let unseen = || delegate_upgrader::host::hold::Holds { first_seen: None, ..holds() };
        published().policy(|policy| policy.timing = timing).knowing(|facts| facts.holds = Some(Ok(unseen())))
    };
    let drains = |count: usize| (0..count).fold(pulled(), |scene, n| {
        let draining = old().id(["a", "b"][n]).asked_to_stop(5);
        scene.draining(90, draining)
    });
    let dependent = Obstacle::HasDependent { container: "logger".to_owned(), kind: DependencyKind::Network };
    table(
        "In service",
        vec![
            (Scene::new().serving(copy()), "copy_start: start copy"),
            (Scene::new().serving(copy()).host_network().failed(1, new().policy("no").unhealthy(90, 90).tasks(1).asked_to_stop(90)), "copy_start: wait 1s, stopping"),
            (by_upgrader(10), "auto_remove: remove old"),
            (by_upgrader(9), "auto_remove: wait 1s, stopping"),
            (Scene::new().serving(old().exited(3)).pulled(V2), "blocked: rest, not_running"),
            (waiting(), "blocked: rest, waiting_for_replica"),
            (current(), "blocked: rest, awaiting_schedule"),
            (current().keep(Reason::UpToDate { image: V1.to_owned() }), "blocked: rest, up_to_date"),
            (Scene::new().serving(back()).published(V2), "blocked: rest, rolled_back"),
            (Scene::new().serving(back()).pulled(V2), "blocked: rest, rolled_back"),
            (Scene::new().serving(back()).pulled(V2).demanded(Intent::Retry(Request::default())), CREATE),
            (current().pulled(V1), "blocked: rest, up_to_date"),
            (current().pulled(V1).with(|r| r.serving.as_mut().unwrap().image = V3.into()), "blocked: rest, same_image"),
            (drains(1), CREATE),
            (drains(1).host_network(), CREATE),
            (drains(2), "enough_drains: wait 500ms, awaiting_drains"),
            (Scene::new().serving(old().unhealthy(90, 9)).pulled(V2).retired(old().id("r")), "enough_drains: wait 5s, awaiting_drains"),
            (pulled().host_network().withdrawn(9, new().policy("no").running(90, 5).asked_to_stop(5)), "enough_drains: wait 500ms, awaiting_drains"),
            (pulled().withdrawn(9, new().policy("no").running(90, 5).asked_to_stop(5)), CREATE_AGAIN),
            (published().with(|r| r.obstacle = Some(dependent.clone())), "blocked: rest, obstacle"),
            (published().knowing(|facts| facts.hidden_obstacle = Some(Err(Obstacle::CopiedFile { path: "/ca.pem".to_owned() }))), "blocked: rest, obstacle"),
            (published().knowing(|facts| facts.is_pulling = true), "pulling: wait 2s, pulling"),
            (unknown(published(), |facts| facts.holds = None), "holds_unknown: find out holds"),
            (delayed(), "first_seen: note that harness/delegate:26.02.1 is first seen"),
            (snoozed(), "blocked: rest, snoozed"),
            (pulled().failed(1, rejected(60)), "blocked: rest, quarantined"),
            (published().failed(1, rejected(60)), "blocked: rest, quarantined"),
            (pulled().failed(1, rejected(60)).demanded(Intent::Retry(Request::default())), CREATE_AGAIN),
            (pulled().failed(1, rejected(60)).demanded(Intent::Rollback(Request::default())), CREATE_AGAIN),
            (pulled().failed(1, rejected(60).image(V3)), CREATE_AGAIN),
            (pulled().failed(1, rejected(3600)).knowing(|facts| facts.known_rejections.clear()), "blocked: rest, rejected"),
            (published().with(|r| r.taken_names.push("d.candidate".to_owned())), "blocked: rest, name_taken"),
            (published().with(|r| r.taken_names.push("d.retired".to_owned())), "blocked: rest, name_taken"),
            (published().host_network().update_order(UpdateOrder::StartFirst), "blocked: rest, cannot_start_first"),
            (pulled().host_network().update_order(UpdateOrder::StartFirst), "blocked: rest, cannot_start_first"),
            (unknown(published(), |facts| facts.hidden_obstacle = None), "obstacle_unknown: find out hidden_obstacle"),
            (unknown(snoozed(), |facts| facts.hidden_obstacle = None), "obstacle_unknown: find out hidden_obstacle"),
            (published(), PULL),
            (unknown(pulled(), |facts| facts.free_memory = None), "memory_unknown: find out free_memory"),
            (unknown(pulled(), |facts| (facts.free_memory, facts.crowd) = (None, 2)), "memory_unknown: wait 5s, waiting_for_others"),
            (unknown(pulled().host_network(), |facts| facts.free_memory = None), CREATE),
            (pulled().knowing(|facts| facts.has_created = true), "blocked: rest, candidate_vanished"),
            (pulled(), CREATE),
            (Scene::new().serving(old().state(RunState::Restarting)).pulled(V2), CREATE),
            (Scene::new().serving(new().running(500, 500).change(|m| m.release = 4)).pulled(V3), "create: create release 5 from new with harness/delegate:26.03.1"),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn a_delegate_that_its_owner_stopped_is_left_alone() {
    for state in [
        RunState::Exited,
        RunState::Paused,
        RunState::Created,
        RunState::Dead,
        RunState::Removing,
        RunState::Other("odd".to_owned()),
    ] {
        let scene = Scene::new().serving(old().state(state)).pulled(V2);
        check(vec![(scene, "blocked: rest, not_running")]);
    }
}

/// A quarantine lasts an hour from the end of the container, two hours after the second failure, and a day at most.
#[test]
#[rustfmt::skip]
fn a_quarantine_doubles_and_ends() {
    let failed = |attempt, seconds| pulled().failed(attempt, rejected(seconds));
    for (attempt, hours) in [(1, 1), (2, 2), (5, 16), (6, 24), (40, 24)] {
        check(vec![
            (failed(attempt, hours * 3600 - 1), "blocked: rest, quarantined"),
            (failed(attempt, hours * 3600), CREATE_AGAIN),
        ]);
    }
    // A resource that the host lacks says nothing about the image.
    let lacks = |seconds| rejected(seconds).change(|m| m.life.ending = "exited with code 128: no space left on device".to_owned());
    check(vec![
        (pulled().failed(5, lacks(3599)), "blocked: rest, quarantined"),
        (pulled().failed(5, lacks(3600)), CREATE_AGAIN),
    ]);
    let up = new().id("f1").policy("no").unhealthy(9000, 9000).asked_to_stop(5);
    check(vec![(pulled().failed(1, up), "blocked: wait 500ms, quarantined")]);
    // By another clock it ends in a year, or has not started yet.
    let end = |seconds: i64| {
        failed(1, -seconds).reason().ends_at()
    };
    assert_eq!((end(0), end(1800)), (Some(ago(-3600)), Some(ago(-3600))));
    check(vec![(failed(1, -365 * 86_400), CREATE_AGAIN)]);
}

/// A prune removes the failed container, and a rollback removes it as well.
#[test]
#[rustfmt::skip]
fn a_recorded_rejection_keeps_its_image_in_quarantine() {
    let recorded = |scene: Scene, seconds: i64, change: fn(&mut Rejected)| {
        let id = ContainerId::new("f1");
        let mut record = Rejected::new(&id, "d", (&V2.into(), &image_id(V2)), 1, ago(seconds));
        record.until = record.since + TimeDelta::hours(2);
        change(&mut record);
        scene.knowing(|facts| facts.holds = Some(Ok(Holds { rejected: vec![record], ..holds() })))
    };
    let same = |_: &mut Rejected| ();
    let after = |release, rolled_back: bool| Scene::new().pulled(V2).serving(old().change(|m| {
        m.release = release;
        m.rolled_back_from = rolled_back.then(|| remembered(V3));
    }));
    check(vec![
        (recorded(published(), 7199, same), "blocked: rest, quarantined"),
        (recorded(pulled(), 7199, same), "blocked: rest, quarantined"),
        (recorded(pulled(), 7200, same), CREATE),
        (recorded(pulled(), 60, |record| record.image_id = image_id(V3)), CREATE),
        (recorded(pulled().demanded(Intent::Retry(Request::default())), 60, same), CREATE),
        (recorded(after(1, false), 60, same), CREATE_AGAIN),
        (recorded(after(1, true), 60, same), "blocked: rest, quarantined"),
        // An impossible length, which no upgrader wrote.
        (recorded(pulled(), 86_400, |record| record.until = DateTime::<Utc>::MAX_UTC), CREATE),
    ]);
}

/// A tag such as `latest` may stand for another image by now, so it is pulled first; a plan pulls nothing.
#[test]
#[rustfmt::skip]
fn pulls_a_mutable_tag_before_applying_its_quarantine() {
    let latest = "harness/delegate:latest";
    let scene = || current().published(latest).failed(1, rejected(60).image(latest));
    check(vec![
        (scene(), "pull: pull harness/delegate:latest"),
        (scene().knowing(|facts| facts.is_plan = true), "blocked: rest, quarantined"),
        (scene().pulled(latest), "blocked: rest, quarantined"),
    ]);
}

/// The same reference stands for two images here, so only the id tells them apart.
#[test]
#[rustfmt::skip]
fn a_moved_tag_is_not_the_rolled_back_image() {
    let moved = |id: &str| {
        let left = delegate_upgrader::rollout::RememberedImage {
            reference: V1.into(),
            id: delegate_upgrader::container::ImageId::new("moved"),
        };
        let mut scene = Scene::new().serving(old().change(|m| m.rolled_back_from = Some(left)));
        scene.desired = delegate_upgrader::rollout::Desired::Image {
            reference: parsed(V1),
            id: (!id.is_empty()).then(|| delegate_upgrader::container::ImageId::new(id)),
            intent: Intent::Upgrade,
        };
        scene
    };
    check(vec![
        (moved("moved"), "blocked: rest, rolled_back"),
        (moved("newer"), "create: create release 1 from old with harness/delegate:26.01.1"),
        (moved(""), "pull: pull harness/delegate:26.01.1"),
    ]);
}

#[test]
#[rustfmt::skip]
fn owner_label_overrides_administrator_strategy() {
    let base = || pulled().candidate(new()).update_order(UpdateOrder::StopFirst);
    check(vec![
        (base(), "name_draining: rename old to d.draining-now"),
        (base().with(|r| r.owner.update_order = Some(UpdateOrder::StartFirst)), "candidate_start: start new"),
    ]);
}
