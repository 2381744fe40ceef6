//! When a replacement may start: the labels of the owner, windows, pauses, delays and waves.

use std::time::Duration;

use chrono::{DateTime, Utc};
use delegate_upgrader::config::Timing;
use delegate_upgrader::container::Request;
use delegate_upgrader::host::hold::{Holds, Paused};
use delegate_upgrader::rollout::{Intent, InvalidLabel, OwnerSettings};
use delegate_upgrader::schedule::wave::{Place, Wave};
use delegate_upgrader::schedule::window::UpgradeWindow;
use delegate_upgrader::schedule::zone::Zone;

use super::scene::{Change, Scene, V2, ago, check, holds, new, now, old};

const PULL: &str = "pull: pull harness/delegate:26.02.1";
const UNKNOWN: &str = "holds_unknown: find out holds";
const PINNED: &str = "blocked: rest, pinned";
const SNOOZED: &str = "blocked: rest, snoozed";
const OUTSIDE: &str = "blocked: rest, outside_window";
const PAUSED: &str = "blocked: rest, paused";
const DELAYED: &str = "blocked: rest, delayed";
const WAVE: &str = "blocked: rest, awaiting_wave";
const UNSEEN: &str = "first_seen: note that harness/delegate:26.02.1 is first seen";

/// The tests play at 08:00 on a Friday.
const OPEN: &str = "Fri 07:00-09:00";
const CLOSED: &str = "Fri 09:00-10:00";
const HOUR: u64 = 3600;

fn window(text: &str) -> UpgradeWindow {
    UpgradeWindow::parse(text, Zone::utc()).unwrap()
}

fn base() -> Scene {
    Scene::new().serving(old()).published(V2)
}

trait Permission {
    fn owner(self, change: impl FnOnce(&mut OwnerSettings)) -> Self;
    fn timing(self, change: impl FnOnce(&mut Timing)) -> Self;
    fn holds(self, change: impl FnOnce(&mut Holds)) -> Self;
}

impl Permission for Scene {
    fn owner(self, change: impl FnOnce(&mut OwnerSettings)) -> Self {
        self.with(|rollout| change(&mut rollout.owner))
    }

    fn timing(self, change: impl FnOnce(&mut Timing)) -> Self {
        self.policy(|policy| change(&mut policy.timing))
    }

    fn holds(self, change: impl FnOnce(&mut Holds)) -> Self {
        let mut holds = holds();
        change(&mut holds);
        self.knowing(|facts| facts.holds = Some(Ok(holds)))
    }
}

fn paused(until: Option<i64>) -> Scene {
    let until = until.map(|seconds| ago(-seconds));
    base().holds(|holds| {
        holds.pause = Some(Paused {
            since: ago(60),
            until,
            ..Paused::default()
        });
    })
}

fn closed() -> Scene {
    base().timing(|timing| timing.window = Some(window(CLOSED)))
}

fn delayed(hours: u64) -> Scene {
    base().timing(|timing| timing.delay = Duration::from_secs(hours * HOUR))
}

fn waved(text: &str) -> Scene {
    base().timing(|timing| timing.wave = text.parse().ok())
}

fn snoozed(scene: Scene, seconds: i64) -> Scene {
    scene.owner(|owner| owner.snooze_until = Some(ago(-seconds)))
}

fn pinned(scene: Scene, version: &str) -> Scene {
    scene.owner(|owner| owner.pin = version.parse().ok())
}

#[test]
fn the_owners_window_overrides_the_administrators() {
    assert_eq!(now(), "2027-01-15T08:00:00Z".parse::<DateTime<Utc>>().unwrap());
    let open = || base().timing(|timing| timing.window = Some(window(OPEN)));
    check(vec![
        (base(), PULL),
        (open(), PULL),
        (closed(), OUTSIDE),
        (closed().pulled(V2), OUTSIDE),
        (closed().owner(|owner| owner.window = Some(window(OPEN))), PULL),
        (open().owner(|owner| owner.window = Some(window(CLOSED))), OUTSIDE),
    ]);
    let words = "harness/delegate:26.02.1 is published; waiting for the window Fri 09:00-10:00, which opens at \
                 2027-01-15T09:00:00Z";
    assert_eq!(closed().reason().to_string(), words);
}

#[test]
fn finishes_started_replacement_at_any_time() {
    let begun = snoozed(pinned(closed(), "26.01"), 3600)
        .pulled(V2)
        .candidate(new());
    check(vec![(begun, "candidate_start: start new")]);
}

#[test]
fn an_expired_version_can_skip_windows_and_waves_if_configured() {
    let runs = |scene: Scene, released: &str, now_if_expired| {
        let old = old().image("harness/delegate:26.04.1");
        let scene = scene.serving(old.change(|m| m.image.note_release(released.parse().ok())));
        scene.timing(|timing| timing.now_if_expired = now_if_expired)
    };
    let expired = |scene| runs(scene, "2026-05-14", true);
    let own_window = base().owner(|owner| owner.window = Some(window(CLOSED)));
    let seen = |scene: Scene| scene.holds(|holds| holds.first_seen = Some(ago(60)));
    check(vec![
        (expired(closed()), PULL),
        (expired(own_window), PULL),
        (runs(closed(), "2026-05-15", true), OUTSIDE),
        // By its tag, its life ended with December 2026. That is not certain.
        (runs(closed(), "unknown", true), OUTSIDE),
        (runs(closed(), "2026-05-14", false), OUTSIDE),
        (expired(seen(waved("1%"))), PULL),
        // This does not lift a reason about the image, or a request for this time.
        (expired(seen(delayed(1))), DELAYED),
        (expired(snoozed(base(), 60)), SNOOZED),
        (expired(pinned(base(), "26.01")), PINNED),
    ]);
}

