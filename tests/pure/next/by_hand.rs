//! What somebody started, paused or set by hand in the middle of a replacement.

use delegate_upgrader::container::{Role, RunState};
use delegate_upgrader::rollout::reason::Reason;
use delegate_upgrader::rollout::{Member, StoppedBy};
use delegate_upgrader::status::report::DelegateReport;

use super::scene::{Change, DEADLINE, STOP_TIMEOUT, Scene, V2, ago, new, now, old, standby};

fn scene() -> Scene {
    Scene::new()
}

#[test]
fn a_stop_first_candidate_that_somebody_started_too_soon_is_not_judged() {
    let base = |began: i64, seen: i64| {
        let candidate = new().running(began, 0).exited(40);
        let candidate = candidate
            .stopped_by(StoppedBy::Nobody)
            .change(|m| m.history.seen_since = Some(ago(seen)));
        let ended = old().policy("no").exited(50);
        let scene = scene().draining(110, ended).candidate(candidate);
        scene.host_network().next()
    };
    let withdrawn = "withdraw new as d.withdrawn-now: inconclusive";
    assert_eq!(base(51, 49), withdrawn);
    // It was restarted since this process first saw it.
    assert_eq!(base(49, 51), withdrawn);
    assert!(base(49, 49).starts_with("reject new"), "{}", base(49, 49));
}

#[test]
fn a_candidate_that_was_given_up_for_its_crashes_does_not_take_over_without_its_policy() {
    let base = |restarts, policy: &str| {
        let candidate = new().running(90, 80).restarts(restarts).policy(policy);
        // What had made it crash was seen afterwards.
        let candidate = candidate.change(|m| m.history.excused_restarts = restarts);
        let scene = scene().draining(110, old().policy("no").exited(100));
        scene.candidate(candidate.stopped_by(StoppedBy::Nobody)).next()
    };
    assert!(base(3, "no").starts_with("reject new as d.failed-1: it keeps crashing"));
    let promoted = "promote the candidate (new) to d";
    assert_eq!(base(3, "unless-stopped"), promoted);
    assert_eq!(base(2, "no"), promoted);
}

#[test]
fn a_copy_that_somebody_started_serves_once_it_is_sure_to_stay() {
    let up = |seconds| standby().running(seconds, seconds);
    let restored = "restore the old container (standby) as d";
    assert_eq!(scene().standby(up(90)).next(), restored);
    // This process asked it to stop, and no policy would bring it back.
    let asked = |seconds| scene().standby(up(9000).asked_to_stop(seconds)).next();
    assert!(asked(90).ends_with("stopping"), "{}", asked(90));
    assert_eq!(
        asked(STOP_TIMEOUT + 1),
        "tell d.standby (standby) to stop within 0s"
    );
    // The candidate that was just given up may have had its port.
    let alone = |standby| scene().host_network().standby(standby).next();
    assert!(alone(up(9)).ends_with("stopping"), "{}", alone(up(9)));
    assert_eq!(alone(up(10)), restored);
    assert_eq!(
        alone(up(9).change(|m| m.history.restarted_by_us = true)),
        restored
    );
    assert_eq!(
        scene().standby(up(9)).next(),
        restored,
        "start-first, nothing had it"
    );
}

#[test]
fn one_that_was_paused_before_it_was_asked_to_stop_is_not_replaced() {
    let base = |old: Member, candidate: Member| {
        let old = old.change(|m| m.state = RunState::Paused);
        scene()
            .host_network()
            .candidate(candidate)
            .draining(5, old)
            .next()
    };
    let withdrawn = "withdraw new as d.withdrawn-now: asked_to_stop";
    assert_eq!(base(old(), new()), withdrawn);
    assert!(base(old().policy("no"), new()).starts_with("tell d.draining-5 (old)"));
    assert!(base(old().asked_to_stop(3), new()).ends_with("draining"));
    assert!(!base(old(), new().running(90, 80)).starts_with("withdraw"));
}

