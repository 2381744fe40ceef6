//! `retry` and `rollback`: an operator's commands for one delegate.

use std::time::Duration;

use delegate_upgrader::container::Request;
use delegate_upgrader::reconcile::operator::OperatorError;
use delegate_upgrader::status::report::Report;
use serde_json::{Value, json};

use super::host::{DRAIN, Host, NEW, NEWER, OLD, good, host_network, row};
use kit::twin::Behaviour;

const LATEST: &str = "harness/delegate:latest";

async fn rolled_back(host: &Host, name: &str) -> Result<Report, OperatorError> {
    let mut upgrader = host.upgrader(NEW);
    upgrader.rollback(name, None, Request::default(), []).await?;
    Ok(host.finish(&mut upgrader).await)
}

async fn retried(host: &Host, name: &str) -> Result<Report, OperatorError> {
    let mut upgrader = host.upgrader(NEW);
    upgrader.retry(name, Request::default()).await?;
    Ok(host.finish(&mut upgrader).await)
}

/// A host whose delegate runs the new image since its last run.
async fn upgraded() -> Host {
    let host = Host::new();
    host.run("dd");
    host.once(NEW).await;
    host
}

fn image_id(host: &Host) -> Value {
    host.twin.document("dd").unwrap()["Image"].clone()
}

/// A scheduled run begins right after the candidate was created, and another while it proves itself.
#[tokio::test(start_paused = true)]
async fn a_rollback_succeeds_despite_a_daemons_runs() {
    for drain in [DRAIN, Duration::from_millis(10)] {
        let host = Host::new();
        host.twin.set_behaviour(OLD, &Behaviour::drains(drain));
        host.run("dd");
        let mut daemon = host.upgrader(NEW);
        host.scheduled_run(&mut daemon).await;
        let mut rollback = host.rollback(NEW, "dd").await;
        let report = tokio::select! {
            report = host.finish(&mut rollback) => report,
            never = async {
                loop {
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    host.scheduled_run(&mut daemon).await;
                }
            } => never,
        };
        assert!(row(&report, "dd").reason.runs_the_target(), "{report:?}");
        let report = host.finish(&mut daemon).await;
        assert_ne!(row(&report, "dd").reason.as_str(), "up_to_date", "{report:?}");
        host.scheduled_run(&mut daemon).await;
        host.assert_settled_on("dd", OLD, "");
    }
}

#[tokio::test(start_paused = true)]
async fn rolls_back_by_image_id_if_the_tag_has_moved() {
    let host = Host::new();
    host.run("dd");
    let before = image_id(&host);
    host.once(NEW).await;
    host.twin
        .add_image(OLD, host.twin.image(Behaviour::never_healthy()));
    let report = rolled_back(&host, "dd").await.unwrap();
    assert!(row(&report, "dd").reason.runs_the_target(), "{report:?}");
    assert_eq!(image_id(&host), before);
    assert_eq!(row(&report, "dd").image, OLD);
    // Its image is still compared by its reference, and upgraded like any other.
    host.publish(NEWER, good());
    host.upgrade(NEWER).await;
}

#[tokio::test(start_paused = true)]
async fn a_rollback_to_an_image_that_no_longer_works_changes_nothing() {
    let host = upgraded().await;
    let serving = host.find("dd").id;
    host.twin.set_behaviour(OLD, &Behaviour::never_healthy());
    let report = rolled_back(&host, "dd").await.unwrap();
    assert_eq!(row(&report, "dd").reason.as_str(), "rejected");
    assert_eq!(host.find("dd").id, serving);
}

