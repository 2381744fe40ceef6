//! What becomes of `--rm` delegates, their standbys and markers, and of old containers that drain or cannot start.

use delegate_upgrader::config::Strategy;
use delegate_upgrader::container::ContainerId;
use delegate_upgrader::container::RunState;
use delegate_upgrader::rollout::{Member, StoppedBy, Vanished};

use super::scene::{
    Change, DEADLINE, HEALTHY_TIME, Scene, V1, V2, V3, ago, image_id, new, now, old, standby,
};

fn scene() -> Scene {
    Scene::new()
}

/// A delegate that was started with `--rm`.
fn fleeting() -> Member {
    old().auto_remove()
}

/// The successor of an `--rm` delegate, never started.
fn heir() -> Member {
    new().auto_remove()
}

/// A marker that was created after the candidate.
fn mark() -> Member {
    new().id("mark").policy("no").change(|m| m.created_at = ago(2))
}

fn vanished(image: &str) -> Vanished {
    Vanished {
        image: image_id(image),
        cause: None,
        is_excused: false,
    }
}

#[test]
fn a_delegate_that_vanishes_by_stopping_gets_a_standby_before_anything_else() {
    let base = scene().serving(fleeting());
    assert_eq!(base.clone().published(V2).next(), format!("pull {V2}"));
    let pulled = base.pulled(V2);
    assert_eq!(
        pulled.clone().next(),
        "make a standby copy of the old container (old)"
    );
    let ready = pulled.standby(standby());
    assert_eq!(ready.clone().next(), format!("create from old: {V2}, release 1"));
    // That it is tried must outlast it.
    let created = ready.candidate(heir());
    assert_eq!(created.clone().next(), format!("mark {V2} as tried by new"));
    assert_eq!(created.attempt(mark()).next(), "start d.candidate (new)");
}

#[test]
fn without_a_standby_it_does_not_give_up_its_name() {
    let proven = scene()
        .serving(fleeting())
        .candidate(heir().running(90, HEALTHY_TIME))
        .pulled(V2);
    assert_eq!(
        proven.clone().next(),
        "make a standby copy of the old container (old)"
    );
    assert_eq!(proven.standby(standby()).next(), "retire old as d.draining-now");
}

#[test]
fn a_standby_that_is_not_needed_goes() {
    // Never touched: whatever its health.
    let base = scene().standby(standby());
    assert_eq!(
        base.clone().serving(fleeting().unhealthy(90, 90)).next(),
        "remove d.standby (standby)"
    );
    // Replaced: as soon as the successor works and nothing drains any more.
    let successor = || heir().running(90, 90);
    assert_eq!(
        base.clone().serving(successor()).next(),
        "remove d.standby (standby)"
    );
    assert_eq!(
        base.clone().serving(heir().unhealthy(90, 90)).next(),
        "wait 5 s: successor_unhealthy"
    );
    assert_eq!(
        base.clone()
            .serving(successor())
            .draining(30, fleeting().asked_to_stop(20))
            .reason()
            .kind()
            .as_str(),
        "draining"
    );
    // Somebody else's by now.
    assert_eq!(
        base.serving(old().id("another").unhealthy(90, 90)).next(),
        "remove d.standby (standby)"
    );
}

#[test]
fn a_standby_that_somebody_started_is_stopped_while_the_delegate_serves() {
    let base = scene().serving(fleeting()).standby(standby().running(30, 30));
    assert_eq!(base.next(), "tell d.standby (standby) to stop within 1h");
}

#[test]
fn stop_first_waits_until_it_has_vanished_and_then_starts_the_candidate() {
    let base = scene()
        .host_network()
        .standby(standby())
        .candidate(heir())
        .pulled(V2);
    let serving = base.clone().serving(fleeting());
    assert_eq!(serving.clone().next(), format!("mark {V2} as tried by new"));
    assert_eq!(serving.attempt(mark()).next(), "retire old as d.draining-now");
    assert_eq!(
        base.clone().draining(1, fleeting()).next(),
        "tell d.draining-1 (old) to stop within 1h"
    );
    assert_eq!(
        base.clone()
            .draining(9, fleeting().asked_to_stop(5))
            .reason()
            .kind()
            .as_str(),
        "draining"
    );
    assert_eq!(base.next(), "start d.candidate (new)");
}

