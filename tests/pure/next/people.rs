//! What people do while a delegate is being replaced.

use delegate_upgrader::container::{Role, RunState};
use delegate_upgrader::rollout::{Condition, FailureCause, Intent, Member, Reach, StoppedBy, UnhealthyPeer};

use super::scene::{Change, DEADLINE, Scene, V2, V3, ago, new, old, standby};

fn scene() -> Scene {
    Scene::new()
}

fn outdated(member: Member) -> Member {
    member.change(|m| m.history.outdated = Some("/HostConfig/Memory".to_owned()))
}

#[test]
fn a_candidate_of_what_somebody_changed_since_is_withdrawn_and_created_again() {
    let base = |candidate: Member| scene().serving(old()).candidate(candidate).pulled(V2).next();
    let proven = new().running(90, 80);
    assert_eq!(base(proven.clone()), "retire old as d.draining-now");
    assert_eq!(base(outdated(proven)), "withdraw new as d.withdrawn-now");
    assert_eq!(base(outdated(new())), "remove d.candidate (new)");
    // The policy that somebody took off is not given back by the one that was withdrawn for it.
    let withdrawn = |member: Member, ended| {
        let scene = scene().serving(old().policy("no"));
        scene.withdrawn(5, member.exited(ended).policy("no")).next()
    };
    assert_eq!(
        withdrawn(new(), 2),
        "set the restart policy of d (old) to unless-stopped"
    );
    assert_eq!(withdrawn(outdated(new()), 3), "remove d.withdrawn-5 (new)");
    assert_eq!(withdrawn(outdated(new()), -60), "remove d.withdrawn-5 (new)");
    // A command that has just stopped it removes it next, and would fail if it were gone.
    assert_eq!(withdrawn(outdated(new()), 2), "wait 1 s: stopping");
}

#[test]
fn an_old_one_that_somebody_changed_while_it_drained_comes_back() {
    let base = |candidate: Member| {
        let ended = old().policy("no").exited(10);
        scene().draining(90, ended).candidate(candidate).next()
    };
    assert_eq!(base(new()), "start d.candidate (new)");
    assert_eq!(
        base(outdated(new())),
        "withdraw new as d.withdrawn-now: settings_changed"
    );
    // With the policy that this process took off last.
    let policy = |label: Option<&str>| {
        let ended = old().policy("no").exited(10);
        let ended = ended.change(|m| m.history.original_policy = label.map(str::to_owned));
        scene().draining(90, ended).withdrawn(5, new()).next()
    };
    let set = |policy| format!("set the restart policy of d.draining-90 (old) to {policy}");
    assert_eq!(policy(None), set("unless-stopped"));
    assert_eq!(policy(Some("always")), set("always"));
}

/// One with `--rm` takes its settings along when it stops.
#[test]
fn what_was_changed_on_one_that_is_about_to_vanish_is_copied_first() {
    let changed = || old().auto_remove().asked_to_stop(60).change(|m| m.settings = 1);
    let base = |candidate: Member| scene().candidate(candidate);
    let draining = |candidate: Member| base(candidate).draining(90, changed());
    let created = || new().auto_remove();
    assert_eq!(
        draining(created()).standby(standby()).next(),
        "find out whether somebody changed it meanwhile"
    );
    let compared = |member: Member| member.change(|m| m.history.compared_settings = Some(m.settings));
    let known = |candidate: Member| base(candidate).draining(90, compared(changed()));
    let draining_on = known(created()).standby(standby()).next();
    assert!(draining_on.ends_with("draining"), "{draining_on}");
    let differs = || known(outdated(created()));
    assert_eq!(differs().standby(standby()).next(), "remove d.standby (standby)");
    assert_eq!(differs().next(), "make a standby copy of the old container (old)");
    let renewed = standby().change(|m| m.created_at = ago(1));
    // Somebody may change it once more.
    let waits = differs().standby(renewed).next();
    assert!(waits.ends_with("draining"), "{waits}");
    // One that stays when it has stopped is compared before the candidate starts.
    let stays = old().policy("no").asked_to_stop(60).change(|m| m.settings = 1);
    let next = base(new()).draining(90, stays).next();
    assert!(next.ends_with("draining"), "{next}");
}

