//! The new container proves itself before the old one is asked to stop.

use std::time::Duration;

use serde_json::{Value, json};

use super::host::{DRAIN, HOUR, Host, NEW, NEWER, OLD, STOP_TIMEOUT, auto_remove, good, row};
use kit::twin::{Behaviour, Fault, Happened, Operation};

const NEWEST: &str = "harness/delegate:26.05.1";
/// Nearly an hour.
const LONG_DRAIN: Duration = Duration::from_secs(3540);

#[tokio::test(start_paused = true)]
async fn a_working_delegate_is_always_in_service_during_a_replacement() {
    for change in [|_: &mut Value| (), auto_remove] {
        let host = Host::new();
        let old = host.run_with("dd", change);
        let is_fleeting = host.is_fleeting("dd");
        let report = host.upgrade(NEW).await;
        assert_eq!(row(&report, "dd").reason.as_str(), "up_to_date");
        assert_eq!(host.is_fleeting("dd"), is_fleeting);
        assert_ne!(host.find("dd").id, old);
        assert_eq!(host.fewest_working(), 1);
        let (told, ended, code) = host.end_of(&old).unwrap();
        assert_eq!((ended - told, code), (DRAIN, 0), "the old one finishes its tasks");
        let started = host.first(&host.find("dd").id, &Happened::Started);
        // Five seconds until it is ready, and ten seconds of health.
        let proof = (told - started).as_secs_f64();
        assert!((15.0..20.0).contains(&proof), "{proof}");
    }
}

