//! What an old one that is to come back may have been asked, and what a marker says of the candidate that is gone.

use delegate_upgrader::rollout::{Member, StoppedBy};

use super::scene::{Change, Scene, V2, V3, new, old};

fn scene() -> Scene {
    Scene::new()
}

/// Its successor failed, and it is to come back.
fn restoring(old: Member) -> Scene {
    scene().draining(90, old).failed(1, new().policy("no").exited(5))
}

#[test]
fn one_that_may_be_stopping_is_not_restored_whatever_policy_somebody_gave_it() {
    let asked = old()
        .asked_to_stop(60)
        .policy("always")
        .stopped_by(StoppedBy::Unknown);
    assert_eq!(
        restoring(asked).next(),
        "set the restart policy of d.draining-90 (old) to no"
    );
}

#[test]
fn one_that_the_engine_says_was_asked_to_stop_keeps_its_name_until_it_ends() {
    let told = old().policy("always").stopped_by(StoppedBy::Somebody);
    assert_eq!(
        restoring(told).next(),
        "set the restart policy of d.draining-90 (old) to no"
    );
}

#[test]
fn a_request_to_an_earlier_life_may_have_reached_the_one_that_this_process_began() {
    let again = |stopped_by| {
        old().policy("no").stopped_by(stopped_by).change(|m| {
            m.history.restarted_since_stop = true;
            m.history.restarted_by_us = true;
        })
    };
    assert_eq!(
        restoring(again(StoppedBy::Somebody)).next(),
        "tell d.draining-90 (old) to stop within 1h"
    );
    assert_eq!(
        restoring(again(StoppedBy::Nobody)).next(),
        "set the restart policy of d.draining-90 (old) to unless-stopped"
    );
}

#[test]
fn one_whose_successor_was_given_up_is_not_what_somebody_removed() {
    let base = restoring(old().policy("no").exited(10));
    let removed = base.knowing(|facts| facts.removed_by = Some(StoppedBy::Somebody));
    assert_eq!(
        removed.next(),
        "set the restart policy of d.draining-90 (old) to unless-stopped"
    );
}

/// The marker itself was never started: what this process did to it says nothing of its candidate.
#[test]
fn what_was_done_to_a_marker_was_not_done_to_its_candidate() {
    let base = |marker: Member| {
        let marker = marker.id("mark").policy("no");
        let serving = old().auto_remove();
        scene().serving(serving).attempt(marker).pulled(V2)
    };
    let asked = new().asked_to_stop(5).stopped_by_whom();
    assert_eq!(base(asked).next(), "find out whether somebody stopped mark");
    // Stop-first, it may have run beside the old one, if somebody started it.
    let beside = base(new().stopped_by_whom());
    assert_eq!(
        beside.host_network().next(),
        "withdraw mark as d.withdrawn-now: inconclusive"
    );
}

/// A candidate for a successor that failed meanwhile fails, too, while the old one is still to come back.
#[test]
fn a_rejected_one_that_remembers_the_policy_of_the_old_one_keeps_its_name() {
    let first = |replaces: &str| new().policy("no").exited(50).replaces(replaces);
    let base = |replaces: &str| {
        let candidate = new()
            .id("third")
            .image(V3)
            .replaces("new")
            .running(90, 0)
            .exited(30);
        let candidate = candidate.stopped_by(StoppedBy::Nobody);
        let scene = scene()
            .host_network()
            .draining(900, old().policy("no").exited(60));
        scene.failed(1, first(replaces)).candidate(candidate).next()
    };
    assert!(
        base("old").starts_with("reject third as d.failed-2"),
        "{}",
        base("old")
    );
    assert_eq!(base("another"), "remove d.failed-1 (new)");
}
