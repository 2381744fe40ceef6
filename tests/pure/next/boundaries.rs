//! Where one row ends and the next one begins: the last moment of a time, and the scenes that differ in one thing only.

use chrono::TimeDelta;
use delegate_upgrader::container::RunState;
use delegate_upgrader::rollout::reason::Reason;
use delegate_upgrader::rollout::{Decision, Reach};

use super::scene::{Change, DEADLINE, STOP_TIMEOUT, Scene, V1, V2, ago, new, old, standby};

fn scene() -> Scene {
    Scene::new()
}

#[test]
fn a_refusal_counts_only_while_the_candidate_was_never_started() {
    let refused = |member: &mut delegate_upgrader::rollout::Member| {
        member.history.start_refused = Some("no such file".to_owned());
    };
    let with = |candidate| scene().serving(old()).candidate(candidate).pulled(V2);
    assert!(with(new().change(refused)).next().starts_with("reject new"));
    assert_eq!(
        with(new().running(90, 90).change(refused)).next(),
        "retire old as d.draining-now"
    );
}

#[test]
fn an_old_one_is_dated_again_once_its_rename_is_more_than_ten_seconds_ago() {
    let after = |seconds| {
        scene()
            .serving(new().running(90, 90))
            .draining(seconds, old())
            .next()
    };
    assert_eq!(after(10), "set the restart policy of d.draining-10 (old) to no");
    assert_eq!(after(11), "retire old as d.draining-now");
}

#[test]
fn a_candidate_that_began_in_the_second_of_the_rename_was_not_proven_before() {
    let begun = |seconds| {
        let candidate = new().running(seconds, 5);
        let old = old()
            .policy("no")
            .change(|m| m.history.stop_requested_at = Some(ago(90)));
        scene().candidate(candidate).draining(90, old).next()
    };
    assert_eq!(begun(91), "promote the candidate (new) to d");
    assert!(begun(90).starts_with("wait"), "{}", begun(90));
}

#[test]
fn a_failure_of_another_kind_does_not_keep_the_evidence_of_an_earlier_release() {
    let failed = || {
        new()
            .id("failed")
            .image(V1)
            .policy("no")
            .exited(80)
            .change(|m| m.created_at = ago(2000))
    };
    let with = |serving| {
        scene()
            .serving(serving)
            .failed(1, failed())
            .settle(Reason::DigestUnknown {
                image: V2.to_owned(),
                problem: "timed out".to_owned(),
            })
            .next()
    };
    assert_eq!(with(new().running(90, 90)), "remove d.failed-1 (failed)");
    assert_eq!(
        with(new().running(90, 90).state(RunState::Paused)),
        "rest: digest_unknown"
    );
}

#[test]
fn the_one_that_a_rejected_candidate_was_to_replace_comes_back_and_not_the_latest() {
    let stopped = || {
        old()
            .policy("no")
            .exited(30)
            .change(|m| m.history.original_policy = Some("unless-stopped".to_owned()))
    };
    let base = || {
        scene()
            .draining(90, stopped())
            .draining(40, stopped().id("orphan"))
            .failed(1, new().policy("no").exited(20))
    };
    assert_eq!(
        base().next(),
        "set the restart policy of d.draining-90 (old) to unless-stopped"
    );
    let mut without = base();
    without.rollout.failed.clear();
    assert_eq!(
        without.next(),
        "set the restart policy of d.draining-40 (orphan) to unless-stopped"
    );
}

#[test]
fn the_standby_of_another_one_is_no_copy() {
    let rm = || old().auto_remove();
    let with = |standby| scene().serving(rm()).standby(standby).pulled(V2).next();
    assert_eq!(with(standby()), format!("create from old: {V2}, release 1"));
    assert_eq!(with(standby().replaces("another")), "remove d.standby (standby)");
}

#[test]
fn half_a_second_beyond_its_time_one_is_stopped_at_once() {
    let asked = |milliseconds| {
        let old = old().asked_to_stop(STOP_TIMEOUT).change(|m| {
            m.history.stop_requested_at = Some(ago(STOP_TIMEOUT) - TimeDelta::milliseconds(milliseconds));
        });
        scene().serving(new().running(90, 90)).draining(4000, old).next()
    };
    assert!(asked(500).starts_with("wait"), "{}", asked(500));
    assert_eq!(asked(501), "tell d.draining-4000 (old) to stop within 0s");
}

#[test]
fn evidence_as_old_as_the_delegate_is_kept() {
    let with = |seconds| {
        let failed = new()
            .id("failed")
            .image(V1)
            .policy("no")
            .exited(80)
            .change(|m| m.created_at = ago(seconds));
        scene().serving(new().running(90, 90)).failed(1, failed).next()
    };
    assert_eq!(with(1001), "remove d.failed-1 (failed)");
    assert!(with(1000).starts_with("rest"), "{}", with(1000));
}

