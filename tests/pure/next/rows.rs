//! Row by row.

use delegate_upgrader::config::Strategy;
use delegate_upgrader::container::RunState;
use delegate_upgrader::document::{DependencyKind, Obstacle};
use delegate_upgrader::rollout::Vanished;
use delegate_upgrader::rollout::reason::Reason;

use super::scene::{
    Change, DEADLINE, HEALTHY_TIME, STOP_TIMEOUT, Scene, V1, V2, V3, ago, image_id, new, old,
};

fn scene() -> Scene {
    Scene::new()
}

fn gone(image: &str) -> Vanished {
    Vanished {
        image: image_id(image),
        cause: None,
        is_excused: false,
    }
}

fn up_to_date() -> Reason {
    Reason::UpToDate { image: V1.to_owned() }
}

#[test]
fn the_published_image_is_pulled_and_then_becomes_a_candidate() {
    let base = scene().serving(old());
    assert_eq!(base.clone().next(), "rest: awaiting_schedule");
    assert_eq!(base.clone().settle(up_to_date()).next(), "rest: up_to_date");
    assert_eq!(base.clone().published(V2).next(), format!("pull {V2}"));
    assert_eq!(
        base.pulled(V2).next(),
        format!("create from old: {V2}, release 1")
    );
}

#[test]
fn a_delegate_that_runs_the_pulled_image_is_left_alone() {
    let base = scene().serving(old()).pulled(V1);
    assert_eq!(base.next(), "rest: up_to_date");
    let retagged = base.with(|r| r.serving.as_mut().unwrap().image = V2.into());
    assert_eq!(retagged.next(), "rest: same_image");
}

#[test]
fn the_release_counts_on() {
    let second = scene()
        .serving(new().running(500, 500).change(|m| m.release = 4))
        .pulled(V3);
    assert_eq!(second.next(), format!("create from new: {V3}, release 5"));
}

#[test]
fn a_delegate_that_is_not_running_is_left_alone() {
    for state in [
        RunState::Exited,
        RunState::Paused,
        RunState::Created,
        RunState::Dead,
        RunState::Removing,
        RunState::Other("odd".to_owned()),
    ] {
        let base = scene().serving(old().state(state.clone())).pulled(V2);
        assert_eq!(base.next(), "rest: not_running", "{state:?}");
        let begun = base.candidate(new());
        assert_eq!(begun.next(), "remove d.candidate (new)", "{state:?}");
    }
    let restarting = scene().serving(old().state(RunState::Restarting)).pulled(V2);
    assert_eq!(restarting.next(), format!("create from old: {V2}, release 1"));
}

#[test]
fn a_candidate_is_started_beside_the_old_one_unless_two_cannot_live_at_once() {
    let base = scene().serving(old()).candidate(new()).pulled(V2);
    assert_eq!(base.clone().next(), "start d.candidate (new)");
    assert_eq!(base.clone().host_network().next(), "retire old as d.draining-now");
    assert_eq!(
        base.clone().strategy(Strategy::StopFirst).next(),
        "retire old as d.draining-now"
    );
    assert_eq!(
        base.host_network().strategy(Strategy::StartFirst).next(),
        "remove d.candidate (new)"
    );
}

#[test]
fn an_owner_s_strategy_comes_before_the_operator_s() {
    let base = scene().serving(old()).candidate(new()).pulled(V2);
    let base = base.strategy(Strategy::StopFirst);
    assert_eq!(
        base.with(|r| r.strategy = Some(Strategy::StartFirst)).next(),
        "start d.candidate (new)"
    );
}

#[test]
fn nothing_is_pulled_or_made_where_neither_way_is_open() {
    for base in [
        scene().serving(old()).published(V2),
        scene().serving(old()).pulled(V2),
    ] {
        let base = base.host_network();
        assert_eq!(
            base.clone().strategy(Strategy::StartFirst).next(),
            "rest: cannot_start_first"
        );
    }
}

#[test]
fn a_candidate_proves_itself_by_unbroken_health() {
    let base = scene().serving(old()).pulled(V2);
    let with = |candidate| base.clone().candidate(candidate).next();
    assert_eq!(
        with(new().running(90, HEALTHY_TIME)),
        "retire old as d.draining-now"
    );
    assert_eq!(with(new().running(90, HEALTHY_TIME - 1)), "wait 1 s: proving");
    assert_eq!(with(new().running(90, 0)), "wait 5 s: proving");
    assert_eq!(with(new().unhealthy(90, 90)), "wait 5 s: proving");
    assert_eq!(with(new().unhealthy(DEADLINE - 1, 90)), "wait 1 s: proving");
    assert_eq!(
        with(new().unhealthy(DEADLINE, 90)),
        "reject new as d.failed-1: not healthy for 1m without a break within 10m: /api/health says unhealthy"
    );
    assert_eq!(
        with(new().running(DEADLINE, HEALTHY_TIME)),
        "retire old as d.draining-now",
        "proven at the last moment"
    );
    // What this process has not watched is no proof, however long it runs.
    let unseen = new()
        .running(86_400, 0)
        .change(|m| m.history.seen_since = Some(ago(0)));
    assert_eq!(with(unseen), "wait 5 s: proving");
}

