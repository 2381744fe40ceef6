//! What becomes of `--rm` delegates and their standbys, of candidates that are withdrawn, and of operators' words.

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::container::RunState;
use delegate_upgrader::rollout::{Intent, Member, RolledBackImage, Vanished};

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

/// Its successor, never started.
fn heir() -> Member {
    new().auto_remove()
}

/// A never-started container of the rejected image, made after the candidate.
fn mark() -> Member {
    new().id("mark").policy("no").change(|m| m.created_at = ago(2))
}

fn vanished(image: &str) -> Vanished {
    Vanished {
        image: image_id(image),
        auto_remove: true,
        cause: None,
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
    assert_eq!(ready.candidate(heir()).next(), "start d.candidate (new)");
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
        base.clone().serving(fleeting().ill(90, 90)).next(),
        "remove d.standby (standby)"
    );
    // Replaced: as soon as the successor works and nothing drains any more.
    let successor = || heir().running(90, 90);
    assert_eq!(
        base.clone().serving(successor()).next(),
        "remove d.standby (standby)"
    );
    assert_eq!(
        base.clone().serving(heir().ill(90, 90)).next(),
        "wait 5 s: successor_unhealthy"
    );
    assert_eq!(
        base.clone()
            .serving(successor())
            .draining(30, fleeting().told(20))
            .reason()
            .kind()
            .as_str(),
        "draining"
    );
    // Somebody else's by now.
    assert_eq!(
        base.serving(old().id("another").ill(90, 90)).next(),
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
    assert_eq!(
        base.clone().serving(fleeting()).next(),
        "retire old as d.draining-now"
    );
    assert_eq!(
        base.clone().draining(1, fleeting()).next(),
        "tell d.draining-1 (old) to stop within 1h"
    );
    assert_eq!(
        base.clone()
            .draining(9, fleeting().told(5))
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
    let failed = || heir().ill(DEADLINE, 90);
    assert!(
        base(failed())
            .next()
            .starts_with(&format!("mark {V2} as d.failed-1: not healthy")),
    );
    let marked = base(failed()).failed(1, mark());
    assert_eq!(marked.next(), "withdraw new as d.withdrawn-now");
    // Whatever it looks like now.
    let better = base(heir().running(90, HEALTHY_TIME)).failed(1, mark());
    assert_eq!(better.next(), "withdraw new as d.withdrawn-now");
    // A mark that is older than the candidate is of an earlier one.
    let earlier = mark().change(|m| m.created_at = ago(80_000));
    assert_eq!(
        base(heir().running(90, HEALTHY_TIME)).failed(1, earlier).next(),
        "retire old as d.draining-now"
    );
    // The number counts on, and the name that is needed is freed first.
    let again = base(failed()).failed(1, mark().change(|m| m.created_at = ago(80_000)));
    assert!(again.next().starts_with(&format!("mark {V2} as d.failed-2")));
}

#[test]
fn an_auto_remove_candidate_that_vanished_is_marked_once() {
    let base = scene()
        .serving(fleeting())
        .standby(standby())
        .pulled(V2)
        .with(|r| r.vanished = vec![vanished(V2)]);
    assert!(
        base.clone()
            .next()
            .starts_with(&format!("mark {V2} as d.failed-1"))
    );
    // The standby goes with the attempt.
    assert_eq!(base.failed(1, mark()).next(), "remove d.standby (standby)");
    let settled = scene()
        .serving(fleeting())
        .pulled(V2)
        .with(|r| r.vanished = vec![vanished(V2)])
        .failed(1, mark());
    assert_eq!(settled.next(), "rest: candidate_vanished");
}

#[test]
fn where_nobody_is_left_the_delegate_is_made_again_from_its_standby() {
    let base = scene().standby(standby());
    assert_eq!(
        base.clone().next(),
        "create the old container again, from standby"
    );
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
        base.clone().serving(again().ill(5, 5)).next(),
        "wait 5 s: successor_unhealthy"
    );
    // Ill for good, it is what it was; the standby could only bring back the same once more.
    assert_eq!(
        base.clone().serving(again().ill(DEADLINE, DEADLINE)).next(),
        "remove d.standby (standby)"
    );
    assert_eq!(base.clone().serving(again()).next(), "remove d.standby (standby)");
    // It vanished again: then the copy itself serves.
    let tried = base.with(|r| r.vanished = vec![vanished(V1)]);
    assert_eq!(tried.clone().next(), "start d.standby (standby)");
    assert_eq!(
        tried
            .with(|r| r.standby.as_mut().unwrap().state = RunState::Running)
            .next(),
        "restore the old container (standby) as d"
    );
}

/// An engine that was told to rename it at the moment it ended may never get done with its removal.
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

#[test]
fn a_standby_waits_for_the_one_that_it_cannot_live_with() {
    let withdrawn = || heir().id("withdrawn").running(90, 0).told(5);
    let base = scene().standby(standby()).withdrawn(6, withdrawn());
    assert_eq!(base.clone().host_network().reason().kind().as_str(), "stopping");
    assert_eq!(base.next(), "create the old container again, from standby");
}

#[test]
fn a_successor_that_fails_after_the_commit_is_marked_and_the_standby_comes_back() {
    let base = scene().standby(standby()).serving(heir().ill(DEADLINE, DEADLINE));
    assert!(
        base.clone()
            .next()
            .starts_with(&format!("mark {V2} as d.failed-1"))
    );
    assert_eq!(base.failed(1, mark()).next(), "withdraw new as d.withdrawn-now");
}

#[test]
fn a_verdict_is_none_while_something_from_outside_is_in_the_way() {
    let base = |candidate: Member| scene().serving(old()).candidate(candidate).pulled(V2);
    // Extended once,
    assert_eq!(
        base(new().ill(DEADLINE, DEADLINE).common_cause(30))
            .reason()
            .kind()
            .as_str(),
        "proving"
    );
    // then withdrawn without quarantine,
    let still = new().ill(2 * DEADLINE, DEADLINE).common_cause(30);
    assert_eq!(
        base(still).next(),
        "withdraw new as d.withdrawn-now: inconclusive"
    );
    // unless the second time was undisturbed.
    let in_peace = new().ill(2 * DEADLINE, DEADLINE).common_cause(2 * DEADLINE - 1);
    assert!(base(in_peace).next().starts_with("reject new as d.failed-1"));
    // What happened before it was first seen says nothing.
    let before = new().ill(DEADLINE, DEADLINE).common_cause(DEADLINE + 1);
    assert!(base(before).next().starts_with("reject new as d.failed-1"));
    // One that ended cannot be waited for.
    assert_eq!(
        base(new().running(90, 0).exited(30).common_cause(60)).next(),
        "withdraw new as d.withdrawn-now: inconclusive"
    );
    assert!(
        base(new().running(90, 0).exited(30).common_cause(DEADLINE + 1))
            .next()
            .starts_with("reject new as d.failed-1")
    );
    // One that is between two lives is stopped before it is renamed.
    assert_eq!(
        base(
            new()
                .ill(2 * DEADLINE, 9)
                .state(RunState::Restarting)
                .common_cause(30)
        )
        .next(),
        "set the restart policy of d.candidate (new) to no"
    );
}

#[test]
fn a_start_that_an_engine_s_own_crash_prevents_is_no_verdict() {
    let refused = || new().change(|m| m.history.start_refused = Some("task already exists".to_owned()));
    let base = |candidate| scene().serving(old()).candidate(candidate).pulled(V2).next();
    assert!(base(refused()).starts_with("reject new as d.failed-1"));
    assert_eq!(
        base(refused().common_cause(1)),
        "withdraw new as d.withdrawn-now: inconclusive"
    );
}

#[test]
fn restarts_during_a_disturbance_are_excused() {
    let crashing = |excused| {
        scene().serving(old()).pulled(V2).candidate(
            new()
                .running(90, 0)
                .restarts(5)
                .change(|m| m.history.excused_restarts = excused),
        )
    };
    assert!(crashing(2).next().starts_with("reject"));
    assert_eq!(crashing(3).reason().kind().as_str(), "proving");
}

#[test]
fn a_successor_is_not_rejected_for_an_illness_that_comes_from_outside() {
    let lost = |successor: Member| {
        scene()
            .serving(successor)
            .draining(900, old().policy("no").exited(60))
            .next()
    };
    let ill = || new().ill(1000, DEADLINE);
    assert!(lost(ill()).starts_with("reject new"));
    assert_eq!(lost(ill().common_cause(30)), "wait 5 s: successor_unhealthy");
    // One that has ended cannot be waited for.
    let ended = || new().running(1000, 900).exited(30);
    assert!(lost(ended()).starts_with("reject new"));
    assert_eq!(
        lost(ended().common_cause(60)),
        "withdraw new as d.withdrawn-now: inconclusive"
    );
}

#[test]
fn a_withdrawn_candidate_is_stopped_gently_and_removed() {
    let base = |withdrawn: Member| scene().serving(old()).withdrawn(60, withdrawn).next();
    let withdrawn = || new().id("withdrawn");
    assert_eq!(
        base(withdrawn().running(90, 90)),
        "set the restart policy of d.withdrawn-60 (withdrawn) to no"
    );
    assert_eq!(
        base(withdrawn().running(90, 90).policy("no")),
        "tell d.withdrawn-60 (withdrawn) to stop within 1h"
    );
    assert_eq!(
        base(withdrawn().policy("no").exited(5)),
        "remove d.withdrawn-60 (withdrawn)"
    );
}

#[test]
fn a_withdrawn_candidate_is_kept_while_it_remembers_the_old_one_s_policy() {
    let base = |old: Member| {
        scene()
            .draining(90, old)
            .withdrawn(60, new().id("withdrawn").policy("no").exited(5))
    };
    assert_eq!(
        base(old().policy("no").exited(70)).next(),
        "set the restart policy of d.draining-90 (old) to unless-stopped"
    );
    assert_eq!(base(old().exited(70)).next(), "start d.draining-90 (old)");
}

#[test]
fn a_crashing_one_that_lost_its_policy_gets_it_back_before_the_candidate_that_remembers_it_goes() {
    let unwanted = |old: Member| {
        scene()
            .serving(old)
            .candidate(new())
            .pulled(V3)
            .host_network()
            .next()
    };
    assert_eq!(
        unwanted(old().policy("no")),
        "set the restart policy of d (old) to unless-stopped"
    );
    assert_eq!(unwanted(old()), "remove d.candidate (new)");
    // Ended by our hand: it is told from one that its owner stopped by nothing but the policy that is gone.
    assert_eq!(
        unwanted(old().policy("no").exited(5)),
        "retire old as d.draining-now"
    );
}

#[test]
fn an_old_one_that_the_engine_cannot_start_any_more_is_made_again() {
    let base = |failed| {
        let old = old().exited(70).change(|m| m.history.failed_starts = failed);
        scene()
            .draining(90, old)
            .failed(1, new().id("f1").policy("no").exited(60))
    };
    assert_eq!(base(2).next(), "start d.draining-90 (old)");
    assert_eq!(base(3).next(), "create the old container again, from old");
    // Its copy cannot be started either: the fault is not with the container, and may pass.
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
fn an_image_that_somebody_went_back_from_is_left_alone_until_another_one_is_published() {
    let back = || {
        old().change(|m| {
            m.rolled_back_from = Some(RolledBackImage {
                reference: V2.into(),
                id: image_id(V2),
            });
        })
    };
    let base = || scene().serving(back());
    assert_eq!(base().published(V2).next(), "rest: rolled_back");
    assert_eq!(base().pulled(V2).next(), "rest: rolled_back");
    assert_eq!(base().published(V3).next(), format!("pull {V3}"));
    assert_eq!(
        base().pulled(V3).next(),
        format!("create from old: {V3}, release 1")
    );
    // An operator may want it all the same.
    assert_eq!(
        base().pulled(V2).demanded(Intent::Retry).next(),
        format!("create from old: {V2}, release 1")
    );
    // A tag that moves is one reference for two images: the id tells.
    let moving = |id: &str| {
        let mut scene = base().pulled(V1).with(|r| {
            let serving = r.serving.as_mut().unwrap();
            serving.rolled_back_from = Some(RolledBackImage {
                reference: V1.into(),
                id: image_id("moved"),
            });
        });
        if let delegate_upgrader::rollout::Desired::Image { id: wished, .. } = &mut scene.desired {
            *wished = Some(image_id(id));
        }
        scene.next()
    };
    assert_eq!(moving("moved"), "rest: rolled_back");
    assert!(moving("newer").starts_with("create from old"));
    assert_eq!(
        base()
            .published(V1)
            .with(|r| {
                r.serving
                    .as_mut()
                    .unwrap()
                    .rolled_back_from
                    .as_mut()
                    .unwrap()
                    .reference = V1.into();
            })
            .next(),
        format!("pull {V1}")
    );
}

#[test]
fn a_rollback_that_another_process_began_is_finished() {
    let candidate = new().image(V1).replaces("bad").running(90, 3).change(|m| {
        m.rolled_back_from = Some(RolledBackImage {
            reference: V2.into(),
            id: image_id(V2),
        });
    });
    let base = scene().serving(old().id("bad").image(V2)).candidate(candidate);
    assert_eq!(base.clone().pulled(V2).reason().kind().as_str(), "proving");
    // A newer image comes before it.
    assert_eq!(base.pulled(V3).next(), "withdraw new as d.withdrawn-now");
}

#[test]
fn an_operator_s_word_comes_before_a_quarantine() {
    let rejected = || new().id("f1").policy("no").exited(60);
    let base = || scene().serving(old()).failed(1, rejected()).pulled(V2);
    assert_eq!(base().next(), "rest: quarantined");
    for intent in [Intent::Retry, Intent::Rollback] {
        assert_eq!(
            base().demanded(intent).next(),
            format!("create from old: {V2}, release 1")
        );
    }
}

#[test]
fn an_overdue_stop_is_looked_at_right_after_its_deadline() {
    let told = |seconds| {
        let old = old().told(seconds);
        match scene()
            .serving(new().running(9000, 9000))
            .draining(9000, old)
            .decision()
        {
            delegate_upgrader::rollout::Decision::Wait { until, .. } => (until - now()).num_milliseconds(),
            step => panic!("{step}"),
        }
    };
    assert_eq!(told(3595), 5000);
    assert_eq!(told(3600), 501);
}

#[test]
fn of_a_story_that_another_one_began_nothing_is_taken_for_granted() {
    // A candidate of an older version, alone with a standby: it is judged, since there is something to go back to.
    let stranger = heir().change(|m| m.replaces = Some(ContainerId::new("stranger")));
    let base = scene().standby(standby()).candidate(stranger.ill(DEADLINE, 90));
    assert!(base.next().starts_with(&format!("mark {V2} as d.failed-1")));
}

#[test]
fn a_candidate_whose_delegate_somebody_renamed_is_not_all_there_is() {
    let base = scene()
        .candidate(new().running(90, 3))
        .with(|r| r.predecessor_was_renamed = true);
    assert_eq!(base.next(), "withdraw new as d.withdrawn-now");
    assert_eq!(
        scene()
            .candidate(new())
            .with(|r| r.predecessor_was_renamed = true)
            .next(),
        "remove d.candidate (new)"
    );
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