#[tokio::test(start_paused = true)]
async fn refuses_an_impossible_rollback_before_anything_is_touched() {
    let mut host = Host::new();
    let id = host.run("dd");
    let before = image_id(&host);
    let nothing = rolled_back(&host, "dd").await.unwrap_err();
    let text = "nothing to roll back: delegate-upgrader has not upgraded dd";
    assert_eq!(nothing, OperatorError::Refused(text.to_owned()));
    // By id as well as by name.
    assert_eq!(rolled_back(&host, id.short()).await.unwrap_err(), nothing);
    let unknown = rolled_back(&host, "ee").await.unwrap_err();
    assert_eq!(unknown.to_string(), "no managed delegate \"ee\"; managed: dd");
    assert_eq!(host.twin.writes(), []);

    host.once(NEW).await;
    rolled_back(&host, "dd").await.unwrap();
    let twice = rolled_back(&host, "dd").await.unwrap_err();
    let text = format!(
        "dd was already rolled back from {NEW}; to upgrade it to {NEW} again, run `delegate-upgrader retry dd`"
    );
    assert_eq!(twice, OperatorError::Refused(text));

    retried(&host, "dd").await.unwrap();
    host.twin.remove_image(before.as_str().unwrap());
    let gone = rolled_back(&host, "dd").await.unwrap_err();
    assert!(gone.to_string().contains("is no longer on this host"), "{gone}");

    host.settings.policy.health_only = true;
    for refused in [rolled_back(&host, "dd").await, retried(&host, "dd").await] {
        assert_eq!(refused.unwrap_err(), OperatorError::HealthOnly);
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_lifts_a_rollback_without_affecting_other_replicas() {
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

async fn all_rolled_back(host: &Host, release: &str) -> Result<Report, OperatorError> {
    let mut upgrader = host.upgrader(NEW);
    upgrader.rollback_all(release, Request::default(), &[]).await?;
    Ok(host.finish(&mut upgrader).await)
}

#[tokio::test(start_paused = true)]
async fn rolls_all_delegates_back_to_a_tag_one_replica_at_a_time() {
    let host = Host::new();
    for name in ["aa", "bb"] {
        host.run(name);
    }
    host.run_with("opted-out", |body| {
        body["Labels"] = json!({ "io.delegate-upgrader.enable": "false" });
    });
    host.once(NEW).await;
    let before = host.twin.writes().len();
    let unknown = all_rolled_back(&host, "26.01.9").await.unwrap_err();
    let words = format!("aa has no release 26.01.9 that is known here; known: 0 ({OLD})");
    assert_eq!((unknown.to_string(), host.twin.writes().len()), (words, before));
    rolled_back(&host, "bb").await.unwrap();
    let bb = host.find("bb").id;
    let report = all_rolled_back(&host, "26.02.1").await.unwrap();
    let done: Vec<&str> = report
        .delegates
        .iter()
        .map(|row| row.container.as_str())
        .collect();
    assert_eq!(done, ["aa"], "{report:?}");
    assert_eq!((host.find("aa").image, host.find("bb").id), (OLD.to_owned(), bb));
    let again = all_rolled_back(&host, OLD).await.unwrap_err();
    let reasons = "aa runs the image of release 2 already; bb runs the image of release 2 already; \
                   opted-out: its owner opted out with the label io.delegate-upgrader.enable=false";
    assert_eq!(
        again.to_string(),
        format!("no delegate is rolled back: {reasons}")
    );
    assert!(host.fewest_working() >= 3);
    let nobody = all_rolled_back(&Host::new(), OLD).await.unwrap_err();
    let reason = "no container on this host has DELEGATE_NAME=docker-delegate";
    assert_eq!(
        nobody.to_string(),
        format!("no delegate is rolled back: {reason}")
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_canary_halts_the_rollback_of_all() {
    let host = Host::new();
    for name in ["aa", "bb"] {
        host.run(name);
    }
    host.once(NEW).await;
    host.twin.set_behaviour(OLD, &Behaviour::never_healthy());
    let report = all_rolled_back(&host, "26.02.1").await.unwrap();
    assert_eq!(row(&report, "aa").reason.as_str(), "rejected");
    assert_eq!(row(&report, "bb").reason.as_str(), "halted");
    assert_eq!(host.find("bb").image, NEW);
}

#[tokio::test(start_paused = true)]
async fn rolls_each_delegate_back_to_its_own_image_of_a_moving_tag() {
    let host = Host::new();
    let before = ["aa", "bb"].map(|name| {
        let image = host.twin.add_image(LATEST, host.twin.image(good()));
        host.run_with(name, |body| body["Image"] = json!(LATEST));
        json!(image.as_str())
    });
    assert_ne!(before[0], before[1]);
    host.publish(LATEST, good());
    host.once(LATEST).await;
    all_rolled_back(&host, "0").await.unwrap();
    let after = ["aa", "bb"].map(|name| host.twin.document(name).unwrap()["Image"].clone());
    assert_eq!(after, before);
}

#[tokio::test(start_paused = true)]
async fn refuses_a_tag_with_two_images() {
    let host = Host::new();
    let _ = host.twin.add_image(LATEST, host.twin.image(good()));
    host.run_with("dd", |body| body["Image"] = json!(LATEST));
    host.publish(LATEST, good());
    host.once(LATEST).await;
    let error = host
        .upgrader(LATEST)
        .rollback("dd", Some("latest"), Request::default(), [])
        .await
        .unwrap_err();
    let words = "dd has more than one release latest that is known here; known: 0 (harness/delegate:latest)";
    assert_eq!(error.to_string(), words);
}

#[tokio::test(start_paused = true)]
async fn rolls_back_moving_tag() {
    let host = Host::new();
    let before = host
        .twin
        .add_image(LATEST, host.twin.image(Behaviour::drains(DRAIN)));
    host.publish(LATEST, good());
    host.run_with("dd", |body| body["Image"] = json!(LATEST));
    host.once(LATEST).await;
    assert_ne!(image_id(&host), before.as_str());
    let report = host.finish(&mut host.rollback(LATEST, "dd").await).await;
    assert!(row(&report, "dd").reason.runs_the_target(), "{report:?}");
    assert_eq!(image_id(&host), before.as_str());
    assert_eq!(host.reason(LATEST).await, "rolled_back");
}

#[tokio::test(start_paused = true)]
async fn the_next_process_finishes_a_rollback_that_was_interrupted() {
    let host = upgraded().await;
    let mut rollback = host.rollback(NEW, "dd").await;
    let left = host.continue_for(&mut rollback, Duration::from_secs(5)).await;
    assert!(left.is_none());
    drop(rollback);
    host.find("dd.candidate");
    host.once(NEW).await;
    host.assert_settled_on("dd", OLD, "");
}

#[tokio::test(start_paused = true)]
async fn retry_reports_replacement_in_progress() {
    let host = Host::new();
    host.run_with("dd", host_network);
    let mut first = host.starting(NEW);
    assert!(host.continue_for(&mut first, DRAIN / 2).await.is_none());
    drop(first);
    let mut retry = host.upgrader(NEW);
    let error = retry.retry("dd", Request::default()).await.unwrap_err();
    let text = "dd is being replaced or restored right now; try again when that is done";
    assert_eq!(error, OperatorError::Refused(text.to_owned()));
}
