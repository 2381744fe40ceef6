//! `retry` and `rollback`: what an operator asks for one delegate.

use std::time::Duration;

use delegate_upgrader::reconcile::operator::OperatorError;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use serde_json::json;

use super::host::{DRAIN, HOUR, Host, NEW, NEWER, OLD, auto_remove, good, host_network, row};
use kit::twin::Behaviour;

const LATEST: &str = "harness/delegate:latest";

async fn rolled_back(
    host: &Host,
    name: &str,
) -> Result<delegate_upgrader::status::report::Report, OperatorError> {
    let mut upgrader = host.upgrader(NEW);
    upgrader.rollback(name).await?;
    Ok(host.finish(&mut upgrader).await)
}

async fn retried(
    host: &Host,
    name: &str,
) -> Result<delegate_upgrader::status::report::Report, OperatorError> {
    let mut upgrader = host.upgrader(NEW);
    upgrader.retry(name).await?;
    Ok(host.finish(&mut upgrader).await)
}

#[tokio::test(start_paused = true)]
async fn a_rollback_restores_the_previous_image_until_a_newer_one_is_published() {
    for change in [|_: &mut serde_json::Value| (), host_network] {
        let host = Host::new();
        host.publish(NEWER, good());
        host.run_with("dd", change);
        host.once(NEW).await;
        let report = rolled_back(&host, "dd").await.unwrap();
        assert!(row(&report, "dd").runs_the_target(), "{report:?}");
        host.assert_settled_on("dd", OLD, "");
        // Whatever run comes.
        for _ in 0..3 {
            let report = host.once(NEW).await;
            assert_eq!(row(&report, "dd").reason.as_str(), "rolled_back");
            assert!(!report.has_failures());
            tokio::time::sleep(HOUR * 24).await;
        }
        host.assert_settled_on("dd", OLD, "");
        host.once(NEWER).await;
        host.assert_settled_on("dd", NEWER, "");
    }
}