#[test]
fn an_auto_remove_candidate_that_failed_is_marked_then_withdrawn() {
    let base = |candidate: Member| {
        scene()
            .serving(fleeting())
            .standby(standby())
            .candidate(candidate)
            .pulled(V2)
    };
    let failed = || heir().unhealthy(DEADLINE, 90);
    // Its attempt marker is its rejection from now on. One that somebody removed is made again.
    assert_eq!(base(failed()).next(), format!("mark {V2} as tried by new"));
    let tried = base(failed()).attempt(mark());
    assert!(tried.next().starts_with("reject mark as d.failed-1: not healthy"));
    let marked = base(failed()).failed(1, mark());
    assert_eq!(marked.next(), "withdraw new as d.withdrawn-now");
    // Whatever it looks like now.
    let better = base(heir().running(90, HEALTHY_TIME)).failed(1, mark());
    assert_eq!(better.next(), "withdraw new as d.withdrawn-now");
    // A mark that is older than the candidate is of an earlier one.
    let earlier = || mark().change(|m| m.created_at = ago(80_000));
    assert_eq!(
        base(heir().running(90, HEALTHY_TIME)).failed(1, earlier()).next(),
        "retire old as d.draining-now"
    );
    // Nor is the attempt marker of an earlier one, which is judged first.
    let stale = base(heir()).attempt(earlier().image(V3));
    assert!(
        stale
            .next()
            .starts_with("reject mark as d.failed-1: it disappeared")
    );
    // The number of the attempt continues.
    let again = base(failed()).failed(1, earlier().id("f1")).attempt(mark());
    assert!(again.next().starts_with("reject mark as d.failed-2"));
}

/// Its attempt marker goes first, or it would be blamed for being gone.
#[test]
fn an_auto_remove_candidate_that_is_not_to_blame_leaves_no_marker() {
    let base = |candidate: Member| {
        let scene = scene().serving(fleeting()).standby(standby());
        scene.candidate(candidate).attempt(mark()).pulled(V2)
    };
    let unmarked = |mut scene: Scene| {
        scene.rollout.attempt = None;
        scene.next()
    };
    let no_order = |scene: Scene| scene.strategy(Strategy::StartFirst).host_network();
    let assert_unmarked_first = |scene: Scene, then: &str| {
        assert_eq!(scene.next(), "remove d.attempt (mark)");
        assert_eq!(unmarked(scene), then);
    };
    let superseded = base(heir().running(90, 3)).pulled(V3);
    assert_unmarked_first(superseded, "withdraw new as d.withdrawn-now");
    let excused = base(heir().unhealthy(2 * DEADLINE, 90).common_cause(30));
    assert_unmarked_first(excused, "withdraw new as d.withdrawn-now: inconclusive");
    assert_unmarked_first(no_order(base(heir())), "remove d.candidate (new)");
    let paused = base(heir()).serving(fleeting().state(RunState::Paused));
    assert_unmarked_first(paused, "remove d.candidate (new)");
}

#[test]
fn the_attempt_marker_of_a_successor_goes_with_the_last_way_back() {
    let base = |serving: Member| scene().serving(serving).attempt(mark());
    let successor = || heir().running(90, 90);
    assert_eq!(base(successor()).next(), "remove d.attempt (mark)");
    // Whatever becomes of it later.
    assert_eq!(base(heir().unhealthy(90, 90)).next(), "remove d.attempt (mark)");
    assert_eq!(
        base(successor()).standby(standby()).next(),
        "remove d.standby (standby)"
    );
    let drains = base(successor()).draining(30, fleeting().asked_to_stop(20));
    assert_eq!(drains.reason().kind().as_str(), "draining");
    // What fails after the commit is rejected like a candidate.
    let lost = base(heir().unhealthy(DEADLINE, DEADLINE)).standby(standby());
    assert!(lost.next().starts_with("reject mark as d.failed-1: not healthy"));
}