#[test]
fn no_more_than_two_other_containers_finish_their_tasks_at_once() {
    let base = || scene().serving(old()).pulled(V2);
    let waits = "wait 10 s: awaiting_drains";
    let drains = |id| old().id(id).asked_to_stop(60);
    let one = base().draining(90, drains("first"));
    assert_eq!(one.next(), "create from old: harness/delegate:26.02.1, release 1");
    let two = || one.clone().draining(80, drains("second"));
    assert!(
        two().next().ends_with("awaiting_drains"),
        "{} {waits}",
        two().next()
    );
    let ended = one.clone().draining(80, drains("second").exited(5));
    assert_eq!(ended.next(), "remove d.draining-80 (second)");
    let given_up = || new().id("w").image(V3).running(90, 0).asked_to_stop(60);
    assert!(
        one.clone()
            .withdrawn(70, given_up())
            .next()
            .ends_with("awaiting_drains")
    );
    assert!(one.failed(1, given_up()).next().ends_with("awaiting_drains"));
    // Two of a stop-first delegate must not run at once.
    let alone = base().withdrawn(70, given_up());
    assert_eq!(
        alone.next(),
        "create from old: harness/delegate:26.02.1, release 1"
    );
    assert!(alone.host_network().next().ends_with("awaiting_drains"));
    let behind = base().draining(70, drains("first")).host_network();
    assert!(behind.next().ends_with("awaiting_drains"));
}

#[test]
fn what_another_process_rejected_in_this_run_is_not_tried_again() {
    let base = |rejected: Member| {
        let scene = scene().serving(old()).failed(1, rejected).pulled(V2);
        scene.knowing(|facts| facts.known_rejections.clear())
    };
    let cause = |rejected: Member| base(rejected).reason().to_string();
    assert!(cause(new().policy("no").exited(80)).ends_with("exited with code 3 before it had proven itself"));
    let late = new().policy("no").unhealthy(DEADLINE, DEADLINE).asked_to_stop(1);
    assert!(late.is_up());
    let late = late.exited(0).change(|m| m.history.seen_since = None);
    assert!(cause(late).starts_with("harness/delegate:26.02.1 was rejected: "));
    let unknown = FailureCause::RejectedByAnother.to_string();
    assert!(cause(new()).ends_with(&unknown), "{}", cause(new()));
}

#[test]
fn a_candidate_that_does_no_worse_than_a_peer_is_set_aside() {
    let late = |peer| new().unhealthy(2 * DEADLINE, 90).unhealthy_peer(3, peer);
    let base = |candidate: Member| scene().serving(old()).candidate(candidate).pulled(V2);
    let (before, with_it) = (UnhealthyPeer::Before, UnhealthyPeer::WithIt);
    for peer in [before, with_it] {
        assert_eq!(base(late(peer)).next(), "set new aside as d.inconclusive-1");
    }
    // The Manager's outage is another matter: it needs no pause.
    let away =
        base(late(before)).knowing(|facts| facts.manager = Some(Reach::Unreachable("refused".to_owned())));
    assert_eq!(away.next(), "withdraw new as d.withdrawn-now: inconclusive");
    let marked = |candidate: Member| {
        let mark = new().id("mark").policy("no").change(|m| m.created_at = ago(2));
        base(candidate.auto_remove()).standby(standby()).attempt(mark)
    };
    assert_eq!(marked(late(before)).next(), "set mark aside as d.inconclusive-1");
}

#[test]
fn an_image_with_which_others_lose_their_health_twice_is_rejected() {
    let earlier = |role: fn(u32) -> Role, condition| {
        let earlier = new().id("earlier").policy("no").exited(80_000);
        let earlier = earlier.change(|m| {
            m.created_at = ago(90_000);
            m.predecessor_condition = condition;
        });
        scene().serving(old()).failed(1, earlier).with(|rollout| {
            rollout.failed[0].role = role(1);
            rollout.failed[0].name = role(1).name("d");
        })
    };
    let inconclusive = |attempt| Role::Inconclusive { attempt };
    let failed = |attempt| Role::Failed { attempt };
    let late = |peer| new().unhealthy(2 * DEADLINE, 90).unhealthy_peer(3, peer);
    let base = |scene: Scene, member: Member| scene.candidate(member).pulled(V2).next();
    let (before, with_it) = (UnhealthyPeer::Before, UnhealthyPeer::WithIt);
    let working = Condition::Working;
    assert_eq!(
        base(earlier(inconclusive, working), late(with_it)),
        "reject new as d.failed-2: delegates with another image became unhealthy with it, for the second time: e is \
         unhealthy too"
    );
    let aside = "set new aside as d.inconclusive-2";
    assert_eq!(base(earlier(inconclusive, working), late(before)), aside);
    assert_eq!(
        base(earlier(inconclusive, Condition::Unhealthy), late(with_it)),
        aside
    );
    assert_eq!(base(earlier(failed, working), late(with_it)), aside);
    let after_an_ill_one = late(with_it).change(|m| m.predecessor_condition = Condition::Unhealthy);
    assert_eq!(base(earlier(inconclusive, working), after_an_ill_one), aside);
}

