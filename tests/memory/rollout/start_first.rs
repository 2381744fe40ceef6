//! The new one proves itself before the old one is asked to stop.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use delegate_upgrader::container::RunState;
use delegate_upgrader::health::{Health, HealthStatus, Probe};
use delegate_upgrader::reconcile::upgrade_run::Mode;
use delegate_upgrader::rollout::{Check, History};
use serde_json::json;

use super::host::{DRAIN, GROUP, HOUR, Host, NEW, NEWER, OLD, STOP_TIMEOUT, auto_remove, good, row};
use kit::twin::{Behaviour, Fault, Happened, Operation};

#[tokio::test(start_paused = true)]
async fn a_delegate_is_replaced_and_one_works_at_every_moment() {
    let host = Host::new();
    let old = host.run("dd");
    let report = host.once(NEW).await;

    assert!(!report.has_failures(), "{report:?}");
    assert_eq!(row(&report, "dd").reason.as_str(), "up_to_date");
    host.assert_settled_on("dd", NEW, "");
    assert_ne!(host.find("dd").id, old);
    assert_eq!(host.fewest_working(), 1);
    let (told, ended, code) = host.end_of(&old).unwrap();
    assert_eq!((ended - told, code), (DRAIN, 0), "the old one finishes its tasks");
}

#[tokio::test(start_paused = true)]
async fn the_old_one_is_asked_to_stop_only_when_the_new_one_was_healthy_long_enough() {
    let host = Host::new();
    let old = host.run("dd");
    host.once(NEW).await;
    let new = host.find("dd").id;
    let started = host
        .events_of(&new)
        .iter()
        .find(|e| e.what == Happened::Started)
        .unwrap()
        .at;
    let (told, ..) = host.end_of(&old).unwrap();
    // Five seconds until it is ready, ten seconds of health.
    assert!(told - started >= Duration::from_secs(15), "{:?}", told - started);
    assert!(told - started <= Duration::from_secs(20), "{:?}", told - started);
}

const NEWEST: &str = "harness/delegate:26.05.1";