#[test]
fn an_attempt_marker_that_somebody_started_is_stopped() {
    let stop = "tell d.attempt (mark) to stop within 1h";
    let up = || mark().running(5, 0);
    assert_eq!(scene().serving(fleeting()).attempt(up()).next(), stop);
    assert_eq!(scene().serving(heir().running(90, 90)).attempt(up()).next(), stop);
    let asked = scene()
        .serving(heir().running(90, 90))
        .attempt(up().asked_to_stop(5));
    assert_eq!(asked.reason().kind().as_str(), "stopping");
}

/// Whoever created it, and whatever is desired by now.
#[test]
fn an_auto_remove_candidate_that_vanished_is_rejected_once() {
    let base = scene().serving(fleeting()).attempt(mark());
    let gone = "reject mark as d.failed-1: it disappeared before it had proven itself: someone removed it, or it ran \
                with --rm and stopped";
    assert_eq!(base.clone().next(), gone);
    assert_eq!(base.clone().standby(standby()).pulled(V2).next(), gone);
    let known = |cause: Option<&str>, is_excused| {
        let mut vanished = vanished(V2);
        vanished.cause = cause.map(str::to_owned);
        vanished.is_excused = is_excused;
        base.clone().pulled(V2).with(|r| r.vanished = vec![vanished])
    };
    assert_eq!(
        known(Some("no such file"), false).next(),
        "reject mark as d.failed-1: it could not be started: no such file"
    );
    assert_eq!(known(None, true).next(), "remove d.attempt (mark)");
    // The other one's excuse is not its own.
    let other = known(None, true).with(|r| r.vanished[0].image = image_id(V3));
    assert_eq!(other.next(), gone);
    // It is judged once there is one in service again, which may take as long as its candidate is there.
    let restoring = scene().draining(90, fleeting().running(90, 90)).attempt(mark());
    assert_eq!(restoring.next(), "make a standby copy of the old container (old)");
    let withdrawn = heir().running(90, 0).asked_to_stop(5);
    let withdrawn = withdrawn.change(|m| m.predecessor_policy = None);
    let withdrawn = base.clone().withdrawn(9, withdrawn);
    assert_eq!(withdrawn.reason().kind().as_str(), "stopping");
    // An earlier attempt of the image is none of it.
    let again = base.failed(
        1,
        new().id("f1").policy("no").change(|m| m.created_at = ago(80_000)),
    );
    assert!(again.next().starts_with("reject mark as d.failed-2"));
    let settled = scene()
        .serving(fleeting())
        .pulled(V2)
        .with(|r| r.vanished = vec![vanished(V2)])
        .failed(1, mark());
    assert_eq!(settled.next(), "rest: candidate_vanished");
}

#[test]
fn where_no_container_is_left_the_delegate_is_recreated_from_its_standby() {
    let base = scene().standby(standby());
    assert_eq!(
        base.clone().next(),
        "create the old container again, from standby"
    );
    let refused = standby().change(|m| m.history.recreate_refused = true);
    assert_eq!(scene().standby(refused).next(), "start d.standby (standby)");
    let again = || old().id("again").replaces("standby").auto_remove();
    assert_eq!(
        base.clone().candidate(again().created()).next(),
        "start d.candidate (again)"
    );
    assert_eq!(
        base.clone().candidate(again().running(1, 0)).next(),
        "promote the candidate (again) to d"
    );
    assert_eq!(
        base.clone().serving(again().unhealthy(5, 5)).next(),
        "wait 5 s: successor_unhealthy"
    );
    // If it stays unhealthy, it is as good as it was; the standby could only recreate the same container.
    assert_eq!(
        base.clone().serving(again().unhealthy(DEADLINE, DEADLINE)).next(),
        "remove d.standby (standby)"
    );
    assert_eq!(base.clone().serving(again()).next(), "remove d.standby (standby)");
    // If it vanished again, the copy itself serves.
    let tried = base.with(|r| r.vanished = vec![vanished(V1)]);
    assert_eq!(tried.clone().next(), "start d.standby (standby)");
    assert_eq!(
        tried
            .with(|r| r.standby.as_mut().unwrap().state = RunState::Running)
            .next(),
        "restore the old container (standby) as d"
    );
}

