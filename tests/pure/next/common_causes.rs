//! Failures that are not the image's fault, and the candidates that are withdrawn, with the policies they remember.

use delegate_upgrader::container::RunState;
use delegate_upgrader::rollout::Member;

use super::scene::{Change, DEADLINE, Scene, V2, V3, new, old};

fn scene() -> Scene {
    Scene::new()
}

#[test]
fn an_outside_cause_defers_the_verdict() {
    let base = |candidate: Member| scene().serving(old()).candidate(candidate).pulled(V2);
    // Extended once,
    assert_eq!(
        base(new().unhealthy(DEADLINE, DEADLINE).common_cause(30))
            .reason()
            .kind()
            .as_str(),
        "proving"
    );
    // then withdrawn without quarantine,
    let still = new().unhealthy(2 * DEADLINE, DEADLINE).common_cause(30);
    assert_eq!(
        base(still).next(),
        "withdraw new as d.withdrawn-now: inconclusive"
    );
    // unless the second time was undisturbed.
    let in_peace = new()
        .unhealthy(2 * DEADLINE, DEADLINE)
        .common_cause(2 * DEADLINE - 1);
    assert!(base(in_peace).next().starts_with("reject new as d.failed-1"));
    // An event before it was first seen does not count.
    let before = new().unhealthy(DEADLINE, DEADLINE).common_cause(DEADLINE + 1);
    assert!(base(before).next().starts_with("reject new as d.failed-1"));
    // A wait makes no sense for a container that has ended.
    assert_eq!(
        base(new().running(90, 0).exited(30).common_cause(60)).next(),
        "withdraw new as d.withdrawn-now: inconclusive"
    );
    assert!(
        base(new().running(90, 0).exited(30).common_cause(DEADLINE + 1))
            .next()
            .starts_with("reject new as d.failed-1")
    );
    // A candidate between two lives is stopped before it is renamed.
    assert_eq!(
        base(
            new()
                .unhealthy(2 * DEADLINE, 9)
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
fn a_successor_is_not_rejected_while_the_cause_is_outside() {
    let lost = |successor: Member| {
        scene()
            .serving(successor)
            .draining(900, old().policy("no").exited(60))
            .next()
    };
    let unhealthy = || new().unhealthy(1000, DEADLINE);
    assert!(lost(unhealthy()).starts_with("reject new"));
    assert_eq!(
        lost(unhealthy().common_cause(30)),
        "wait 5 s: successor_unhealthy"
    );
    // A wait makes no sense for a container that has ended.
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

/// Somebody stopped it at the moment it was given up: then it was never asked to stop, and its policy is still on.
#[test]
fn one_that_was_given_up_does_not_come_back_with_the_engine() {
    let given_up = || new().exited(30);
    let base = |failed: Member| scene().serving(old()).failed(1, failed).next();
    assert_eq!(
        base(given_up()),
        "set the restart policy of d.failed-1 (new) to no"
    );
    assert_eq!(base(given_up().policy("no")), "rest: awaiting_schedule");
    assert_eq!(base(new().created()), "rest: awaiting_schedule");
    let withdrawn = scene()
        .draining(40, old().exited(20).policy("no"))
        .withdrawn(5, given_up());
    assert_eq!(
        withdrawn.next(),
        "set the restart policy of d.withdrawn-5 (new) to no"
    );
}

#[test]
fn a_failed_one_is_kept_while_it_remembers_the_old_one_s_policy() {
    let successor = new().exited(1).policy("no");
    let without_policy = new().id("later").change(|m| {
        m.replaces = Some(new().id);
        m.predecessor_policy = None;
    });
    let scene = |old: Member| {
        scene()
            .draining(90, old)
            .failed(1, successor.clone())
            .failed(2, without_policy.clone())
    };
    let ended = old().policy("no").exited(0);
    assert_eq!(
        scene(ended).next(),
        "set the restart policy of d.draining-90 (old) to unless-stopped"
    );
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
    // The upgrader stopped it: only the missing policy distinguishes it from a delegate that its owner stopped.
    assert_eq!(
        unwanted(old().policy("no").exited(5)),
        "retire old as d.draining-now"
    );
}

#[test]
fn one_that_was_stopped_for_its_successor_is_retired_whatever_the_order_is_by_now() {
    // A process that has just started does not know that there was no memory for two.
    let stopped = scene()
        .serving(old().policy("no").exited(1))
        .candidate(new())
        .pulled(V2);
    assert_eq!(stopped.next(), "retire old as d.draining-now");
    let unknown = stopped.knowing(|facts| facts.free_memory = None);
    assert_eq!(unknown.next(), "retire old as d.draining-now");
}

#[test]
fn a_candidate_whose_delegate_somebody_renamed_is_not_all_there_is() {
    let base = scene()
        .candidate(new().running(90, 3))
        .with(|r| r.renamed_predecessor = Some(old()));
    assert_eq!(base.next(), "withdraw new as d.withdrawn-now");
    assert_eq!(
        scene()
            .candidate(new())
            .with(|r| r.renamed_predecessor = Some(old()))
            .next(),
        "remove d.candidate (new)"
    );
}