/// What the owner brought is the owner's; of what we pulled the present one stays, and the one before it.
#[tokio::test(start_paused = true)]
async fn the_previous_image_is_kept_and_the_one_before_it_removed() {
    for change in [|_: &mut serde_json::Value| (), auto_remove] {
        let host = Host::new();
        host.run_with("dd", change);
        let first = host.twin.images();
        let published = [NEW, NEWER, NEWEST].map(|image| host.publish(image, good()));
        for (count, image) in [NEW, NEWER, NEWEST].into_iter().enumerate() {
            let report = host.once(image).await;
            assert!(!report.has_failures(), "{report:?}");
            let before = count.saturating_sub(1);
            let mut wanted = [&first[..], &published[before..=count]].concat();
            wanted.sort();
            let mut left = host.twin.images();
            left.sort();
            assert_eq!(left, wanted, "after {image}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_image_goes_with_its_evidence() {
    for change in [|_: &mut serde_json::Value| (), auto_remove] {
        let host = Host::new();
        host.run_with("dd", change);
        let bad = host.publish(NEW, Behaviour::never_healthy());
        host.publish(NEWER, good());
        host.once(NEW).await;
        assert!(host.twin.images().contains(&bad));
        host.once(NEWER).await;
        assert!(!host.twin.images().contains(&bad));
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_image_that_somebody_else_uses_stays() {
    let host = Host::new();
    host.run("dd");
    for image in [NEWER, NEWEST] {
        host.publish(image, good());
    }
    host.once(NEW).await;
    host.twin.run("bystander", &json!({ "Image": NEW }));
    for image in [NEWER, NEWEST] {
        let report = host.once(image).await;
        assert!(!report.has_failures(), "{report:?}");
    }
    assert_eq!(host.twin.images().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_auto_remove_delegate_is_replaced_too() {
    let host = Host::new();
    let old = host.run_with("dd", auto_remove);
    let report = host.once(NEW).await;
    assert!(!report.has_failures(), "{report:?}");
    assert_eq!(
        host.containers(),
        [("dd".to_owned(), RunState::Running, NEW.to_owned())]
    );
    assert_eq!(host.fewest_working(), 1);
    let (told, ended, code) = host.end_of(&old).unwrap();
    assert_eq!((ended - told, code), (DRAIN, 0));
    let document = host.twin.document("dd").unwrap();
    assert_eq!(document["HostConfig"]["AutoRemove"], json!(true));
}

#[tokio::test(start_paused = true)]
async fn the_stop_timeout_kills_one_that_does_not_heed_its_signal() {
    let host = Host::new();
    host.twin
        .add_image(OLD, host.twin.image(Behaviour::ignores_stop()));
    let old = host.run("dd");
    let report = host.once(NEW).await;
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on("dd", NEW, "");
    let (told, ended, code) = host.end_of(&old).unwrap();
    assert_eq!(code, 137);
    assert!(
        (ended - told).abs_diff(STOP_TIMEOUT) <= Duration::from_secs(2),
        "{:?}",
        ended - told
    );
}

#[tokio::test(start_paused = true)]
async fn a_delegate_s_own_stop_timeout_comes_before_the_setting() {
    let host = Host::new();
    host.twin
        .add_image(OLD, host.twin.image(Behaviour::ignores_stop()));
    let old = host.run_with("dd", |body| {
        body["Labels"] = json!({ "io.delegate-upgrader.stop-timeout": "60" });
    });
    host.once(NEW).await;
    let (told, ended, _) = host.end_of(&old).unwrap();
    assert!((ended - told).abs_diff(Duration::from_secs(60)) <= Duration::from_secs(2));
}

/// Its time begins when it hears of the stop, however long the engine takes to pass it on.
#[tokio::test(start_paused = true)]
async fn a_slow_engine_costs_a_draining_one_none_of_its_time() {
    let host = Host::new();
    host.twin
        .add_image(OLD, host.twin.image(Behaviour::ignores_stop()));
    let old = host.run("dd");
    let mut first = true;
    host.twin.set_faults(move |call| match call.operation {
        Operation::Stop if std::mem::take(&mut first) => Fault::Slow(Duration::from_secs(40)),
        _ => Fault::None,
    });
    host.once(NEW).await;
    let (told, ended, _) = host.end_of(&old).unwrap();
    assert!(ended - told >= STOP_TIMEOUT, "{:?}", ended - told);
}

/// Unobserved time is not counted: the host may have slept meanwhile.
#[test]
fn health_is_counted_up_to_the_last_observation() {
    let at = |seconds| DateTime::<Utc>::UNIX_EPOCH + TimeDelta::seconds(seconds);
    let healthy = Health {
        status: HealthStatus::Healthy,
        probe: Probe::Http,
        detail: String::new(),
        failed_checks: 0,
    };
    let mut history = History::default();
    for seconds in [100, 107] {
        history.record(at(seconds), &healthy, Some(at(90)), 0, Check::Done);
    }
    assert_eq!(history.healthy_for(at(107)), Some(Duration::from_secs(7)));
    assert_eq!(history.healthy_for(at(5_000)), Some(Duration::from_secs(7)));
}

/// `docker run --stop-timeout`: its owner knows how long its tasks are.
#[tokio::test(start_paused = true)]
async fn the_longer_one_of_two_stop_timeouts_counts() {
    for (own, expected) in [(2 * HOUR, 2 * HOUR), (Duration::from_secs(10), STOP_TIMEOUT)] {
        let host = Host::new();
        host.twin
            .add_image(OLD, host.twin.image(Behaviour::ignores_stop()));
        let old = host.run_with("dd", |body| body["StopTimeout"] = json!(own.as_secs()));
        host.once(NEW).await;
        let (told, ended, _) = host.end_of(&old).unwrap();
        assert!(
            (ended - told).abs_diff(expected) <= Duration::from_secs(2),
            "{own:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_replica_is_replaced_while_the_first_drains_an_hour() {
    let host = Host::new();
    host.twin.add_image(
        OLD,
        host.twin.image(Behaviour::drains(HOUR - Duration::from_secs(60))),
    );
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
async fn a_newer_release_goes_ahead_while_the_one_before_still_drains() {
    let host = Host::new();
    host.twin.add_image(
        OLD,
        host.twin.image(Behaviour::drains(HOUR - Duration::from_secs(60))),
    );
    let old = host.run("dd");
    host.publish(NEWER, good());
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    host.go_on(&mut upgrader, Duration::from_secs(120)).await;
    assert_eq!(host.find("dd").image, NEW);
    drop(upgrader);
    let report = host.once(NEWER).await;
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on("dd", NEWER, "");
    assert_eq!(host.fewest_working(), 1);
    assert_eq!(
        host.end_of(&old).unwrap().2,
        0,
        "the first one finishes its tasks"
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_run_changes_nothing_and_asks_little() {
    let host = Host::new();
    host.run("dd");
    for stranger in 0..100 {
        host.twin.run(
            &format!("stranger-{stranger}"),
            &json!({ "Image": OLD, "Env": ["A=b"] }),
        );
    }
    let mut upgrader = host.upgrader(NEW);
    host.scheduled_run(&mut upgrader).await;
    let inspected = |name: &str| {
        host.twin
            .calls()
            .iter()
            .filter(|call| call.operation == Operation::Inspect && call.subject == name)
            .count()
    };
    let (calls, writes) = (host.twin.calls().len(), host.twin.writes().len());
    for _ in 0..3 {
        host.scheduled_run(&mut upgrader).await;
    }
    assert_eq!(host.twin.writes().len(), writes);
    assert!(
        host.twin.calls().len() - calls < 20,
        "{}",
        host.twin.calls().len() - calls
    );
    for stranger in 0..100 {
        assert_eq!(inspected(&format!("stranger-{stranger}")), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_successor_is_labelled_with_what_it_replaces() {
    let host = Host::new();
    let old = host.run("dd");
    host.publish(NEWER, good());
    host.once(NEW).await;
    let labels = |name: &str| host.twin.document(name).unwrap()["Config"]["Labels"].clone();
    let first = labels("dd");
    assert_eq!(first["io.delegate-upgrader.replaces"], json!(old.as_str()));
    assert_eq!(first["io.delegate-upgrader.release"], json!("1"));
    assert_eq!(first["io.delegate-upgrader.previous-image"], json!(OLD));
    let new = host.find("dd").id;
    host.once(NEWER).await;
    let second = labels("dd");
    assert_eq!(second["io.delegate-upgrader.replaces"], json!(new.as_str()));
    assert_eq!(second["io.delegate-upgrader.release"], json!("2"));
    assert_eq!(
        second.as_object().unwrap().len(),
        first.as_object().unwrap().len()
    );
    assert_eq!(
        host.twin.document("dd").unwrap()["Config"]["Env"][0],
        json!(format!("DELEGATE_NAME={GROUP}"))
    );
}

/// The registry stands still for a minute. An old one that ends meanwhile is seen to at once.
#[tokio::test(start_paused = true)]
async fn a_pull_that_stands_still_holds_up_nothing_else() {
    let host = Host::new();
    host.publish(NEWER, good());
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut upgrader, DRAIN).await.is_none());
    assert!(
        host.names().iter().any(|name| name.contains("draining")),
        "{:?}",
        host.names()
    );
    host.twin.set_faults(|call| match call.operation {
        Operation::Pull => Fault::Hang,
        _ => Fault::None,
    });
    let mut later = host.upgrader(NEWER);
    later.start_run(Mode::Upgrade);
    assert!(
        host.go_on(&mut later, Duration::from_secs(45)).await.is_none(),
        "the pull has ended"
    );
    assert_eq!(
        host.names(),
        ["dd"],
        "the drained one was not removed while the pull stood still"
    );
    host.twin.clear_faults();
    let report = host.finish(&mut later).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "pull_failed");
    host.once(NEWER).await;
    host.assert_settled_on("dd", NEWER, "the next pass");
}