#[test]
fn a_candidate_that_crashes_is_rejected() {
    let base = scene().serving(old()).pulled(V2);
    let with = |candidate| base.clone().candidate(candidate).next();
    for state in [RunState::Exited, RunState::Dead] {
        assert_eq!(
            with(new().state(state)),
            "reject new as d.failed-1: exited with code 3 before it had proven itself"
        );
    }
    // An engine that restarts, or a person's `docker restart`, is between a stop and a start.
    assert_eq!(with(new().exited(2)), "wait 5 s: proving");
    assert_eq!(
        with(new().exited(2).policy("no")),
        "reject new as d.failed-1: exited with code 3 before it had proven itself"
    );
    assert_eq!(with(new().unhealthy(30, 30).restarts(2)), "wait 5 s: proving");
    assert_eq!(
        with(new().running(90, HEALTHY_TIME).restarts(3)),
        "reject new as d.failed-1: it keeps crashing: restarted 3 times, exited with code 3"
    );
    // Between two lives it is stopped before it is renamed.
    let restarting = new().state(RunState::Restarting).restarts(3);
    assert_eq!(
        with(restarting.clone()),
        "set the restart policy of d.candidate (new) to no"
    );
    assert_eq!(
        with(restarting.policy("no")),
        "tell d.candidate (new) to stop within 1h"
    );
}

#[test]
fn a_candidate_that_cannot_be_started_is_rejected_in_the_engine_s_words() {
    let refused = || new().change(|m| m.history.start_refused = Some("no such file".to_owned()));
    let reject = "reject new as d.failed-1: it could not be started: no such file";
    assert_eq!(scene().serving(old()).candidate(refused()).next(), reject);
    let unstartable = new().change(|m| m.history.start_refused = Some("no such file".to_owned()));
    assert_eq!(scene().serving(old()).candidate(unstartable).next(), reject);
    assert_eq!(
        scene().draining(20, old().exited(10)).candidate(refused()).next(),
        reject
    );
}

#[test]
fn a_proven_candidate_takes_the_name_that_the_old_one_gave_up() {
    let base = scene().draining(5, old());
    assert_eq!(
        base.clone().candidate(new().running(90, HEALTHY_TIME)).next(),
        "promote the candidate (new) to d"
    );
    // It was proven then, whatever this process has seen.
    assert_eq!(
        base.clone().candidate(new().running(90, 0)).next(),
        "promote the candidate (new) to d"
    );
    assert_eq!(
        base.candidate(new().exited(20)).next(),
        "reject new as d.failed-1: exited with code 3 before it had proven itself"
    );
    // Stop-first: it has to prove itself now.
    let stopped = scene().draining(90, old().policy("no").exited(30));
    assert_eq!(
        stopped.clone().candidate(new().running(20, 20)).next(),
        "wait 5 s: proving"
    );
    assert_eq!(
        stopped.candidate(new().running(90, HEALTHY_TIME)).next(),
        "promote the candidate (new) to d"
    );
}

#[test]
fn an_old_one_loses_its_policy_before_the_stop_and_gets_its_whole_time() {
    let base = scene().serving(new().running(90, 90));
    let with = |seconds, old| base.clone().draining(seconds, old).next();
    assert_eq!(
        with(1, old()),
        "set the restart policy of d.draining-1 (old) to no"
    );
    assert_eq!(
        with(1, old().policy("no")),
        "tell d.draining-1 (old) to stop within 1h"
    );
    // Whether a process that is gone asked it to stop is unknown.
    assert_eq!(
        with(3000, old().policy("no")),
        "tell d.draining-3000 (old) to stop within 1h"
    );
    // A policy that is on says that it was not, and it is dated again.
    assert_eq!(with(3000, old()), "retire old as d.draining-now");
    assert_eq!(with(90, old().asked_to_stop(90)), "wait 9 s: draining");
    assert_eq!(with(3599, old().asked_to_stop(3599)), "wait 1 s: draining");
    assert_eq!(with(2, old().asked_to_stop(2)), "wait 0 s: draining");
}

#[test]
fn an_old_one_that_outlives_its_deadline_is_asked_again_to_stop_at_once() {
    let base = scene().serving(new().running(90, 90));
    let with = |seconds: i64| base.clone().draining(7000, old().asked_to_stop(seconds)).next();
    assert!(with(STOP_TIMEOUT).starts_with("wait"), "{}", with(STOP_TIMEOUT));
    assert_eq!(
        with(STOP_TIMEOUT + 2),
        "tell d.draining-7000 (old) to stop within 0s"
    );
    assert!(
        with(3000).starts_with("wait"),
        "its time runs since it was asked to stop"
    );
}

