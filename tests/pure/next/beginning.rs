//! When a replacement may begin: windows, and the labels of the owner.

use chrono::{DateTime, Utc};
use delegate_upgrader::config::Timing;
use delegate_upgrader::rollout::{Intent, InvalidLabel, OwnerLimits};
use delegate_upgrader::schedule::window::UpgradeWindow;
use delegate_upgrader::schedule::zone::Zone;

use super::scene::{Change, Scene, V1, V2, ago, new, now, old};

fn window(text: &str) -> UpgradeWindow {
    UpgradeWindow::parse(text, Zone::utc()).unwrap()
}

/// The moment of the tests is 08:00 on a Friday.
const OPEN: &str = "Fri 07:00-09:00";
const CLOSED: &str = "Fri 09:00-10:00";

fn scene() -> Scene {
    Scene::new()
}

fn base() -> Scene {
    scene().serving(old()).published(V2)
}

fn owner(change: impl FnOnce(&mut OwnerLimits)) -> Scene {
    base().with(|rollout| change(&mut rollout.limits))
}

fn host(timing: Timing) -> Scene {
    base().policy(|policy| policy.timing = timing)
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

#[test]
fn nothing_begins_outside_of_the_window() {
    assert_eq!(now(), at("2027-01-15T08:00:00Z"));
    let timing = |text| Timing {
        window: Some(window(text)),
        ..Timing::default()
    };
    assert_eq!(base().next(), "pull harness/delegate:26.02.1");
    assert_eq!(host(timing(OPEN)).next(), "pull harness/delegate:26.02.1");
    assert_eq!(host(timing(CLOSED)).next(), "rest: outside_window");
    assert_eq!(
        host(timing(CLOSED)).reason().to_string(),
        "harness/delegate:26.02.1 is published; waiting for the window Fri 09:00-10:00, which opens at \
         2027-01-15T09:00:00Z"
    );
    // Nor after the pull.
    let pulled = scene().serving(old()).pulled(V2);
    assert_eq!(
        pulled.policy(|policy| policy.timing = timing(CLOSED)).next(),
        "rest: outside_window"
    );
    // The owner's goes before the host's.
    let both = |own| host(timing(CLOSED)).with(|rollout| rollout.limits.window = Some(window(own)));
    assert_eq!(both(OPEN).next(), "pull harness/delegate:26.02.1");
    let both = |own| host(timing(OPEN)).with(|rollout| rollout.limits.window = Some(window(own)));
    assert_eq!(both(CLOSED).next(), "rest: outside_window");
}

#[test]
fn what_was_begun_is_finished_at_any_time() {
    let timing = Timing {
        window: Some(window(CLOSED)),
        ..Timing::default()
    };
    let begun = scene().serving(old()).candidate(new()).pulled(V2);
    let begun = begun.policy(|policy| policy.timing = timing);
    let begun = begun.with(|rollout| {
        rollout.limits.snooze_until = Some(ago(-3600));
        rollout.limits.pin = "26.01".parse().ok();
    });
    assert_eq!(
        begun.next(),
        scene().serving(old()).candidate(new()).pulled(V2).next()
    );
}

#[test]
fn an_expired_version_waits_for_no_window_where_that_is_set() {
    let timing = |now_if_expired| Timing {
        window: Some(window(CLOSED)),
        now_if_expired,
        ..Timing::default()
    };
    let runs = |image: &str, now_if_expired| {
        let scene = scene().serving(old().image(image)).published(V2);
        scene
            .policy(|policy| policy.timing = timing(now_if_expired))
            .next()
    };
    // The life of 26.05 ends with January 2027, that of 26.04 ended with December 2026.
    let pull = "pull harness/delegate:26.02.1";
    assert_eq!(runs("harness/delegate:26.04.1", true), pull);
    assert_eq!(runs("harness/delegate:26.05.1", true), "rest: outside_window");
    assert_eq!(runs("harness/delegate:latest", true), "rest: outside_window");
    assert_eq!(runs("harness/delegate:26.04.1", false), "rest: outside_window");
    // The owner's window, too; but not what is about the image, or said for this time.
    let expired = || host(timing(true));
    assert_eq!(old().image.to_string(), V1);
    assert_eq!(
        expired().with(|r| r.limits.window = Some(window(CLOSED))).next(),
        pull
    );
    let snoozed = expired().with(|r| r.limits.snooze_until = Some(ago(-60)));
    assert_eq!(snoozed.next(), "rest: snoozed");
    assert_eq!(
        expired().with(|r| r.limits.pin = "26.01".parse().ok()).next(),
        "rest: pinned"
    );
}

#[test]
fn the_labels_of_the_owner_hold_a_delegate_back() {
    assert_eq!(
        owner(|limits| limits.snooze_until = Some(ago(-60))).next(),
        "rest: snoozed"
    );
    assert_eq!(
        owner(|limits| limits.snooze_until = Some(now())).next(),
        "pull harness/delegate:26.02.1"
    );
    assert_eq!(
        owner(|limits| limits.pin = "26.01".parse().ok()).next(),
        "rest: pinned"
    );
    assert_eq!(
        owner(|limits| limits.pin = "26.02".parse().ok()).next(),
        "pull harness/delegate:26.02.1"
    );
    let invalid = owner(|limits| {
        limits.invalid = Some(InvalidLabel {
            label: "io.delegate-upgrader.snooze-until",
            value: "soon".to_owned(),
            accepted: "a date",
        });
        limits.pin = "26.01".parse().ok();
    });
    assert_eq!(invalid.next(), "rest: invalid_label");
    assert!(invalid.reason().is_failure());
    assert_eq!(
        invalid.reason().to_string(),
        "harness/delegate:26.02.1 is published, but the label io.delegate-upgrader.snooze-until=soon is not a date; \
         recreate the delegate with a right one, or without it"
    );
}

#[test]
fn of_several_reasons_the_one_that_ends_last_is_given() {
    let both = |snoozed: i64| {
        owner(|limits| {
            limits.window = Some(window(CLOSED));
            limits.snooze_until = Some(ago(-snoozed));
        })
    };
    assert_eq!(both(3601).next(), "rest: snoozed");
    assert_eq!(both(3599).next(), "rest: outside_window");
    assert_eq!(both(3601).reason().ends_at(), Some(ago(-3601)));
}

#[test]
fn an_operator_who_names_a_delegate_waits_for_no_time() {
    let held = |limits: fn(&mut OwnerLimits), intent| {
        let scene = scene().serving(old()).published(V2).demanded(intent);
        scene.with(|rollout| limits(&mut rollout.limits)).next()
    };
    let pull = "pull harness/delegate:26.02.1";
    let asleep = |limits: &mut OwnerLimits| {
        limits.window = Some(window(CLOSED));
        limits.snooze_until = Some(ago(-3600));
    };
    let pinned = |limits: &mut OwnerLimits| limits.pin = "26.01".parse().ok();
    for (intent, limits, expected) in [
        (Intent::Retry, asleep as fn(&mut OwnerLimits), pull),
        (Intent::Retry, pinned, "rest: pinned"),
        (Intent::Rollback, asleep, pull),
        (Intent::Rollback, pinned, pull),
    ] {
        assert_eq!(held(limits, intent), expected, "{intent:?}");
    }
}