/// An engine that renames a container at the moment it ends may never finish its removal.
#[test]
fn a_standby_serves_while_the_removal_of_the_one_with_the_name_is_stuck() {
    let again = || fleeting().id("again").replaces("standby");
    let vanishing = |seconds: i64| again().exited(seconds).state(RunState::Removing);
    let base = |seconds, standby| scene().serving(vanishing(seconds)).standby(standby).next();
    assert_eq!(base(599, standby()), "wait 1 s: stopping");
    assert_eq!(base(601, standby()), "start d.standby (standby)");
    assert_eq!(base(601, standby().running(30, 20)), "rest: removal_stuck");
    assert_eq!(base(700, standby().exited(3)), "wait 7 s: stopping");
    assert_eq!(base(700, standby().exited(11)), "start d.standby (standby)");
}

/// Nor does one that it drained keep the copy for ever.
#[test]
fn a_standby_goes_although_the_removal_of_the_old_one_is_stuck() {
    let vanishing = |seconds: i64| fleeting().exited(seconds).state(RunState::Removing);
    let base = |seconds| {
        let successor = heir().running(1000, 900);
        scene()
            .serving(successor)
            .draining(900, vanishing(seconds))
            .standby(standby())
            .next()
    };
    assert_eq!(base(599), "wait 1 s: stopping");
    assert_eq!(base(601), "remove d.standby (standby)");
}

#[test]
fn a_standby_waits_for_the_one_that_it_cannot_live_with() {
    let withdrawn = || heir().id("withdrawn").running(90, 0).asked_to_stop(5);
    let base = scene().standby(standby()).withdrawn(6, withdrawn());
    assert_eq!(base.clone().host_network().reason().kind().as_str(), "stopping");
    assert_eq!(base.next(), "create the old container again, from standby");
}

#[test]
fn a_successor_that_fails_after_the_commit_is_marked_and_the_standby_comes_back() {
    let base = scene()
        .standby(standby())
        .serving(heir().unhealthy(DEADLINE, DEADLINE));
    assert_eq!(base.clone().next(), format!("mark {V2} as tried by new"));
    let tried = base.clone().attempt(mark()).next();
    assert!(tried.starts_with("reject mark as d.failed-1"), "{tried}");
    assert_eq!(base.failed(1, mark()).next(), "withdraw new as d.withdrawn-now");
}

#[test]
fn an_old_one_that_the_engine_cannot_start_any_more_is_recreated() {
    let base = |failed| {
        let old = old().exited(70).change(|m| m.history.failed_starts = failed);
        scene()
            .draining(90, old)
            .failed(1, new().id("f1").policy("no").exited(60))
    };
    assert_eq!(base(2).next(), "start d.draining-90 (old)");
    assert_eq!(base(3).next(), "create the old container again, from old");
    // If its copy cannot be started either, the fault is not the container's, and may pass.
    let copy = new().id("copy").image(V1).policy("no").exited(5);
    assert_eq!(base(3).withdrawn(9, copy).next(), "start d.draining-90 (old)");
    // Its copy takes over like any successor.
    let copy = || old().id("copy").replaces("old").created();
    assert_eq!(
        base(3).candidate(copy()).next(),
        "set the restart policy of d.draining-90 (old) to no"
    );
}

#[test]
fn an_overdue_stop_is_observed_right_after_its_deadline() {
    let wait_after = |seconds| {
        let old = old().asked_to_stop(seconds);
        match scene()
            .serving(new().running(9000, 9000))
            .draining(9000, old)
            .decision()
        {
            delegate_upgrader::rollout::Decision::Wait { until, .. } => (until - now()).num_milliseconds(),
            step => panic!("{step}"),
        }
    };
    assert_eq!(wait_after(3595), 5000);
    assert_eq!(wait_after(3600), 501);
}