#[test]
fn an_image_without_a_verdict_is_tried_again_after_a_pause() {
    let base = |ended: i64| {
        let aside = new().policy("no").exited(ended);
        scene()
            .serving(old())
            .failed(1, aside)
            .pulled(V2)
            .with(|rollout| {
                rollout.failed[0].role = Role::Inconclusive { attempt: 1 };
            })
    };
    assert_eq!(base(3599).next(), "rest: awaiting_retry");
    assert_eq!(
        base(3600).next(),
        "create from old: harness/delegate:26.02.1, release 1"
    );
    let retried = base(5).demanded(Intent::Retry);
    assert_eq!(
        retried.next(),
        "create from old: harness/delegate:26.02.1, release 1"
    );
}

#[test]
fn a_successor_that_stays_unhealthy_gives_way_whatever_excuses_it() {
    let base = |lasting: i64| {
        let successor = new()
            .unhealthy(9000, lasting)
            .unhealthy_peer(3, UnhealthyPeer::Before);
        let successor = successor.change(|m| m.predecessor_condition = Condition::Unhealthy);
        scene().serving(successor).draining(90, old()).next()
    };
    assert!(
        base(2 * DEADLINE - 1).starts_with("wait"),
        "{}",
        base(2 * DEADLINE - 1)
    );
    assert_eq!(base(2 * DEADLINE), "set new aside as d.inconclusive-1");
}

#[test]
fn what_somebody_stopped_or_an_engine_s_end_ended_is_not_judged() {
    let ended = |by| new().running(90, 80).exited(20).stopped_by(by);
    for by in [StoppedBy::Somebody, StoppedBy::Engine] {
        let base = scene().serving(old()).candidate(ended(by)).pulled(V2);
        assert_eq!(base.next(), "withdraw new as d.withdrawn-now: inconclusive");
        // After the commit, and in a stop-first replacement.
        let lost = scene()
            .serving(ended(by))
            .draining(90, old().policy("no").exited(10));
        assert_eq!(lost.next(), "withdraw new as d.withdrawn-now: inconclusive");
        let alone = scene()
            .draining(90, old().policy("no").exited(50))
            .candidate(ended(by));
        assert_eq!(alone.next(), "withdraw new as d.withdrawn-now: inconclusive");
    }
    let base = |member: Member| scene().serving(old()).candidate(member).pulled(V2).next();
    assert_eq!(
        base(ended(StoppedBy::Nobody)),
        "reject new as d.failed-1: exited with code 3 before it had proven itself"
    );
    assert_eq!(
        base(new().running(90, 80).exited(20).stopped_by_whom()),
        "find out whether somebody stopped new"
    );
    // Its own stop is no person's, whichever process asked for it.
    let by_us = ended(StoppedBy::Somebody).policy("no");
    assert_eq!(
        base(by_us),
        "reject new as d.failed-1: exited with code 3 before it had proven itself"
    );
    // A crash loop is not stopped by anybody.
    let crashes = new().running(90, 80).stopped_by(StoppedBy::Somebody).restarts(3);
    assert!(base(crashes).starts_with("reject new as d.failed-1: it keeps crashing"));
}