#[test]
fn an_old_one_is_asked_to_stop_only_while_its_successor_works() {
    for successor in [
        new().unhealthy(500, 30),
        new().running(90, 90).state(RunState::Paused),
        new().running(90, 90).state(RunState::Restarting),
    ] {
        let base = scene().serving(successor);
        for old in [old(), old().policy("no"), old().policy("no").exited(5)] {
            assert_eq!(
                base.clone().draining(5, old).next(),
                "wait 5 s: successor_unhealthy"
            );
        }
        assert_eq!(
            base.draining(90, old().asked_to_stop(90)).next(),
            "wait 9 s: draining"
        );
    }
}

#[test]
fn an_old_one_that_has_exited_is_removed_with_the_image_before_its_own() {
    let base = scene().serving(new().running(90, 90));
    let gone = old().policy("no").exited(5);
    assert_eq!(
        base.clone().draining(90, gone.clone()).next(),
        "remove d.draining-90 (old)"
    );
    let second = gone.clone().change(|m| m.previous_image_id = Some(image_id(V3)));
    // The one that the owner brought is the owner's.
    let first = second.clone().change(|m| m.release = 1);
    assert_eq!(
        base.clone().draining(90, first).next(),
        "remove d.draining-90 (old)"
    );
    let second = second.change(|m| m.release = 2);
    assert_eq!(
        base.clone().draining(90, second).next(),
        format!("remove the image {}, two releases old", image_id(V3))
    );
    // Not where somebody went back to it.
    for still_used in [V1, V2] {
        let back = gone.clone().change(|m| {
            m.previous_image_id = Some(image_id(still_used));
            m.release = 2;
        });
        assert_eq!(
            base.clone().draining(90, back).next(),
            "remove d.draining-90 (old)"
        );
    }
    let removing = old().auto_remove().state(RunState::Removing);
    assert_eq!(base.draining(90, removing).next(), "wait 1 s: stopping");
}

#[test]
fn orphans_drain_behind_the_serving_container() {
    let stranger = || old().id("orphan");
    let base = scene().serving(new().running(90, 90));
    assert_eq!(
        base.clone().draining(2, stranger()).next(),
        "set the restart policy of d.draining-2 (orphan) to no"
    );
    assert_eq!(
        base.clone()
            .draining(90, stranger().policy("no").exited(1))
            .next(),
        "remove d.draining-90 (orphan)"
    );
    // Nothing waits for them.
    let both = base.draining(90, stranger().asked_to_stop(90)).pulled(V3);
    assert_eq!(both.next(), format!("create from new: {V3}, release 2"));
    assert_eq!(both.settle(up_to_date()).next(), "wait 9 s: draining");
}

#[test]
fn a_successor_that_fails_after_the_commit_returns_the_name_while_the_old_one_is_there() {
    for old in [
        old(),
        old().policy("no"),
        old().asked_to_stop(30),
        old().policy("no").exited(10),
    ] {
        let base = scene().draining(40, old);
        let ended = base.clone().serving(new().running(700, 0).exited(20));
        assert!(
            ended.next().starts_with("reject new as d.failed-1"),
            "{}",
            ended.next()
        );
        let a_moment = base.serving(new().unhealthy(700, DEADLINE - 1));
        assert!(a_moment.next().starts_with("wait"), "{}", a_moment.next());
    }
    // An unhealthy one stays as long as the old one finishes its tasks: until then there is nobody else.
    let unhealthy = |old| {
        scene()
            .draining(40, old)
            .serving(new().unhealthy(700, DEADLINE))
            .next()
    };
    for able in [old(), old().policy("no").exited(10)] {
        assert!(
            unhealthy(able.clone()).starts_with("reject new as d.failed-1"),
            "{}",
            unhealthy(able)
        );
    }
    for finishing in [old().policy("no"), old().policy("no").asked_to_stop(30)] {
        assert!(
            unhealthy(finishing.clone()).starts_with("wait"),
            "{}",
            unhealthy(finishing)
        );
    }
    // This process took its policy, and has not asked it to stop: it does not finish its tasks.
    let taken = old()
        .policy("no")
        .change(|m| m.history.original_policy = Some("unless-stopped".to_owned()));
    assert!(unhealthy(taken.clone()).starts_with("reject new as d.failed-1"));
    // Another process would have asked it by now.
    let since = |seconds| {
        let scene = scene().draining(seconds, old().policy("no"));
        scene.serving(new().unhealthy(7000, DEADLINE)).next()
    };
    assert!(since(STOP_TIMEOUT).starts_with("wait"));
    assert!(since(STOP_TIMEOUT + 1).starts_with("reject new as d.failed-1"));
    // Nobody to give it back to: it is all there is.
    for gone in [old().auto_remove(), old().auto_remove().state(RunState::Removing)] {
        let base = scene().serving(new().unhealthy(700, DEADLINE)).draining(40, gone);
        assert!(base.next().starts_with("wait"), "{}", base.next());
    }
    let orphan = scene()
        .serving(new().unhealthy(700, DEADLINE))
        .draining(40, old().id("orphan"));
    assert_eq!(
        orphan.next(),
        "rest: successor_unhealthy",
        "a stranger is not waited for"
    );
    assert_eq!(
        scene().serving(new().unhealthy(700, DEADLINE)).next(),
        "rest: awaiting_schedule"
    );
}

