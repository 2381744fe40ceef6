//! What the engine remembers holds a replacement back: a pause, and when an image was first seen.

use delegate_upgrader::config::Timing;
use delegate_upgrader::host::hold::{Holds, Paused};
use delegate_upgrader::rollout::Intent;
use delegate_upgrader::schedule::wave::{Place, Wave};

use super::scene::{Change, Scene, V2, ago, holds, old};

const PULL: &str = "pull harness/delegate:26.02.1";
const HOUR: u64 = 3600;

fn base() -> Scene {
    Scene::new().serving(old()).published(V2)
}

fn remembering(change: impl FnOnce(&mut Holds)) -> Scene {
    let mut holds = holds();
    change(&mut holds);
    base().knowing(|facts| facts.holds = Some(Ok(holds)))
}

fn paused(until: Option<i64>) -> Scene {
    let pause = Paused {
        since: ago(60),
        until: until.map(|seconds| ago(-seconds)),
    };
    remembering(|holds| holds.pause = Some(pause))
}

fn delay(hours: u64) -> Timing {
    Timing {
        delay: std::time::Duration::from_secs(hours * HOUR),
        ..Timing::default()
    }
}

fn wave(text: &str) -> Timing {
    Timing {
        wave: text.parse().ok(),
        ..Timing::default()
    }
}

fn with(scene: Scene, timing: Timing) -> Scene {
    scene.policy(|policy| policy.timing = timing)
}

#[test]
fn nothing_begins_while_changes_are_paused() {
    assert_eq!(paused(None).next(), "rest: paused");
    assert_eq!(
        paused(None).reason().to_string(),
        "harness/delegate:26.02.1 is published, but changes are paused until somebody resumes them; see \
         `delegate-upgrader resume`"
    );
    assert_eq!(paused(None).reason().ends_at(), None);
    assert_eq!(paused(Some(1)).next(), "rest: paused");
    assert_eq!(paused(Some(1)).reason().ends_at(), Some(ago(-1)));
    assert_eq!(paused(Some(0)).next(), PULL, "it is over");
    // Nor after the pull.
    let pulled = Scene::new().serving(old()).pulled(V2);
    let holds = paused(None).facts.holds;
    assert_eq!(pulled.knowing(|facts| facts.holds = holds).next(), "rest: paused");
}

#[test]
fn an_operator_who_names_a_delegate_does_not_wait_for_that() {
    assert_eq!(paused(None).demanded(Intent::Retry).next(), PULL);
    let staged = with(remembering(|holds| holds.first_seen = None), delay(1));
    assert_eq!(staged.demanded(Intent::Retry).next(), PULL);
}

#[test]
fn it_is_asked_for_only_where_something_would_begin() {
    let unknown = || base().knowing(|facts| facts.holds = None);
    assert_eq!(
        unknown().next(),
        "find out whether changes are paused on this host"
    );
    let asleep = unknown().with(|rollout| rollout.limits.snooze_until = Some(ago(-60)));
    assert_eq!(asleep.next(), "rest: snoozed");
    let current = Scene::new().serving(old()).knowing(|facts| facts.holds = None);
    assert_eq!(current.next(), "rest: awaiting_schedule");
    // With a delay, the time runs from the first sight on, whatever else it waits for.
    let staged = || with(unknown(), delay(1)).with(|rollout| rollout.limits.snooze_until = Some(ago(-60)));
    assert_eq!(
        staged().next(),
        "find out whether changes are paused on this host"
    );
}

#[test]
fn where_it_cannot_be_read_nothing_is_paused_but_no_delay_can_be_kept() {
    let refused = || base().knowing(|facts| facts.holds = Some(Err("403 Forbidden".to_owned())));
    assert_eq!(refused().next(), PULL);
    assert_eq!(with(refused(), delay(1)).next(), "rest: first_seen_unknown");
    assert_eq!(with(refused(), wave("10%")).next(), "rest: first_seen_unknown");
}

#[test]
fn an_image_is_taken_once_it_has_been_seen_for_the_delay() {
    let seen = |seconds, hours| {
        with(
            remembering(|holds| holds.first_seen = Some(ago(seconds))),
            delay(hours),
        )
    };
    assert_eq!(seen(3599, 1).next(), "rest: delayed");
    assert_eq!(seen(3600, 1).next(), PULL);
    assert_eq!(
        seen(60, 1).reason().to_string(),
        "harness/delegate:26.02.1 is published; with UPGRADE_DELAY it begins at 2027-01-15T08:59:00Z, since it was first \
         seen at 2027-01-15T07:59:00Z"
    );
    assert_eq!(seen(60, 1).reason().ends_at(), Some(ago(60 - 3600)));
    let new = || with(remembering(|holds| holds.first_seen = None), delay(1));
    assert_eq!(new().next(), "note that harness/delegate:26.02.1 is first seen");
    // A plan notes nothing.
    assert_eq!(
        new().knowing(|facts| facts.is_plan = true).next(),
        "rest: delayed"
    );
    // Without a delay, nothing is noted.
    assert_eq!(remembering(|holds| holds.first_seen = None).next(), PULL);
}

#[test]
fn in_a_wave_each_host_begins_at_its_place() {
    let place = Place::of("host", "image");
    let waits = |text: &str| {
        let wave: Wave = text.parse().unwrap();
        wave.wait(place).num_seconds()
    };
    for text in ["auto", "10%", "100%"] {
        let seen = |seconds| {
            with(
                remembering(|holds| holds.first_seen = Some(ago(seconds))),
                wave(text),
            )
        };
        assert_eq!(seen(waits(text) - 1).next(), "rest: awaiting_wave", "{text}");
        assert_eq!(seen(waits(text)).next(), PULL, "{text}");
        // The delay comes first.
        let both = |seconds| {
            let scene = seen(seconds);
            scene.policy(|policy| policy.timing.delay = delay(1).delay)
        };
        assert_eq!(both(waits(text) + 3599).next(), "rest: awaiting_wave", "{text}");
        assert_eq!(both(waits(text) + 3600).next(), PULL, "{text}");
    }
}

#[test]
fn an_expired_version_waits_for_no_wave_where_that_is_set_but_for_the_delay() {
    let runs = |timing: Timing| {
        let timing = Timing {
            now_if_expired: true,
            ..timing
        };
        let scene = remembering(|holds| holds.first_seen = Some(ago(60)));
        with(scene.serving(old().image("harness/delegate:24.04.1")), timing).next()
    };
    assert_eq!(runs(wave("1%")), PULL);
    assert_eq!(runs(delay(1)), "rest: delayed");
}