#[test]
fn a_candidate_that_replaces_another_container_is_rejected_beside_a_standby() {
    // A candidate of an older version, alone with a standby: it is judged, since there is something to go back to.
    let stranger = heir().change(|m| m.replaces = Some(ContainerId::new("stranger")));
    let base = scene()
        .standby(standby())
        .candidate(stranger.unhealthy(DEADLINE, 90));
    assert_eq!(base.next(), format!("mark {V2} as tried by new"));
}

#[test]
fn a_removal_that_is_stuck_is_not_waited_for() {
    let removing = |seconds| {
        old()
            .auto_remove()
            .state(RunState::Removing)
            .change(|m| m.finished_at = Some(ago(seconds)))
    };
    assert_eq!(scene().draining(900, removing(600)).next(), "wait 1 s: stopping");
    assert_eq!(scene().draining(900, removing(601)).next(), "rest: removal_stuck");
    // Behind a successor it holds up nothing.
    let behind = scene()
        .serving(new().running(90, 90))
        .draining(900, removing(601));
    assert_eq!(behind.next(), "rest: awaiting_schedule");
}

#[test]
fn an_image_that_another_replica_keeps_stays() {
    let ended = old().policy("no").exited(5).change(|m| {
        m.previous_image_id = Some(image_id(V3));
        m.release = 2;
    });
    let base = scene().serving(new().running(90, 90)).draining(90, ended);
    assert!(base.clone().next().starts_with("remove the image"));
    assert_eq!(
        base.with(|r| r.retained_images = vec![image_id(V3)]).next(),
        "remove d.draining-90 (old)"
    );
}

#[test]
fn a_candidate_that_vanished_beside_a_copy_that_somebody_started_is_not_blamed() {
    let up = || standby().running(5, 0);
    let base = |copy, vanished| {
        let scene = scene().host_network().standby(copy).attempt(mark());
        scene.with(|rollout| rollout.vanished = vanished)
    };
    let gone = || vec![vanished(V2)];
    let is_excused = |scene: Scene| scene.next() == "remove d.attempt (mark)";
    assert!(is_excused(base(up(), gone())));
    // This process started the copy, once the candidate had gone; or nothing started it.
    assert!(!is_excused(base(
        up().change(|m| m.history.restarted_by_us = true),
        gone()
    )));
    assert!(!is_excused(base(standby(), gone())));
    // Another image vanished, or nobody knows of any; or the two can run at once.
    assert!(!is_excused(base(up(), vec![vanished(V3)])));
    let start_first = base(up(), gone()).with(|rollout| rollout.single_instance = None);
    assert!(!is_excused(start_first));
}

/// Somebody may stop a candidate with `--rm` in the moment in which it is promoted.
#[test]
fn a_successor_whose_removal_is_stuck_is_not_blamed_for_being_unhealthy() {
    let base = |seconds, by: Option<StoppedBy>| {
        let heir = heir().change(|m| m.predecessor_policy = Some("no".to_owned()));
        let vanishing = heir.unhealthy(60, 5).exited(seconds).state(RunState::Removing);
        let vanishing = match by {
            Some(by) => vanishing.stopped_by(by),
            None => vanishing.stopped_by_whom(),
        };
        let scene = scene().serving(vanishing).standby(standby());
        let draining = scene.draining(30, fleeting().running(9000, 9000));
        draining.attempt(mark()).next()
    };
    assert_eq!(base(10, None), "wait 5 s: successor_unhealthy");
    assert_eq!(base(11, None), "find out whether somebody stopped new");
    assert_eq!(base(11, Some(StoppedBy::Somebody)), "remove d.attempt (mark)");
    let rejected = base(11, Some(StoppedBy::Nobody));
    assert!(rejected.starts_with("reject mark"), "{rejected}");
}