#[test]
fn rejected_ones_are_numbered_by_the_attempts_of_their_image() {
    let base = || scene().serving(old()).candidate(new().exited(20)).pulled(V2);
    let rejected = |id: &str, image: &str| new().id(id).image(image).policy("no").exited(86_400);
    let starts = |scene: Scene, with: &str| {
        let step = scene.next();
        assert!(step.starts_with(with), "{step}");
    };
    starts(base(), "reject new as d.failed-1");
    starts(base().failed(1, rejected("f1", V2)), "reject new as d.failed-2");
    starts(base().failed(3, rejected("f3", V2)), "reject new as d.failed-4");
    // Another image's rejection makes room.
    starts(base().failed(1, rejected("f1", V3)), "remove d.failed-1 (f1)");
    starts(base().failed(2, rejected("f2", V3)), "reject new as d.failed-1");
    // One that still runs keeps its number.
    let up = rejected("f1", V3).running(50, 0).asked_to_stop(5);
    starts(base().failed(1, up), "reject new as d.failed-2");
    let vanishing = rejected("f1", V3).state(RunState::Removing);
    starts(base().failed(1, vanishing), "reject new as d.failed-2");
}

#[test]
fn rejected_ones_are_stopped_gently_and_only_the_last_is_kept() {
    let base = scene().serving(old());
    let up = || new().unhealthy(700, 700);
    assert_eq!(
        base.clone().failed(1, up()).next(),
        "set the restart policy of d.failed-1 (new) to no"
    );
    assert_eq!(
        base.clone().failed(1, up().policy("no")).next(),
        "tell d.failed-1 (new) to stop within 1h"
    );
    assert_eq!(
        base.clone().failed(1, up().asked_to_stop(90)).next(),
        "wait 9 s: stopping"
    );
    assert_eq!(
        base.clone()
            .failed(1, up().asked_to_stop(STOP_TIMEOUT + 2))
            .next(),
        "tell d.failed-1 (new) to stop within 0s"
    );
    let down = |id| new().id(id).policy("no").exited(90);
    assert_eq!(
        base.clone().failed(1, down("f1")).failed(2, down("f2")).next(),
        "remove d.failed-1 (f1)"
    );
    assert_eq!(
        base.clone().failed(2, down("f2")).next(),
        "rest: awaiting_schedule"
    );
    let vanishing = down("f1").state(RunState::Removing);
    assert_eq!(
        base.failed(1, vanishing).failed(2, down("f2")).next(),
        "rest: awaiting_schedule"
    );
}

#[test]
fn an_image_is_quarantined_for_an_hour_then_two_then_four_up_to_a_day() {
    for (attempt, hours) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 24), (60, 24)] {
        let after = |seconds: i64| {
            scene()
                .serving(old())
                .failed(attempt, new().policy("no").exited(seconds))
                .pulled(V2)
                .next()
        };
        assert_eq!(after(hours * 3600 - 1), "rest: quarantined", "{attempt}");
        assert_eq!(after(hours * 3600), format!("create from old: {V2}, release 1"));
    }
}

#[test]
fn a_quarantine_is_of_one_image_and_ends_no_sooner_than_the_rejected_one() {
    let base = scene().serving(old()).failed(1, new().policy("no").exited(60));
    assert_eq!(
        base.clone().pulled(V3).next(),
        format!("create from old: {V3}, release 1")
    );
    assert_eq!(
        base.published(V2).next(),
        format!("pull {V2}"),
        "the tag may have moved"
    );
    let never_started = scene().serving(old()).failed(1, new());
    assert_eq!(never_started.pulled(V2).next(), "rest: quarantined");
    let still_up = scene().serving(old()).failed(
        1,
        new()
            .unhealthy(700, 700)
            .asked_to_stop(90)
            .change(|m| m.created_at = ago(86_400)),
    );
    assert_eq!(still_up.pulled(V2).reason().kind().as_str(), "quarantined");
}