#[test]
fn a_policy_that_somebody_took_off_before_the_start_is_not_given_to_the_new_one() {
    let base = |old: Member, candidate: Member| scene().serving(old).candidate(candidate).pulled(V2);
    let off = || old().policy("no").restarts(1);
    let recreated = "remove d.candidate (new)";
    assert_eq!(base(off(), new()).next(), recreated);
    assert_eq!(base(old().restarts(1), new()).next(), "start d.candidate (new)");
    // What an upgrader may have taken for its own candidate stays with that.
    let stays = |scene: Scene| assert_ne!(scene.next(), recreated, "{scene:#?}");
    stays(base(off(), new()).host_network());
    stays(base(
        off().change(|m| m.history.original_policy = Some("always".to_owned())),
        new(),
    ));
    stays(base(off(), new().change(|m| m.failed_to_start = true)));
    stays(base(
        off(),
        new().change(|m| m.predecessor_policy = Some("no".to_owned())),
    ));
    stays(base(off(), new().running(90, 20)));
}

#[test]
fn one_that_is_to_stop_under_the_name_that_somebody_gave_it_is_not_replaced() {
    let base = |seconds| {
        let kept = old().change(|m| m.history.stop_requested_at = Some(ago(seconds)));
        scene().serving(kept).pulled(V2).next()
    };
    assert!(base(60).ends_with("stopping"), "{}", base(60));
    assert!(base(STOP_TIMEOUT + 1).starts_with("create from old"));
}

#[test]
fn a_copy_of_one_that_vanishes_is_made_anew_once_whatever_the_clock_says() {
    let changed = old().auto_remove().asked_to_stop(60).change(|m| {
        m.settings = 1;
        m.history.compared_settings = Some(1);
    });
    let outdated = new()
        .auto_remove()
        .change(|m| m.history.outdated = Some("/HostConfig/Memory".to_owned()));
    let differs = scene().candidate(outdated).draining(90, changed);
    // By the clock the copy is older than the candidate, also if it was made just now.
    let copied = |settings| standby().change(|m| m.history.copied_settings = settings);
    let with = |settings| differs.clone().standby(copied(settings)).next();
    assert!(with(Some(1)).ends_with("draining"), "{}", with(Some(1)));
    for before in [Some(0), None] {
        assert_eq!(with(before), "remove d.standby (standby)");
    }
}

/// Somebody may change it once more: what cannot start goes only after it.
#[test]
fn one_that_vanishes_is_compared_until_it_has() {
    let asked = || {
        old()
            .auto_remove()
            .asked_to_stop(60)
            .change(|m| m.history.compared_settings = Some(m.settings))
    };
    let with = |old| {
        let gone = Some("no such image".to_owned());
        let refused = new().auto_remove().change(|m| m.history.start_refused = gone);
        scene()
            .candidate(refused)
            .draining(90, old)
            .standby(standby())
            .next()
    };
    assert!(with(asked()).ends_with("draining"), "{}", with(asked()));
    let changed = asked().change(|m| m.settings += 1);
    assert_eq!(with(changed), "find out whether somebody changed it meanwhile");
    let not_asked = asked().change(|m| m.history.stop_requested_at = None);
    assert_eq!(with(not_asked), "mark harness/delegate:26.02.1 as tried by new");
}

#[test]
fn a_life_that_somebody_began_may_have_been_asked_to_stop_by_a_process_that_is_gone() {
    let begun = |by| {
        let old = old().policy("no").running(60, 0);
        let old = old.change(|m| m.finished_at = Some(ago(70)));
        let old = match by {
            Some(by) => old.stopped_by(by),
            None => old.stopped_by_whom(),
        };
        let failed = new().policy("no").exited(5);
        scene().failed(1, failed).draining(90, old).next()
    };
    assert_eq!(begun(None), "find out whether somebody stopped old");
    assert!(begun(Some(StoppedBy::Somebody)).starts_with("tell d.draining-90 (old) to stop"));
    let restored = "set the restart policy of d.draining-90 (old) to unless-stopped";
    assert_eq!(begun(Some(StoppedBy::Nobody)), restored);
}

/// An old one without a policy, up or ended in a life after it was stopped, beside what was given up.
fn restarted(old: Member, given_up: Member) -> Scene {
    let old = old.policy("no");
    let given_up = given_up
        .policy("no")
        .change(|m| m.predecessor_policy = Some("no".to_owned()));
    let scene = scene().host_network().failed(1, given_up);
    scene.draining(90, old.stopped_by(StoppedBy::Nobody))
}