#[test]
fn labels_of_the_owner_hold_a_delegate_back() {
    let invalid = pinned(base(), "26.01").owner(|owner| {
        owner.invalid = Some(InvalidLabel {
            label: "io.delegate-upgrader.snooze-until",
            value: "soon".to_owned(),
            accepted: "a date",
        });
    });
    assert!(invalid.reason().is_failure());
    check(vec![
        (snoozed(base(), 60), SNOOZED),
        (snoozed(base(), 0), PULL),
        (pinned(base(), "26.01"), PINNED),
        (pinned(base(), "26.02"), PULL),
        (invalid, "blocked: rest, invalid_label"),
    ]);
}

/// The order is the table's, and each blocker has its own end.
#[test]
fn all_applicable_reasons_are_given() {
    let scene = paused(None).timing(|timing| timing.window = Some(window(CLOSED)));
    let scene = snoozed(scene, 60)
        .failed(1, new().id("f1").policy("no").exited(600))
        .knowing(|facts| facts.run.next_run = Some(ago(-900)))
        .demanded(Intent::Report);
    let blockers = scene.blockers();
    let listed: Vec<_> = blockers
        .iter()
        .map(|it| (it.reason.kind().as_str(), it.until))
        .collect();
    let expected = [
        ("quarantined", Some(ago(-3000))),
        ("snoozed", Some(ago(-60))),
        ("paused", None),
        ("outside_window", Some(ago(-3600))),
        ("awaiting_schedule", Some(ago(-900))),
    ];
    assert_eq!(listed, expected);
    check(vec![(scene, "blocked: rest, quarantined")]);
}

#[test]
fn an_operators_explicit_request_does_not_wait() {
    let retry = |scene: Scene| scene.demanded(Intent::Retry(Request::default()));
    let rollback = |scene: Scene| scene.demanded(Intent::Rollback(Request::default()));
    check(vec![
        (retry(snoozed(closed(), 3600)), PULL),
        (retry(paused(None)), PULL),
        (retry(delayed(1).holds(|holds| holds.first_seen = None)), PULL),
        (retry(pinned(base(), "26.01")), PINNED),
        (rollback(snoozed(closed(), 3600)), PULL),
        (rollback(paused(None)), PULL),
        (rollback(pinned(base(), "26.01")), PULL),
    ]);
}

#[test]
fn starts_nothing_while_paused() {
    check(vec![
        (paused(None), PAUSED),
        (paused(Some(1)), PAUSED),
        (paused(Some(0)), PULL),
        (paused(None).pulled(V2), PAUSED),
    ]);
    assert_eq!(paused(None).reason().ends_at(), None);
    assert_eq!(paused(Some(1)).reason().ends_at(), Some(ago(-1)));
}

#[test]
#[rustfmt::skip]
fn reads_host_records_only_if_a_replacement_would_start() {
    let unknown = |scene: Scene| scene.knowing(|facts| facts.holds = None);
    check(vec![
        (unknown(base()), UNKNOWN),
        (unknown(snoozed(base(), 60)), SNOOZED),
        (unknown(Scene::new().serving(old())), "blocked: rest, awaiting_schedule"),
        // With a delay, the time runs from the first sight, whatever else the delegate waits for.
        (unknown(snoozed(delayed(1), 60)), UNKNOWN),
    ]);
}

#[test]
fn unreadable_records_mean_no_pause_but_block_a_delay() {
    let refused = |scene: Scene| scene.knowing(|facts| facts.holds = Some(Err("403 Forbidden".to_owned())));
    check(vec![
        (refused(base()), PULL),
        (refused(delayed(1)), "blocked: rest, first_seen_unknown"),
        (refused(waved("10%")), "blocked: rest, first_seen_unknown"),
    ]);
}

#[test]
fn an_image_is_taken_once_it_has_been_seen_for_the_delay() {
    let seen = |scene: Scene, seconds: i64| scene.holds(|holds| holds.first_seen = Some(ago(seconds)));
    let unseen = |scene: Scene| scene.holds(|holds| holds.first_seen = None);
    check(vec![
        (seen(delayed(1), 3599), DELAYED),
        (seen(delayed(1), 3600), PULL),
        (unseen(delayed(1)), UNSEEN),
        (unseen(delayed(1)).knowing(|facts| facts.is_plan = true), DELAYED),
        (unseen(base()), PULL),
    ]);
    assert_eq!(seen(delayed(1), 60).reason().ends_at(), Some(ago(60 - 3600)));
}

#[test]
fn a_hosts_wait_in_a_wave_starts_after_the_delay() {
    for text in ["auto", "10%", "100%"] {
        let wave: Wave = text.parse().unwrap();
        let place = wave.wait(Place::of("host", "image")).num_seconds();
        let seen = |hours: u64, seconds: i64| {
            let scene = waved(text).timing(|timing| timing.delay = Duration::from_secs(hours * HOUR));
            scene.holds(|holds| holds.first_seen = Some(ago(seconds)))
        };
        check(vec![
            (seen(0, place - 1), WAVE),
            (seen(0, place), PULL),
            (seen(1, place + 3599), WAVE),
            (seen(1, place + 3600), PULL),
        ]);
    }
}