#[test]
fn a_rejected_one_goes_once_a_later_release_works() {
    let rejected = || {
        new()
            .id("f1")
            .image(V3)
            .policy("no")
            .exited(5000)
            .change(|m| m.created_at = ago(6000))
    };
    assert_eq!(
        scene()
            .serving(new().running(90, 90))
            .failed(1, rejected())
            .next(),
        "remove d.failed-1 (f1)"
    );
    assert_eq!(
        scene()
            .serving(new().unhealthy(90, 9))
            .failed(1, rejected())
            .next(),
        "rest: awaiting_schedule"
    );
    let vanishing = rejected().state(RunState::Removing);
    assert_eq!(
        scene().serving(new().running(90, 90)).failed(1, vanishing).next(),
        "rest: awaiting_schedule"
    );
    // The image that was rejected may be rejected again, and that would be the second time.
    let again = || {
        scene()
            .serving(new().running(90, 90))
            .failed(1, rejected().image(V2))
    };
    assert_eq!(
        again().draining(80, old().policy("no").asked_to_stop(80)).next(),
        "wait 8 s: draining"
    );
    assert_eq!(again().next(), "remove d.failed-1 (f1)");
}

#[test]
fn an_old_one_without_a_successor_comes_back_policy_first_name_last() {
    let base = |old| {
        scene()
            .failed(1, new().policy("no").exited(5))
            .draining(90, old)
            .next()
    };
    let stopped = || old().policy("no").exited(30);
    assert_eq!(
        base(stopped()),
        "set the restart policy of d.draining-90 (old) to unless-stopped"
    );
    assert_eq!(
        base(stopped().policy("unless-stopped")),
        "start d.draining-90 (old)"
    );
    let started = old().running(2, 0);
    assert_eq!(base(started), "restore the old container (old) as d");
    // It was never asked: it need not stop.
    assert_eq!(base(old()), "restore the old container (old) as d");
    // It may have been asked: only a new life is worth anything.
    assert_eq!(
        base(old().policy("no")),
        "tell d.draining-90 (old) to stop within 1h"
    );
    assert_eq!(base(old().asked_to_stop(50)), "wait 5 s: draining");
    // Its policy was off from the first.
    let never_on = scene()
        .failed(
            1,
            new()
                .policy("no")
                .exited(5)
                .change(|m| m.predecessor_policy = Some("no".to_owned())),
        )
        .draining(90, stopped());
    assert_eq!(never_on.next(), "start d.draining-90 (old)");
    // Told in the life that began after it was renamed.
    assert_eq!(base(old().running(60, 0).asked_to_stop(50)), "wait 5 s: draining");
}

#[test]
fn an_old_one_whose_successor_somebody_removed_is_stopped_and_started_once() {
    let base = |old| scene().draining(90, old).next();
    let remembered = |old: delegate_upgrader::rollout::Member| {
        old.change(|m| m.history.original_policy = Some("always".to_owned()))
    };
    assert_eq!(base(old().asked_to_stop(50)), "wait 5 s: draining");
    let stopped = || old().policy("no").exited(30);
    assert_eq!(base(stopped()), "start d.draining-90 (old)");
    assert_eq!(
        base(remembered(stopped())),
        "set the restart policy of d.draining-90 (old) to always"
    );
    // Its name says when it was retired: this is a life after that.
    let first = || old().policy("no").running(2, 0);
    let started = || first().change(|m| m.finished_at = Some(ago(5)));
    // By a clock that was set back, its only life began after it was retired.
    assert_eq!(base(first()), "tell d.draining-90 (old) to stop within 1h");
    assert_eq!(base(started()), "restore the old container (old) as d");
    assert_eq!(
        base(remembered(started())),
        "set the restart policy of d.draining-90 (old) to always"
    );
    // By a clock that is late the life seems older than the name.
    let by_a_late_clock = old()
        .policy("no")
        .running(600, 0)
        .change(|m| m.history.restarted_since_stop = true);
    assert_eq!(base(by_a_late_clock), "restore the old container (old) as d");
    // It ended in that life. By a clock that was set back the life may be the one that was ended here.
    let ended = || old().policy("no").running(60, 0).exited(5);
    assert_eq!(base(ended()), "start d.draining-90 (old)");
    assert_eq!(
        base(ended().change(|m| m.history.restarted_by_us = true)),
        "restore the old container (old) as d"
    );
}

#[test]
fn one_that_keeps_crashing_is_stopped_before_it_gives_up_the_name() {
    let crashing = || old().state(RunState::Restarting);
    let policy_off = "set the restart policy of d (old) to no";
    let stop = "tell d (old) to stop within 1h";
    let proven = |old| scene().pulled(V2).serving(old).candidate(new().running(90, 90));
    let stop_first = |old| scene().pulled(V2).host_network().serving(old).candidate(new());
    for rollout in [proven, stop_first] {
        assert_eq!(rollout(crashing()).next(), policy_off);
        assert_eq!(rollout(crashing().policy("no")).next(), stop);
        // Stopped by an earlier process, too: the policy that is gone says so.
        assert_eq!(
            rollout(crashing().policy("no").exited(1)).next(),
            "retire old as d.draining-now"
        );
    }
    // One that its owner stopped has its policy.
    assert_eq!(
        stop_first(crashing().exited(1)).next(),
        "remove d.candidate (new)"
    );
    // Renamed by a process that is gone.
    assert_eq!(
        scene()
            .serving(new().running(90, 90))
            .draining(60, crashing())
            .next(),
        "set the restart policy of d.draining-60 (old) to no"
    );
}

