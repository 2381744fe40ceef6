//! The helper of an upgrader of which two cannot run at once.

use delegate_upgrader::config::Strategy;
use delegate_upgrader::container::RunState;
use delegate_upgrader::document::SingleInstance;
use delegate_upgrader::rollout::StoppedBy;

use super::scene::{Change, DEADLINE, Scene, V2, V3, helper, new, old, standby};

/// Its candidate was created.
fn exchange() -> Scene {
    Scene::new().upgrader().serving(old()).candidate(new()).pulled(V2)
}

#[test]
fn an_upgrader_gives_up_its_name_only_to_a_candidate_whose_helper_is_ready() {
    let base = exchange();
    assert_eq!(base.next(), format!("make a helper of old with {V2}"));
    let made = base.clone().helper(helper());
    assert_eq!(made.next(), "start d.helper (helper)");
    let silent = base.clone().helper(helper().unhealthy(20, 20));
    assert_eq!(silent.next(), "wait 5 s: proving");
    let ready = base.clone().ready_helper(helper().running(90, 20));
    assert_eq!(ready.next(), "wait 5 s: proving");
    let proven = base.ready_helper(helper().running(90, 80));
    assert_eq!(proven.next(), "retire old as d.draining-now");
    // Of a delegate nobody has to go on.
    let delegate = Scene::new()
        .host_network()
        .serving(old())
        .candidate(new())
        .pulled(V2);
    assert_eq!(delegate.next(), "retire old as d.draining-now");
}

#[test]
fn a_helper_that_fails_counts_against_the_image() {
    let base = exchange();
    let words = |cause: &str| {
        format!(
            "reject new as d.failed-1: the helper, an upgrader with this image that was to replace the old one, failed: {cause}"
        )
    };
    let late = base.clone().helper(helper().unhealthy(DEADLINE, DEADLINE));
    assert!(
        late.next().starts_with(&words("not healthy for")),
        "{}",
        late.next()
    );
    let crashes = base.clone().helper(helper().unhealthy(60, 60).restarts(3));
    assert_eq!(
        crashes.next(),
        words("it keeps crashing: restarted 3 times, exited with code 3")
    );
    let cannot_start = base.clone().helper(helper().change(|m| {
        m.history.failed_starts = 3;
        m.ending = "no such file".to_owned();
    }));
    assert_eq!(
        cannot_start.next(),
        words("it could not be started: no such file")
    );
    let by_itself = helper().running(90, 80).exited(20).stopped_by(StoppedBy::Nobody);
    let ended = base.clone().ready_helper(by_itself.clone());
    assert_eq!(
        ended.next(),
        words("exited with code 3 before it had proven itself")
    );
    // What a person does says nothing about the image.
    let stopped = base
        .clone()
        .ready_helper(by_itself.stopped_by(StoppedBy::Somebody));
    assert_eq!(stopped.next(), "withdraw new as d.withdrawn-now: asked_to_stop");
    // It belongs to an attempt that is over.
    let other = base.helper(helper().image(V3).running(90, 80));
    assert_eq!(other.next(), "set the restart policy of d.helper (helper) to no");
}

#[test]
fn nobody_stops_without_a_helper_that_would_go_on() {
    let retired = Scene::new()
        .upgrader()
        .draining(5, old())
        .candidate(new())
        .pulled(V2);
    let with_helper = retired.clone().ready_helper(helper().running(90, 80));
    assert_eq!(
        with_helper.next(),
        "set the restart policy of d.draining-5 (old) to no"
    );
    assert_eq!(retired.next(), "remove d.candidate (new)");
    let crashed = helper().running(90, 80).state(RunState::Restarting);
    assert_eq!(retired.ready_helper(crashed).next(), "remove d.candidate (new)");
}

#[test]
fn the_helper_stays_until_nothing_could_have_to_be_undone() {
    let up = || helper().running(90, 80);
    let stop = "set the restart policy of d.helper-ready (helper) to no";
    let serving = Scene::new().upgrader().serving(old()).ready_helper(up());
    assert_eq!(serving.next(), stop);
    let ended = Scene::new()
        .upgrader()
        .serving(old())
        .ready_helper(up().exited(5));
    assert_eq!(ended.next(), "remove d.helper-ready (helper)");
    // Somebody removed all others.
    assert_eq!(Scene::new().upgrader().ready_helper(up()).next(), stop);
    let new_one = || new().running(30, 20).policy("unless-stopped");
    let old_one = || old().exited(40).policy("no");
    let promoted = Scene::new()
        .upgrader()
        .serving(new_one())
        .draining(50, old_one())
        .ready_helper(up());
    assert_eq!(promoted.next(), "remove d.draining-50 (old)");
}

/// Docker has not removed it yet. Only the helper can create it once more.
#[test]
fn the_helper_stays_where_what_was_started_with_rm_has_ended() {
    let gone = || new().auto_remove().state(RunState::Removing);
    let scene = Scene::new()
        .upgrader()
        .serving(gone())
        .standby(standby())
        .ready_helper(helper().running(90, 80));
    assert!(scene.next().starts_with("wait"), "{}", scene.next());
}

#[test]
fn a_host_without_memory_for_a_second_one_has_none_for_a_helper() {
    let little = |rollout: &mut delegate_upgrader::rollout::Rollout| {
        rollout.single_instance = Some(SingleInstance::TooLittleMemory {
            needed: 16 << 20,
            available: 4 << 20,
        });
    };
    let scene = || Scene::new().upgrader().serving(old()).pulled(V2);
    assert_eq!(scene().with(little).next(), "rest: cannot_start_first");
    // Its owner knows better.
    let by_label = scene()
        .with(little)
        .with(|rollout| rollout.strategy = Some(Strategy::StopFirst));
    assert_eq!(by_label.next(), format!("create from old: {V2}, release 1"));
}