#[test]
fn a_watcher_says_which_image_is_published() {
    let watcher = |mut scene: Scene| {
        scene.policy.health_only = true;
        scene.reason().to_string()
    };
    let only = "health checks only (DISABLE_AUTO_UPGRADE=true)";
    assert_eq!(
        watcher(scene().serving(old()).pulled(V2)),
        format!("{V2} is published; {only}")
    );
    let up_to_date = Reason::UpToDate { image: V1.to_owned() };
    assert_eq!(watcher(scene().serving(old()).settle(up_to_date)), only);
    let unknown = Reason::DigestUnknown {
        image: V2.to_owned(),
        problem: "timed out".to_owned(),
    };
    assert_eq!(
        watcher(scene().serving(old()).settle(unknown)),
        format!("{only}; cannot resolve the tag {V2} at the registry: timed out")
    );
    let not_pinned = Reason::NotPinned { image: V2.to_owned() };
    assert_eq!(
        watcher(scene().serving(old()).settle(not_pinned)),
        format!("{V2} is published; {only}")
    );
}

#[test]
fn a_name_that_is_taken_gets_the_next_second() {
    let taken = || old().id("orphan").asked_to_stop(5);
    let with = scene()
        .serving(old())
        .candidate(new().running(90, 90))
        .draining(0, taken())
        .pulled(V2);
    // One second from now, in the words of the scene.
    assert_eq!(with.next(), "retire old as d.draining--1");
}

#[test]
fn the_answer_of_the_manager_is_awaited_in_the_future() {
    let candidate = new().unhealthy(DEADLINE, DEADLINE);
    let asking = scene()
        .serving(old())
        .candidate(candidate)
        .pulled(V2)
        .knowing(|facts| facts.manager = Some(Reach::Asking));
    let Decision::Wait { until, .. } = asking.decision() else {
        panic!("{}", asking.next());
    };
    assert_eq!(until, ago(0) + TimeDelta::milliseconds(500));
}

#[test]
fn a_standby_of_its_own_that_has_lived_is_made_anew() {
    let rm = || old().auto_remove();
    let with = |serving, standby| scene().serving(serving).standby(standby).pulled(V2).next();
    assert_eq!(with(rm(), standby().exited(5)), "remove d.standby (standby)");
}

#[test]
fn one_that_vanishes_by_stopping_comes_back_from_its_standby() {
    let ended = || old().exited(30);
    let with = |old| scene().draining(90, old).standby(standby()).next();
    let from_standby = with(ended().auto_remove());
    assert!(from_standby.contains("standby"), "{from_standby}");
    // An owner's own copy does not stand in for a delegate that is still there.
    let itself = with(ended());
    assert!(itself.contains("d.draining-90"), "{itself}");
}

#[test]
fn a_lost_successor_gives_way_to_one_that_has_its_own_standby() {
    let lost = || new().exited(60);
    let with = |standby| {
        scene()
            .serving(lost())
            .draining(90, old().auto_remove())
            .standby(standby)
            .next()
    };
    assert!(with(standby()).starts_with("reject new"), "{}", with(standby()));
    let other = with(standby().replaces("another"));
    assert!(!other.starts_with("reject"), "{other}");
}

#[test]
fn a_stop_first_replacement_waits_for_an_idle_moment_as_long_as_it_may() {
    let with = |old, created: i64| {
        let candidate = new().change(|m| m.created_at = ago(created));
        scene()
            .serving(old)
            .candidate(candidate)
            .pulled(V2)
            .host_network()
    };
    let retires = "retire old as d.draining-now";
    assert_eq!(with(old().tasks(2), 3599).next(), "wait 1 s: waiting_for_idle");
    assert_eq!(with(old().tasks(2), 3600).next(), retires);
    assert_eq!(with(old().tasks(0), 10).next(), retires);
    assert_eq!(
        with(old(), 10).next(),
        retires,
        "it does not say what it works on"
    );
    let mut at_once = with(old().tasks(2), 0);
    at_once.policy.idle_wait = std::time::Duration::ZERO;
    assert_eq!(at_once.next(), retires, "IDLE_WAIT=0");
    // Start-first there is no gap to keep short.
    let start_first = scene().serving(old().tasks(2)).candidate(new()).pulled(V2);
    assert_eq!(start_first.next(), "start d.candidate (new)");
    // Nobody waits for the tasks of one that its owner paused or stopped.
    let goes = "remove d.candidate (new)";
    let paused = with(old().tasks(2).change(|m| m.state = RunState::Paused), 10);
    assert_eq!(paused.next(), goes);
    // What is not wanted any more goes at once.
    let unwanted = with(old().tasks(2), 10).pulled("harness/delegate:26.03.1");
    assert_eq!(unwanted.next(), goes);
}

/// Somebody started the old one again under a name of theirs, so its successor was given up under the first name.
#[test]
fn what_ends_under_an_earlier_name_of_the_delegate_is_waited_for() {
    let base = |elsewhere| {
        let scene = Scene::new().serving(old()).pulled(V2);
        scene.with(|rollout| rollout.ending_elsewhere = elsewhere)
    };
    let waits = "wait 5 s: awaiting_drains";
    assert_eq!(base(1).host_network().next(), waits);
    assert_ne!(base(0).host_network().next(), waits);
    // Beside it, there is room for one more.
    assert_ne!(base(1).next(), waits);
    assert_eq!(base(2).next(), waits);
}