#[test]
fn the_policy_of_one_that_keeps_crashing_is_not_lost_with_its_candidate() {
    let stopped = || old().policy("no").exited(1);
    let running = || new().running(90, HEALTHY_TIME);
    let retire = "retire old as d.draining-now";
    // Given up by then: for another image, for its crashes, by another process.
    for given_up in [
        scene().serving(stopped()).candidate(running()).pulled(V3),
        scene()
            .serving(stopped())
            .candidate(running().restarts(3))
            .pulled(V2),
        scene()
            .serving(stopped())
            .withdrawn(60, new().policy("no").exited(5)),
    ] {
        assert_eq!(given_up.next(), retire);
    }
    assert_eq!(
        scene()
            .serving(old().policy("no"))
            .withdrawn(60, new().policy("no").exited(5))
            .next(),
        "set the restart policy of d (old) to unless-stopped"
    );
    // Another upgrader's call landed after the delegate was restored; what its owner changes later stays.
    for (since, expected) in [
        (60, "set the restart policy of d (old) to unless-stopped"),
        (899, "set the restart policy of d (old) to unless-stopped"),
        (900, "keep"),
        (1001, "keep"),
    ] {
        let restored = old().policy("no").change(|m| m.started_at = Some(ago(since)));
        let decided = scene().serving(restored).failed(1, new()).next();
        assert_eq!(
            decided.starts_with("set"),
            expected.starts_with("set"),
            "{since}: {decided}"
        );
    }
    let ended = old()
        .policy("no")
        .exited(1)
        .change(|m| m.started_at = Some(ago(60)));
    assert_eq!(scene().serving(ended).failed(1, new()).next(), retire);
    // It lives again, but this process knows what it took off.
    let restarted_by_us = old()
        .policy("no")
        .change(|m| m.history.original_policy = Some("unless-stopped".to_owned()));
    assert_eq!(
        scene()
            .serving(restarted_by_us)
            .candidate(running().restarts(3))
            .pulled(V2)
            .next(),
        "set the restart policy of d (old) to unless-stopped"
    );
    // A later candidate is about to replace it.
    assert_eq!(
        scene()
            .serving(old().policy("no").state(RunState::Restarting))
            .candidate(running())
            .withdrawn(
                60,
                new().id("withdrawn").policy("no").running(80, 0).asked_to_stop(5)
            )
            .next(),
        "tell d (old) to stop within 1h"
    );
}

#[test]
fn an_auto_remove_delegate_whose_standby_was_removed_gets_another_while_it_is_there() {
    let copy = "make a standby copy of the old container (old)";
    let tell = "tell d.draining-90 (old) to stop within 1h";
    // Nobody can know whether it was asked to stop.
    assert_eq!(scene().draining(90, old().auto_remove()).next(), copy);
    assert_eq!(
        scene().draining(90, old().auto_remove().asked_to_stop(5)).next(),
        copy
    );
    // Before it is asked.
    assert_eq!(
        scene().draining(90, old().auto_remove()).candidate(new()).next(),
        copy
    );
    // Who is in service by then may need a copy itself.
    assert_eq!(
        scene()
            .draining(90, old().auto_remove())
            .serving(new().running(99, 99))
            .next(),
        tell
    );
    // A life that began after it was retired is not to be ended.
    assert_eq!(
        scene()
            .draining(
                90,
                old()
                    .auto_remove()
                    .running(9, 9)
                    .change(|m| m.finished_at = Some(ago(10))),
            )
            .next(),
        "restore the old container (old) as d"
    );
    assert_eq!(
        scene()
            .draining(90, old().auto_remove().state(RunState::Removing))
            .next(),
        "wait 1 s: stopping"
    );
}

/// By a clock that was set back it was started before the old one had ended.
#[test]
fn stop_first_waits_for_a_withdrawn_one_at_any_time() {
    let waits = |scene: Scene| {
        let withdrawn = new().running(900, 0).policy("no").asked_to_stop(5);
        let scene = scene
            .withdrawn(90, withdrawn)
            .draining(90, old().policy("no").exited(30));
        scene.reason().kind().as_str()
    };
    assert_eq!(waits(scene().host_network()), "stopping");
}