#[test]
fn what_its_owner_stops_is_not_replaced() {
    let base = |serving: Member, candidate: Member| scene().serving(serving).candidate(candidate).pulled(V2);
    let proven = || new().running(90, 80);
    let withdrawn = "withdraw new as d.withdrawn-now: asked_to_stop";
    assert_eq!(base(old(), proven()).next(), "retire old as d.draining-now");
    assert_eq!(
        base(old().stopped_by_whom(), proven()).next(),
        "find out whether somebody stopped old"
    );
    assert_eq!(
        base(old().stopped_by(StoppedBy::Somebody), proven()).next(),
        withdrawn
    );
    assert_eq!(base(old().state(RunState::Paused), proven()).next(), withdrawn);
    assert_eq!(
        base(old().exited(20).stopped_by(StoppedBy::Somebody), proven()).next(),
        withdrawn
    );
    // Without a restart policy, one that ended by itself is replaced.
    let no_policy = || proven().change(|m| m.predecessor_policy = Some("no".to_owned()));
    let ended = old().policy("no").exited(20);
    assert_eq!(base(ended, no_policy()).next(), "retire old as d.draining-now");
    // Stop-first, before anything is done to it.
    let stop_first = |serving: Member| base(serving, new()).host_network().next();
    assert_eq!(stop_first(old()), "retire old as d.draining-now");
    assert_eq!(
        stop_first(old().stopped_by_whom()),
        "find out whether somebody stopped old"
    );
    assert_eq!(stop_first(old().stopped_by(StoppedBy::Somebody)), withdrawn);
    // Stopped between two lives by this program.
    let by_us = old().stopped_by(StoppedBy::Somebody).asked_to_stop(5);
    assert_eq!(
        base(by_us.clone(), proven()).next(),
        "retire old as d.draining-now"
    );
    // Without a policy that could show it, this process remembers it.
    let no_policy = || new().change(|m| m.predecessor_policy = Some("no".to_owned()));
    let host_network = |serving: Member| base(serving, no_policy()).host_network().next();
    assert_eq!(host_network(by_us.exited(2)), "retire old as d.draining-now");
    assert_eq!(
        host_network(old().policy("no").exited(2)),
        "remove d.candidate (new)"
    );
    // It crashed, and began another life as this program asked it to stop.
    let crashing = |count| old().policy("no").restarts(count).stopped_by(StoppedBy::Somebody);
    assert_eq!(stop_first(crashing(1)), "retire old as d.draining-now");
    assert_eq!(stop_first(crashing(0)), withdrawn);
    assert_eq!(host_network(crashing(1)), withdrawn);
}

#[test]
fn the_policy_that_is_given_back_is_the_one_that_was_taken() {
    let next = |taken: Option<&str>| {
        let serving = old().policy("no");
        let serving = serving.change(|m| m.history.original_policy = taken.map(str::to_owned));
        let scene = scene().serving(serving).candidate(outdated(new()));
        scene.host_network().pulled(V2).next()
    };
    let set = |policy| format!("set the restart policy of d (old) to {policy}");
    assert_eq!(next(None), set("unless-stopped"));
    // Somebody set it after the candidate was created.
    assert_eq!(next(Some("always")), set("always"));
}

#[test]
fn a_stop_first_candidate_that_somebody_started_is_no_proven_one() {
    let base = || {
        let restarted = new().running(90, 2);
        scene().candidate(restarted).draining(80, old().policy("no"))
    };
    assert_eq!(base().next(), "promote the candidate (new) to d");
    let next = base().host_network().next();
    assert!(next.ends_with("proving"), "{next}");
}

#[test]
fn a_candidate_that_somebody_asked_to_stop_does_not_take_over() {
    let withdrawn = "withdraw new as d.withdrawn-now: asked_to_stop";
    let asked = || new().running(80, 80).stopped_by(StoppedBy::Somebody);
    let unknown = || new().running(80, 80).stopped_by_whom();
    let beside = |candidate: Member| scene().serving(old()).candidate(candidate).pulled(V2).next();
    let after = |candidate: Member| {
        let ended = old().policy("no").exited(100);
        scene().draining(110, ended).candidate(candidate).next()
    };
    for next in [beside, after] {
        assert_eq!(next(asked()), withdrawn);
        assert_eq!(next(unknown()), "find out whether somebody stopped new");
    }
    assert_eq!(after(new().running(80, 80)), "promote the candidate (new) to d");
}

#[test]
fn an_old_one_that_nobody_asked_to_stop_comes_back_as_it_is() {
    let base = |old: Member| {
        scene()
            .draining(90, old)
            .failed(1, new().policy("no").exited(5))
            .next()
    };
    let set = "set the restart policy of d.draining-90 (old) to unless-stopped";
    let up = || old().policy("no");
    assert_eq!(base(up().stopped_by(StoppedBy::Nobody)), set);
    assert_eq!(
        base(up().stopped_by_whom()),
        "find out whether somebody stopped old"
    );
    for by in [StoppedBy::Somebody, StoppedBy::Unknown] {
        assert_eq!(
            base(up().stopped_by(by)),
            "tell d.draining-90 (old) to stop within 1h"
        );
    }
    let by_us = up().asked_to_stop(5).stopped_by(StoppedBy::Nobody);
    assert!(base(by_us).starts_with("wait"));
    // Somebody restarted it as this process asked it to stop: the new life may have got the request.
    let again = || up().change(|m| m.history.restarted_since_stop = true);
    assert_eq!(
        base(again().stopped_by_whom()),
        "find out whether somebody stopped old"
    );
    assert_eq!(
        base(again().stopped_by(StoppedBy::Somebody)),
        "tell d.draining-90 (old) to stop within 1h"
    );
    for by in [StoppedBy::Nobody, StoppedBy::Unknown] {
        assert_eq!(base(again().stopped_by(by)), set);
    }
}

