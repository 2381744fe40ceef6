//! Every kind of bad image, in each way of replacement, with a run every second, and the process killed at each call that
//! changes something: the image is tried once, and again only when its quarantine is over.

use std::collections::BTreeSet;
use std::time::Duration;

use delegate_upgrader::container::{ImageId, RunState};
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::Intent;

use super::faults::{Way, killed_during, stride};
use super::host::{HOUR, Host, NEW, OLD, READY, Upgrader, good};
use kit::twin::{Behaviour, Call, Happened, Wellness};

const SECOND: Duration = Duration::from_secs(1);

/// Ten kinds of image that no delegate can run. The last two fail after they have taken over, while the old container
/// drains; if the old one would have ended by then, they fail just before they take over.
fn kinds(way: Way) -> [(&'static str, Behaviour); 10] {
    let fails = SECOND * if way == Way::Fleeting { 30 } else { 12 };
    let is_ill = SECOND * if way == Way::StartFirst { 30 } else { 12 };
    let ready = |behaviour| Behaviour {
        ready_after: READY,
        ..behaviour
    };
    let health = |health| good().with_health(health);
    [
        (
            "cannot be started",
            good().refused("exec: /delegate: no such file"),
        ),
        ("fails at once", Behaviour::exits(Duration::ZERO, 3)),
        (
            "ends at once, without an error",
            Behaviour::exits(Duration::ZERO, 0),
        ),
        ("fails soon", Behaviour::exits(SECOND * 2, 1)),
        (
            "fails while it proves itself",
            ready(Behaviour::exits(SECOND * 8, 1)),
        ),
        ("is never healthy", Behaviour::never_healthy()),
        ("is healthy too late", Behaviour::slow(HOUR)),
        (
            "is healthy now and then",
            Behaviour::flaps(SECOND * 6, SECOND * 4),
        ),
        ("fails late", ready(Behaviour::exits(fails, 3))),
        ("is unhealthy late", health(Wellness::For(is_ill - READY))),
    ]
}

/// A run every second for a minute, and then every ten seconds, for five minutes in all. A run joins one in progress.
async fn many_runs(host: &Host, upgrader: &mut Upgrader) {
    for tick in 0..84 {
        let pause = if tick < 60 { SECOND } else { SECOND * 10 };
        let next = host.twin.elapsed() + pause;
        upgrader.start_run(Intent::Upgrade);
        host.continue_for(upgrader, pause).await;
        tokio::time::sleep(next.saturating_sub(host.twin.elapsed())).await;
    }
}

/// The number of candidates of the new image.
pub fn attempts(host: &Host, image: &ImageId) -> usize {
    let events = host.twin.events();
    let created = events.iter().filter(|event| {
        event.what == Happened::Created && event.image == image.as_str() && event.name == "dd.candidate"
    });
    created.map(|event| &event.id).collect::<BTreeSet<_>>().len()
}

async fn assert_tried_once(host: &Host, way: Way, image: &ImageId, context: &str) {
    let containers = host.containers();
    let serving = ("dd".to_owned(), RunState::Running, OLD.to_owned());
    assert!(containers.contains(&serving), "{context}: {containers:?}");
    assert_eq!(host.is_fleeting("dd"), way.is_fleeting(), "{context}");
    assert_eq!(host.names(), ["dd", "dd.failed-1"], "{context}");
    // Nearly the whole quarantine.
    tokio::time::sleep(HOUR * 3 / 4).await;
    host.scheduled_run(&mut host.upgrader(NEW)).await;
    assert_eq!(attempts(host, image), 1, "{context}: {:#?}", host.twin.writes());
}

/// Kills the process at some writes, at different ones for each kind of image, and at more of them if the image cannot be
/// started: with `--rm`, a refused start leaves nothing behind.
async fn tried_once_in_each_quarantine(way: Way) {
    for (number, (kind, behaviour)) in kinds(way).into_iter().enumerate() {
        let step = stride(if number == 0 { 2 } else { 12 });
        for k in (number % step..).step_by(step) {
            let context = format!("{way:?}, an image that {kind}, killed at write {k}");
            let host = way.host();
            let image = host.publish(NEW, behaviour.clone());
            let mut writes = 0;
            let is_time = move |call: &Call| {
                writes += usize::from(call.is_write());
                writes > k && call.is_write()
            };
            let mut first = host.upgrader(NEW);
            let killed = killed_during(&host, is_time, many_runs(&host, &mut first)).await;
            drop(first);
            if killed {
                many_runs(&host, &mut host.upgrader(NEW)).await;
                assert_tried_once(&host, way, &image, &context).await;
                continue;
            }
            assert!(k > 3, "{context}");
            assert_tried_once(&host, way, &image, &context).await;
            // An hour later it is tried again, and then two hours later.
            tokio::time::sleep(HOUR / 4).await;
            many_runs(&host, &mut host.upgrader(NEW)).await;
            assert_eq!(host.names(), ["dd", "dd.failed-2"], "{context}");
            tokio::time::sleep(HOUR * 3 / 2).await;
            host.scheduled_run(&mut host.upgrader(NEW)).await;
            assert_eq!(attempts(&host, &image), 2, "{context}");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_image_is_tried_once_per_quarantine() {
    for way in Way::ALL {
        tried_once_in_each_quarantine(way).await;
    }
}