#[test]
fn an_old_one_waits_for_the_rejected_one_that_it_cannot_live_with() {
    let up = || new().unhealthy(60, 60).asked_to_stop(5);
    let stopped = || old().policy("no").exited(70);
    assert_eq!(
        scene()
            .failed(1, up())
            .draining(90, stopped())
            .reason()
            .kind()
            .as_str(),
        "stopping"
    );
    // They lived together before.
    let together = || old().policy("no").exited(20);
    assert_eq!(
        scene().failed(1, up()).draining(90, together()).next(),
        "set the restart policy of d.draining-90 (old) to unless-stopped"
    );
    assert_eq!(
        scene().failed(1, up()).draining(90, old()).next(),
        "restore the old container (old) as d"
    );
}

#[test]
fn stop_first_goes_in_order() {
    let base = || scene().host_network();
    let rows = vec![
        (
            base().serving(old()).pulled(V2),
            format!("create from old: {V2}, release 1"),
        ),
        (
            base().serving(old()).candidate(new()).pulled(V2),
            "retire old as d.draining-now".to_owned(),
        ),
        (
            base().draining(1, old()).candidate(new()),
            "set the restart policy of d.draining-1 (old) to no".to_owned(),
        ),
        (
            base().draining(1, old().policy("no")).candidate(new()),
            "tell d.draining-1 (old) to stop within 1h".to_owned(),
        ),
        (
            base().draining(9, old().asked_to_stop(9)).candidate(new()),
            "wait 0 s: draining".to_owned(),
        ),
        (
            base().draining(90, old().policy("no").exited(1)).candidate(new()),
            "start d.candidate (new)".to_owned(),
        ),
        (
            base()
                .draining(90, old().policy("no").exited(90))
                .candidate(new().running(60, 60)),
            "promote the candidate (new) to d".to_owned(),
        ),
        (
            base()
                .draining(90, old().policy("no").exited(90))
                .serving(new().running(60, 60)),
            "remove d.draining-90 (old)".to_owned(),
        ),
    ];
    for (scene, step) in rows {
        assert_eq!(scene.next(), step);
    }
}

#[test]
fn a_candidate_that_is_no_longer_wanted_is_withdrawn_without_quarantine() {
    let base = || scene().serving(old());
    let running = || new().running(90, HEALTHY_TIME);
    // Another image is published by now.
    assert_eq!(
        base().candidate(new()).pulled(V3).next(),
        "remove d.candidate (new)"
    );
    // It may have taken tasks, so it drains; its name says so first, lest somebody take it for proven.
    for unwanted in [
        base().candidate(running()).pulled(V3),
        base().candidate(running().policy("no")).published(V3),
    ] {
        assert_eq!(unwanted.next(), "withdraw new as d.withdrawn-now");
    }
    // Between two lives it cannot be renamed.
    assert_eq!(
        base()
            .candidate(running().state(RunState::Restarting))
            .pulled(V3)
            .next(),
        "set the restart policy of d.candidate (new) to no"
    );
    assert_eq!(
        base().candidate(new().exited(1)).pulled(V3).next(),
        "remove d.candidate (new)"
    );
    assert_eq!(
        base()
            .candidate(new().auto_remove().state(RunState::Removing))
            .pulled(V3)
            .next(),
        "wait 1 s: stopping"
    );
    assert_eq!(
        base().candidate(new()).settle(up_to_date()).next(),
        "remove d.candidate (new)"
    );
    // It was made to replace another one.
    assert_eq!(
        base().candidate(new().replaces("gone")).pulled(V2).next(),
        "remove d.candidate (new)"
    );
    // The image it has is asked for, pulled or not; without a word, what was begun goes on.
    for same in [
        base().candidate(running()).published(V2),
        base().candidate(running()).pulled(V2),
        base().candidate(running()),
    ] {
        assert_eq!(same.next(), "retire old as d.draining-now");
    }
}

#[test]
fn the_only_container_left_is_kept_even_if_it_fails() {
    let alone = |candidate| scene().candidate(candidate).next();
    assert_eq!(alone(new()), "start d.candidate (new)");
    assert_eq!(
        alone(new().running(90, HEALTHY_TIME)),
        "promote the candidate (new) to d"
    );
    assert_eq!(alone(new().unhealthy(90, 90)), "wait 5 s: proving");
    assert_eq!(alone(new().unhealthy(DEADLINE, DEADLINE)), "rest: no_fallback");
    assert_eq!(alone(new().exited(4)), "wait 6 s: no_fallback");
    assert_eq!(alone(new().exited(11)), "start d.candidate (new)");
    // Another image can replace it only once it is the delegate.
    let promote = "promote the candidate (new) to d";
    let unhealthy = || scene().candidate(new().unhealthy(90, 90));
    let failed = || scene().candidate(new().unhealthy(DEADLINE, DEADLINE));
    assert_eq!(failed().published(V2).next(), format!("pull {V2}"));
    assert_eq!(failed().pulled(V2).next(), "rest: no_fallback");
    let late = new().running(DEADLINE + 1, 1);
    assert_eq!(alone(late), "wait 5 s: no_fallback");
    assert_eq!(
        alone(new().policy("no").exited(11)),
        "set the restart policy of d.candidate (new) to unless-stopped"
    );
    assert_eq!(unhealthy().pulled(V3).next(), promote);
    assert_eq!(unhealthy().published(V3).next(), promote);
    assert_eq!(unhealthy().pulled(V2).next(), "wait 5 s: proving");
    assert_eq!(unhealthy().settle(up_to_date()).next(), "wait 5 s: proving");
    assert_eq!(
        scene().candidate(new().exited(11)).pulled(V3).next(),
        "start d.candidate (new)"
    );
}