#[test]
fn an_old_one_that_somebody_started_serves_once_it_is_sure_to_stay() {
    let up = |seconds| {
        old()
            .running(seconds, 0)
            .change(|m| m.finished_at = Some(ago(70)))
    };
    let gone = || new().running(60, 0).exited(5);
    let restored = "restore the old container (old) as d";
    let early = restarted(up(9), gone());
    assert!(early.next().ends_with("stopping"), "{}", early.next());
    assert_eq!(restarted(up(10), gone()).next(), restored);
    let ours = up(9).change(|m| m.history.restarted_by_us = true);
    assert_eq!(restarted(ours, gone()).next(), restored);
    let start_first = restarted(up(9), gone()).with(|rollout| rollout.single_instance = None);
    assert_eq!(start_first.next(), restored, "nothing had its port");
}

#[test]
fn an_old_one_that_found_its_port_taken_is_started_once_more() {
    let ended = || {
        let old = old().running(60, 0).exited(50);
        old.change(|m| m.history.restarted_by_us = true)
    };
    let (again, restored) = (
        "start d.draining-90 (old)",
        "restore the old container (old) as d",
    );
    // Somebody started the one that was given up a moment before, or after.
    for started in [61, 59] {
        assert_eq!(
            restarted(ended(), new().running(started, 0).exited(30)).next(),
            again
        );
    }
    // It ended by itself: the other one had ended before, or was started after; or, by a clock that was set back, will.
    for (started, ended_at) in [(80, 70), (40, 30), (61, -10)] {
        let other = new().running(started, 0).exited(ended_at);
        assert_eq!(restarted(ended(), other).next(), restored, "{started}");
    }
    let other = new().running(61, 0).exited(30);
    let start_first = restarted(ended(), other).with(|rollout| rollout.single_instance = None);
    assert_eq!(start_first.next(), restored);
}

/// A name is anybody's to give, and no number in it ends the process.
#[test]
fn a_name_with_a_time_at_the_end_of_time_is_reported_and_decided_on() {
    let last = 253_402_300_799;
    let name = |second: i64| format!("d.draining-{second}");
    assert_eq!(Role::parse(&name(last)), ("d", Role::Draining { since: last }));
    let beyond = name(8_210_266_876_798);
    assert_eq!(Role::parse(&beyond), (beyond.as_str(), Role::Serving));
    for serving in [new().running(99, 99), new().unhealthy(DEADLINE, DEADLINE)] {
        let old = old().policy("no");
        let scene = scene().serving(serving).draining(now().timestamp() - last, old);
        let report = DelegateReport::new(&scene.rollout, &Reason::NoContainer, None);
        assert!(report.draining[0].until.is_some());
        scene.next();
    }
}

#[test]
fn the_new_one_serves_where_somebody_renamed_an_old_one_that_had_ended() {
    let base = |candidate: Member, old: Member| {
        let scene = scene().host_network().candidate(candidate);
        scene.with(|r| r.renamed_predecessor = Some(old)).next()
    };
    let ended = || old().exited(5);
    let proven = || new().running(90, 80);
    assert_eq!(base(proven(), ended()), "promote the candidate (new) to d");
    assert_eq!(base(proven(), old()), "withdraw new as d.withdrawn-now");
    assert_eq!(
        base(new(), ended()),
        "remove d.candidate (new)",
        "what they stopped stays stopped"
    );
}

/// Somebody may give it another name in the moment in which its successor is rejected.
#[test]
fn a_renamed_old_one_gets_the_policy_back_that_this_process_took_off() {
    let base = |taken: Option<&str>| {
        let kept = old().policy("no").change(|m| {
            m.name = "kept".to_owned();
            m.history.original_policy = taken.map(str::to_owned);
        });
        let scene = scene().failed(1, new().policy("no").exited(1));
        scene.with(|r| r.renamed_predecessor = Some(kept)).next()
    };
    assert_eq!(
        base(Some("unless-stopped")),
        "set the restart policy of kept (old) to unless-stopped"
    );
    assert_eq!(base(None), "rest: no_container");
}