#[tokio::test(start_paused = true)]
async fn a_daemon_at_work_beside_it_does_not_undo_a_rollback() {
    let host = Host::new();
    host.run("dd");
    let mut daemon = host.upgrader(NEW);
    host.scheduled_run(&mut daemon).await;
    let mut rollback = host.upgrader(NEW);
    rollback.rollback("dd").await.unwrap();
    // A scheduled run begins right after the candidate was made, and another while it proves itself.
    tokio::select! {
        _ = host.finish(&mut rollback) => {}
        () = async {
            loop {
                tokio::time::sleep(std::time::Duration::from_secs(3)).await;
                host.scheduled_run(&mut daemon).await;
            }
        } => {}
    }
    host.scheduled_run(&mut daemon).await;
    host.assert_settled_on("dd", OLD, "");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_goes_to_the_image_by_its_id_where_its_tag_has_moved() {
    let host = Host::new();
    host.run("dd");
    host.once(NEW).await;
    let before =
        host.twin.document("dd").unwrap()["Config"]["Labels"]["io.delegate-upgrader.previous-image-id"]
            .as_str()
            .unwrap()
            .to_owned();
    host.twin
        .add_image(OLD, host.twin.image(Behaviour::never_healthy()));
    let report = rolled_back(&host, "dd").await.unwrap();
    assert!(row(&report, "dd").runs_the_target(), "{report:?}");
    let document = host.twin.document("dd").unwrap();
    assert_eq!(document["Image"], before.as_str());
    assert_eq!(row(&report, "dd").image, OLD);
    // It is still compared by its reference, and upgraded like any other.
    host.publish(NEWER, good());
    host.once(NEWER).await;
    host.assert_settled_on("dd", NEWER, "");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_to_an_image_that_no_longer_works_changes_nothing() {
    let host = Host::new();
    host.run("dd");
    host.once(NEW).await;
    let serving = host.find("dd").id;
    host.twin.set_behaviour(OLD, &Behaviour::never_healthy());
    let report = rolled_back(&host, "dd").await.unwrap();
    assert_eq!(row(&report, "dd").reason.as_str(), "rejected");
    assert_eq!(host.find("dd").id, serving);
}

#[tokio::test(start_paused = true)]
async fn an_impossible_rollback_is_refused_before_anything_is_touched() {
    let host = Host::new();
    let id = host.run("dd");
    let writes = host.twin.writes().len();
    let nothing = rolled_back(&host, "dd").await.unwrap_err();
    assert_eq!(nothing, OperatorError::NothingBefore("dd".to_owned()));
    // By id as well as by name.
    assert_eq!(rolled_back(&host, id.short()).await.unwrap_err(), nothing);
    let unknown = rolled_back(&host, "ee").await.unwrap_err();
    assert_eq!(unknown.to_string(), "no managed delegate \"ee\"; managed: dd");
    assert_eq!(host.twin.writes().len(), writes);

    host.once(NEW).await;
    rolled_back(&host, "dd").await.unwrap();
    let twice = rolled_back(&host, "dd").await.unwrap_err();
    assert!(matches!(twice, OperatorError::RolledBack { .. }), "{twice}");
}

#[tokio::test(start_paused = true)]
async fn a_rollback_to_an_image_that_is_gone_is_refused() {
    let host = Host::new();
    let id = host.run("dd");
    let before = host.twin.document("dd").unwrap()["Image"]
        .as_str()
        .unwrap()
        .to_owned();
    host.once(NEW).await;
    host.twin.remove_image(&before);
    let gone = rolled_back(&host, "dd").await.unwrap_err();
    assert!(gone.to_string().contains("is no longer on this host"), "{gone}");
    assert_ne!(host.find("dd").id, id);
}

#[tokio::test(start_paused = true)]
async fn health_only_refuses_both() {
    let mut host = Host::new();
    host.health_only = true;
    host.run("dd");
    assert_eq!(
        rolled_back(&host, "dd").await.unwrap_err(),
        OperatorError::HealthOnly
    );
    assert_eq!(retried(&host, "dd").await.unwrap_err(), OperatorError::HealthOnly);
}

#[tokio::test(start_paused = true)]
async fn a_retry_tries_a_quarantined_image_at_once() {
    for change in [|_: &mut serde_json::Value| (), auto_remove] {
        let host = Host::new();
        let bad = host.publish(NEW, Behaviour::never_healthy());
        host.run_with("dd", change);
        host.once(NEW).await;
        assert_eq!(row(&host.once(NEW).await, "dd").reason.as_str(), "quarantined");
        let report = retried(&host, "dd").await.unwrap();
        assert_eq!(row(&report, "dd").reason.as_str(), "rejected");
        assert_eq!(host.names(), ["dd", "dd.failed-2"], "the attempts are counted");
        // It was not the image: a firewall, say.
        host.twin.set_behaviour(NEW, &good());
        let report = retried(&host, "dd").await.unwrap();
        assert!(row(&report, "dd").runs_the_target(), "{report:?}");
        assert_eq!(host.names(), ["dd"]);
        assert_eq!(host.twin.document("dd").unwrap()["Image"], bad.as_str());
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_lifts_a_rollback_and_leaves_the_other_replicas_alone() {
    let host = Host::new();
    for name in ["aa", "bb"] {
        host.run(name);
    }
    host.once(NEW).await;
    rolled_back(&host, "aa").await.unwrap();
    rolled_back(&host, "bb").await.unwrap();
    let bb = host.find("bb").id;
    let report = retried(&host, "aa").await.unwrap();
    assert_eq!(report.delegates.len(), 1);
    assert_eq!(host.find("aa").image, NEW);
    assert_eq!(host.find("bb").id, bb);
}

#[tokio::test(start_paused = true)]
async fn a_moving_tag_is_rolled_back_too() {
    let host = Host::new();
    let before = host
        .twin
        .add_image(LATEST, host.twin.image(Behaviour::drains(DRAIN)));
    host.publish(LATEST, good());
    host.run_with("dd", |body| body["Image"] = json!(LATEST));
    host.once(LATEST).await;
    assert_ne!(host.twin.document("dd").unwrap()["Image"], before.as_str());
    let mut upgrader = host.upgrader(LATEST);
    upgrader.rollback("dd").await.unwrap();
    let report = host.finish(&mut upgrader).await;
    assert!(row(&report, "dd").runs_the_target(), "{report:?}");
    assert_eq!(host.twin.document("dd").unwrap()["Image"], before.as_str());
    // And stays there.
    let report = host.once(LATEST).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "rolled_back");
}

/// Whoever goes on after the process that rolled back is gone.
#[tokio::test(start_paused = true)]
async fn a_rollback_that_was_interrupted_goes_on() {
    let host = Host::new();
    host.run("dd");
    host.once(NEW).await;
    let mut rollback = host.upgrader(NEW);
    rollback.rollback("dd").await.unwrap();
    assert!(host.go_on(&mut rollback, Duration::from_secs(5)).await.is_none());
    drop(rollback);
    host.find("dd.candidate");
    host.once(NEW).await;
    host.assert_settled_on("dd", OLD, "");
}

/// An idle delegate: it stops at once.
#[tokio::test(start_paused = true)]
async fn a_rollback_beside_a_daemon_s_run_succeeds_where_delegates_stop_at_once() {
    let host = Host::new();
    host.twin
        .add_image(OLD, host.twin.image(Behaviour::drains(Duration::from_millis(10))));
    host.run("dd");
    let mut daemon = host.upgrader(NEW);
    host.scheduled_run(&mut daemon).await;
    let mut rollback = host.upgrader(NEW);
    rollback.rollback("dd").await.unwrap();
    let (report, ()) = tokio::join!(host.finish(&mut rollback), async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        host.scheduled_run(&mut daemon).await;
    });
    assert!(row(&report, "dd").runs_the_target(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_a_delegate_that_is_being_replaced_reports_the_truth() {
    let host = Host::new();
    host.run_with("dd", host_network);
    let mut first = host.upgrader(NEW);
    first.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut first, DRAIN / 2).await.is_none());
    drop(first);
    let mut retry = host.upgrader(NEW);
    if retry.retry("dd").await.is_ok() {
        let report = host.finish(&mut retry).await;
        assert!(row(&report, "dd").runs_the_target(), "{report:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_daemon_does_not_call_a_rolled_back_image_published() {
    let host = Host::new();
    host.run("dd");
    let mut daemon = host.upgrader(NEW);
    host.scheduled_run(&mut daemon).await;
    host.scheduled_run(&mut daemon).await;
    let mut rollback = host.upgrader(NEW);
    rollback.rollback("dd").await.unwrap();
    host.finish(&mut rollback).await;
    let report = host.finish(&mut daemon).await;
    assert_ne!(row(&report, "dd").reason.as_str(), "up_to_date", "{report:?}");
}