#[test]
fn obstacles_are_reported() {
    let base = || scene().serving(old()).pulled(V2);
    assert_eq!(
        base()
            .with(|r| r.name_conflict = Some("d.candidate".to_owned()))
            .next(),
        "rest: name_taken"
    );
    assert_eq!(
        base().with(|r| r.vanished = vec![gone(V2)]).next(),
        "rest: candidate_vanished"
    );
    assert_eq!(
        base().with(|r| r.vanished = vec![gone(V3)]).next(),
        format!("create from old: {V2}, release 1")
    );
    let tied = |scene: Scene| {
        scene.with(|r| {
            r.obstacle = Some(Obstacle::HasDependent {
                container: "logger".to_owned(),
                kind: DependencyKind::Network,
            });
        })
    };
    assert_eq!(tied(base()).next(), "rest: obstacle");
    assert_eq!(
        tied(scene().serving(old()).published(V2)).next(),
        "rest: obstacle"
    );
    assert_eq!(tied(scene().serving(old()).pulled(V1)).next(), "rest: up_to_date");
    // What was begun goes on.
    assert_eq!(tied(base()).candidate(new()).next(), "start d.candidate (new)");
    assert_eq!(scene().next(), "rest: no_container");
}

/// Neither the candidate nor, after a stop, the old one could be started.
#[test]
fn without_the_container_that_it_needs_nothing_is_stopped_or_started() {
    let lost = |scene: Scene| {
        scene.with(|r| {
            r.obstacle = Some(Obstacle::DependencyMissing {
                container: "vpn".to_owned(),
                kind: DependencyKind::Network,
            });
        })
    };
    let both = |candidate| lost(scene().serving(old()).candidate(candidate).pulled(V2));
    assert_eq!(both(new()).next(), "remove d.candidate (new)");
    assert_eq!(both(new()).host_network().next(), "remove d.candidate (new)");
    let refused = new().change(|m| m.history.start_refused = Some("cannot join".to_owned()));
    assert_eq!(both(refused).next(), "remove d.candidate (new)");
    assert_eq!(
        both(new().running(90, HEALTHY_TIME)).next(),
        "retire old as d.draining-now"
    );
    let replacing = |old| lost(scene().host_network().draining(1, old).candidate(new()));
    assert_eq!(replacing(old()).next(), "rest: obstacle");
    assert_eq!(replacing(old().policy("no")).next(), "rest: obstacle");
    assert_eq!(replacing(old().policy("no").exited(5)).next(), "rest: obstacle");
    assert_eq!(
        replacing(old().exited(5)).next(),
        "set the restart policy of d.draining-1 (old) to no"
    );
    // It cannot be called back, so it has its time.
    let asked = replacing(old().asked_to_stop(0));
    assert_eq!(asked.reason().kind().as_str(), "draining");
}

#[test]
fn opting_out_and_health_only_rest_even_during_a_replacement() {
    let scenes: [fn() -> Scene; 6] = [
        || scene().serving(old()).pulled(V2),
        || scene().serving(old()).candidate(new()).pulled(V2),
        || scene().candidate(new().running(90, 90)).draining(5, old()),
        || scene().draining(5, old().policy("no").exited(1)),
        || scene().serving(new().running(90, 90)).draining(5, old()),
        || scene().serving(old()).failed(1, new().unhealthy(90, 90)),
    ];
    for base in scenes {
        let base = base();
        let mut health_only = base.clone();
        health_only.policy.health_only = true;
        assert_eq!(health_only.next(), "rest: health_only");
        assert_eq!(
            base.clone().with(|r| r.opted_out = Some("a label")).next(),
            "rest: opted_out"
        );
        assert_eq!(
            base.with(|r| r.task_of = Some("a service".to_owned())).next(),
            "rest: task_of_service"
        );
    }
}

#[test]
fn a_wait_ends_when_the_first_thing_is_due() {
    let base = scene()
        .serving(old().id("new2").replaces("old"))
        .draining(3598, old().id("orphan").asked_to_stop(3598))
        .candidate(new().replaces("new2").running(10, 5));
    assert_eq!(base.next(), "wait 2 s: proving");
}