#[test]
fn what_somebody_else_calls_by_a_name_of_ours_takes_no_delegate() {
    let taken = |scene: Scene, name: &str| {
        scene
            .with(|rollout| rollout.name_conflict = Some(name.to_owned()))
            .next()
    };
    let proven = || new().running(90, 80).auto_remove();
    let beside = scene()
        .serving(old().auto_remove())
        .candidate(proven())
        .pulled(V2);
    assert_eq!(
        taken(beside, "d.standby"),
        "withdraw new as d.withdrawn-now: name_taken"
    );
    let fallen = || scene().standby(standby());
    assert_eq!(fallen().next(), "create the old container again, from standby");
    assert_eq!(taken(fallen(), "d.candidate"), "start d.standby (standby)");
    // Its original lives on under another name.
    let renamed = fallen().with(|rollout| rollout.renamed_predecessor = Some(old()));
    assert_eq!(renamed.next(), "remove d.standby (standby)");
}

#[test]
fn what_was_asked_of_it_in_service_says_nothing_of_its_drain() {
    let asked_before = old().policy("no").stopped_by(StoppedBy::Nobody);
    let scene = scene()
        .draining(2, asked_before)
        .failed(1, new().policy("no").exited(5));
    let scene = scene.with(|rollout| {
        if let Some(stopper) = &mut rollout.draining[0].history.stopper {
            stopper.role = Role::Serving;
        }
    });
    assert_eq!(scene.next(), "find out whether somebody stopped old");
    // Nor what was asked of an earlier life: somebody restarted it.
    let asked = |member: &mut Member| member.history.stopper.as_mut().unwrap().started_at = Some(ago(95));
    let restarted = new()
        .running(90, 80)
        .stopped_by(StoppedBy::Somebody)
        .change(asked);
    let scene = Scene::new().serving(old()).candidate(restarted).pulled(V2);
    assert_eq!(scene.next(), "find out whether somebody stopped new");
}

#[test]
fn what_somebody_paused_gives_way_and_is_not_judged() {
    let withdrawn = "withdraw new as d.withdrawn-now: inconclusive";
    let paused = |seconds| new().unhealthy(60, seconds).state(RunState::Paused);
    let beside = |candidate: Member| scene().serving(old()).candidate(candidate).pulled(V2).next();
    assert_eq!(beside(paused(10)), withdrawn);
    assert!(beside(paused(9)).ends_with("proving"));
    let behind = |serving: Member| {
        let ended = old().policy("no").exited(5);
        scene().serving(serving).draining(90, ended).next()
    };
    assert_eq!(behind(paused(10)), withdrawn);
    assert!(behind(paused(9)).ends_with("successor_unhealthy"));
}

#[test]
fn a_delegate_that_somebody_renamed_is_not_replaced_under_its_old_name() {
    let base = |candidate: Member| {
        let scene = scene().candidate(candidate.auto_remove()).standby(standby());
        scene
            .with(|rollout| rollout.renamed_predecessor = Some(old()))
            .next()
    };
    assert_eq!(base(new()), "remove d.candidate (new)");
    assert_eq!(base(new().running(90, 80)), "withdraw new as d.withdrawn-now");
    // What it lost is on the label of the candidate.
    let after = |candidate: Member, old: Member| {
        let old = old.change(|m| m.name = "kept".to_owned());
        let scene = scene().host_network().candidate(candidate);
        scene
            .with(|rollout| rollout.renamed_predecessor = Some(old))
            .next()
    };
    for candidate in [new(), new().running(90, 80)] {
        assert_eq!(
            after(candidate, old().policy("no")),
            "set the restart policy of kept (old) to unless-stopped"
        );
    }
    assert_eq!(after(new(), old()), "remove d.candidate (new)");
}

#[test]
fn a_copy_that_somebody_changed_before_its_start_is_made_once_more() {
    let copy = old().id("copy").replaces("standby").auto_remove().created();
    let base = |copy: Member| scene().candidate(copy).standby(standby()).next();
    assert_eq!(base(copy.clone()), "start d.candidate (copy)");
    assert_eq!(base(outdated(copy)), "remove d.candidate (copy)");
}