/// The owner's images stay; of the pulled images, the current one stays, and as many former ones as the setting says.
#[tokio::test(start_paused = true)]
async fn keeps_as_many_previous_images_as_configured() {
    let as_it_is = |_: &mut Value| ();
    for (keep_images, change) in [(1, as_it_is as fn(&mut Value)), (1, auto_remove), (2, as_it_is)] {
        let mut host = Host::new();
        host.settings.scope.keep_images = keep_images;
        host.run_with("dd", change);
        let first = host.twin.images();
        let published = [NEW, NEWER, NEWEST].map(|image| host.publish(image, good()));
        for (count, image) in [NEW, NEWER, NEWEST].into_iter().enumerate() {
            host.upgrade(image).await;
            let before = count.saturating_sub(keep_images);
            let mut wanted = [&first[..], &published[before..=count]].concat();
            wanted.sort();
            let mut left = host.twin.images();
            left.sort();
            assert_eq!(left, wanted, "{keep_images} kept, after {image}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn removes_a_rejected_image_with_its_evidence() {
    let host = Host::new();
    host.run("dd");
    let bad = host.publish(NEW, Behaviour::never_healthy());
    host.publish(NEWER, good());
    assert_eq!(host.reason(NEW).await, "rejected");
    assert!(host.twin.images().contains(&bad));
    host.upgrade(NEWER).await;
    assert!(!host.twin.images().contains(&bad));
}

/// The label overrides the setting; the longer of the setting and `docker run --stop-timeout` counts, up to the bound.
#[tokio::test(start_paused = true)]
async fn kills_a_container_that_ignores_its_stop_signal_at_the_timeout() {
    let label = "io.delegate-upgrader.stop-timeout";
    let cases = [
        (json!({}), STOP_TIMEOUT, ""),
        (
            json!({ "Labels": { label: "60" } }),
            Duration::from_secs(60),
            "up to 1m to finish its tasks, by its label",
        ),
        (
            json!({ "StopTimeout": 7200 }),
            2 * HOUR,
            "up to 2h to finish its tasks, by its own stop timeout",
        ),
        (json!({ "StopTimeout": 10 }), STOP_TIMEOUT, ""),
        (
            json!({ "StopTimeout": 86400 }),
            3 * HOUR,
            "up to 3h to finish its tasks, by MAX_STOP_TIMEOUT",
        ),
        (
            json!({ "Labels": { label: "5h" } }),
            3 * HOUR,
            "up to 3h to finish its tasks, by MAX_STOP_TIMEOUT",
        ),
    ];
    for (change, expected, said) in cases {
        let mut host = Host::new();
        host.settings.scope.max_stop_timeout = Some(3 * HOUR);
        host.twin.set_behaviour(OLD, &Behaviour::ignores_stop());
        let old = host.run_with("dd", |body| {
            for (key, value) in change.as_object().unwrap() {
                body[key] = value.clone();
            }
        });
        let plan = host.upgrader(NEW).plan(|_| ()).await.unwrap();
        assert!(plan[0].message.contains(said), "{}", plan[0].message);
        assert_eq!(plan[0].message.contains("to finish"), !said.is_empty());
        host.upgrade(NEW).await;
        let (told, ended, code) = host.end_of(&old).unwrap();
        assert_eq!(code, 137);
        let off = (ended - told).abs_diff(expected);
        assert!(off <= Duration::from_secs(2), "{change}: {:?}", ended - told);
    }
}

/// A label of a million years would overflow every sum of times, and a container's own `-1` means "however long it takes".
#[tokio::test(start_paused = true)]
async fn owner_set_timeouts_are_capped_at_thirty_days() {
    const EPOCHS: &str = "31536000000000";
    let label = |name: &str, value| json!({ "Labels": { format!("io.delegate-upgrader.{name}"): value } });
    let its_own = "up to 30d to finish its tasks, by its own stop timeout";
    for (change, said) in [
        (
            label("stop-timeout", EPOCHS),
            "up to 30d to finish its tasks, by its label",
        ),
        (label("healthy-deadline", EPOCHS), ""),
        (
            json!({ "StopTimeout": -1 }),
            "by its own stop timeout, which has no end",
        ),
        (json!({ "StopTimeout": i64::MAX }), its_own),
    ] {
        let host = Host::new();
        let long = STOP_TIMEOUT * 2;
        host.twin.set_behaviour(OLD, &Behaviour::drains(long));
        let old = host.run_with("dd", |body| {
            for (key, value) in change.as_object().unwrap() {
                body[key] = value.clone();
            }
        });
        let plan = host.upgrader(NEW).plan(|_| ()).await.unwrap();
        assert!(plan[0].message.contains(said), "{}", plan[0].message);
        host.upgrade(NEW).await;
        let (told, ended, code) = host.end_of(&old).unwrap();
        let expected = if said.is_empty() {
            (137, STOP_TIMEOUT)
        } else {
            (0, long)
        };
        assert_eq!(code, expected.0, "{change}");
        assert!(
            (ended - told).abs_diff(expected.1) < Duration::from_secs(2),
            "{change}"
        );
    }
}

/// Its time starts when it receives the signal, however long the engine takes to pass the request on.
#[tokio::test(start_paused = true)]
async fn a_slow_engine_does_not_shorten_a_drain() {
    let host = Host::new();
    host.twin.set_behaviour(OLD, &Behaviour::ignores_stop());
    let old = host.run("dd");
    let mut first = true;
    host.fault_where(Fault::Slow(Duration::from_secs(40)), move |call| {
        call.operation == Operation::Stop && std::mem::take(&mut first)
    });
    host.once(NEW).await;
    let (told, ended, _) = host.end_of(&old).unwrap();
    assert!(ended - told >= STOP_TIMEOUT, "{:?}", ended - told);
}

#[tokio::test(start_paused = true)]
async fn replaces_the_next_replica_while_the_first_drains_an_hour() {
    let host = Host::new();
    host.twin.set_behaviour(OLD, &Behaviour::drains(LONG_DRAIN));
    let (a, b) = (host.run("aa"), host.run("bb"));
    let report = host.once(NEW).await;
    assert!(!report.has_failures(), "{report:?}");
    let (told_a, ended_a, code_a) = host.end_of(&a).unwrap();
    let (told_b, _, code_b) = host.end_of(&b).unwrap();
    assert!(told_b < told_a + Duration::from_secs(60), "{told_a:?} {told_b:?}");
    assert!(told_b < ended_a);
    assert_eq!((code_a, code_b), (0, 0));
    assert_eq!(host.fewest_working(), 2);
}

#[tokio::test(start_paused = true)]
async fn upgrades_to_a_newer_release_while_the_previous_one_still_drains() {
    let host = Host::new();
    host.twin.set_behaviour(OLD, &Behaviour::drains(LONG_DRAIN));
    let old = host.run("dd");
    host.publish(NEWER, good());
    let mut upgrader = host.starting(NEW);
    host.continue_for(&mut upgrader, Duration::from_secs(120)).await;
    assert_eq!(host.find("dd").image, NEW);
    drop(upgrader);
    host.upgrade(NEWER).await;
    assert_eq!(host.fewest_working(), 1);
    assert_eq!(
        host.end_of(&old).unwrap().2,
        0,
        "the first one finishes its tasks"
    );
}

/// The registry does not answer for a minute. An old container that ends meanwhile is still removed at once.
#[tokio::test(start_paused = true)]
async fn removes_a_drained_container_while_a_pull_hangs() {
    let host = Host::new();
    host.publish(NEWER, good());
    host.run("dd");
    let _upgrader = host.begin(NEW, DRAIN).await;
    let is_draining = |name: &String| name.contains("draining");
    assert!(host.names().iter().any(is_draining), "{:?}", host.names());
    host.fault(Operation::Pull, Fault::Hang);
    let mut later = host.starting(NEWER);
    let outcome = host.continue_for(&mut later, Duration::from_secs(45)).await;
    assert!(outcome.is_none(), "the pull has ended");
    assert_eq!(host.names(), ["dd"]);
    host.twin.clear_faults();
    let report = host.finish(&mut later).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "pull_failed");
    host.upgrade(NEWER).await;
}

#[tokio::test(start_paused = true)]
async fn keeps_an_older_image_that_another_container_uses() {
    let host = Host::new();
    host.run("dd");
    for image in [NEWER, NEWEST] {
        host.publish(image, good());
    }
    host.once(NEW).await;
    host.twin.run("bystander", &json!({ "Image": NEW }));
    for image in [NEWER, NEWEST] {
        assert!(!host.once(image).await.has_failures());
    }
    assert_eq!(host.twin.images().len(), 4);
}
