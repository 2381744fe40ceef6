//! The data that an engine keeps about a container: its settings, files copied into it, health check results and log.

use std::time::Duration;

use delegate_upgrader::container::{ContainerId, HealthStatus, Inspected};
use delegate_upgrader::engine::Engine;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::lab::Lab;
use super::steps::{
    LONG, PATIENCE, assert_not_found, created, ended, image_id_of, nobody, seconds, started, started_of,
    until,
};
use crate::twin::Behaviour;

pub async fn env_and_labels_are_read_back_with_the_images_defaults<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let mut body = lab.body(&image);
    body["Env"] = json!(["DELEGATE_NAME=docker-delegate", "EMPTY=", "EQUALS=a=b"]);
    body["Labels"]["io.delegate-upgrader.release"] = json!("3");
    let id = created(lab, "document", &body).await;
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(seen.env("DELEGATE_NAME"), Some("docker-delegate"));
    assert_eq!((seen.env("EMPTY"), seen.env("EQUALS")), (Some(""), Some("a=b")));
    assert_eq!(seen.env("PATH"), Some("/bin"), "the image's own");
    assert_eq!(seen.label("io.delegate-upgrader.release"), Some("3"));
    assert_eq!(seen.image_reference(), image);
    assert_eq!(seen.image_id(), image_id_of(lab, &image).await);
    assert_eq!(seen.restart_policy_text(), "no");
    assert_eq!(seen.document()["Config"]["Hostname"], id.short());
    assert!(seen.created_at().is_some() && seen.started_at().is_none() && seen.finished_at().is_none());
}

pub async fn files_copied_in_before_the_start_are_detected<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let mut body = lab.body(&image);
    let writes = "echo x >/written; while :; do sleep 1 & wait $!; done";
    body["Cmd"] = json!(["/bin/sh", "-c", writes]);
    let id = created(lab, "copied", &body).await;
    // A new file, and one in the place of a file of the image.
    let both = ["/bin/probe", "/etc/delegate/config.yml"];
    for path in both {
        lab.copy_in(&id, path).await;
    }
    for _ in 0..2 {
        let copied = lab.engine().copied_files(&id).await.expect("copied files");
        assert_eq!(copied, both);
        lab.engine().start(&id).await.expect("start");
        sleep(Duration::from_millis(1_500)).await;
    }
    lab.copy_in(&id, "/later").await;
    let copied = lab.engine().copied_files(&id).await.expect("copied files");
    assert_eq!(copied, both, "a file of now is no file of then");
    // Compose writes them again before it starts a stopped container.
    ended(lab, &id, Duration::ZERO).await;
    lab.copy_in(&id, "/new.yml").await;
    lab.engine().start(&id).await.expect("start");
    sleep(Duration::from_millis(1_500)).await;
    let copied = lab.engine().copied_files(&id).await.expect("copied files");
    assert_eq!(
        copied,
        ["/later", "/new.yml", "/bin/probe", "/etc/delegate/config.yml"],
        "what came from outside before this life, and nothing that a life wrote"
    );
    let plain = created(lab, "plain", &lab.body(&image)).await;
    assert_eq!(lab.engine().copied_files(&plain).await, Ok(Vec::new()));
}

pub async fn a_healthcheck_gives_the_engines_verdict<L: Lab>(lab: &L) {
    let check = json!({
        "Test": ["CMD", "/bin/probe"],
        "Interval": 3_000_000_000_u64,
        "Timeout": 5_000_000_000_u64,
        "Retries": 2,
    });
    for (name, behaviour, verdict) in [
        ("well", Behaviour::default(), HealthStatus::Healthy),
        ("ill", Behaviour::never_healthy(), HealthStatus::Unhealthy),
    ] {
        let image = lab.image(behaviour).await;
        let mut body = lab.body(&image);
        body["Healthcheck"] = check.clone();
        let id = started(lab, name, &body).await;
        let at_first = lab.engine().inspect(&id).await.expect("inspect");
        assert_eq!(at_first.health_status(), Some(HealthStatus::Starting), "{name}");
        let judged = |seen: &Inspected| seen.health_status() == Some(verdict);
        let failures = until(lab, &id, "judged", judged).await.failing_streak();
        assert_eq!(failures >= 2, verdict == HealthStatus::Unhealthy, "{failures}");
    }
}

pub async fn healthcheck_results_outlive_the_life_they_belong_to<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::never_healthy()).await;
    let mut body = lab.body(&image);
    body["Healthcheck"] = json!({
        "Test": ["CMD", "/bin/probe"],
        "Interval": 1_000_000_000_u64,
        "Timeout": 5_000_000_000_u64,
    });
    let id = started(lab, "ill", &body).await;
    let results = |seen: &Inspected| seen.health_log(100).map(|(code, _)| code).collect::<Vec<_>>();
    until(lab, &id, "probed six times", |seen| seen.failing_streak() >= 6).await;
    let seen = ended(lab, &id, Duration::ZERO).await;
    assert_eq!(results(&seen), [1; 5], "the last five are kept");
    assert_eq!(seen.health_status(), Some(HealthStatus::Unhealthy));
    lab.engine().start(&id).await.expect("start again");
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(results(&seen), [1; 5]);
    assert_eq!(seen.health_status(), Some(HealthStatus::Starting));
}

/// Waits until its log has this line.
async fn until_logged<L: Lab>(lab: &L, id: &ContainerId, line: &str) {
    let begun = Instant::now();
    while !lab.engine().logs(id, 100).await.expect("logs").contains(line) {
        assert!(begun.elapsed() < PATIENCE, "{line} is not logged");
        sleep(Duration::from_millis(50)).await;
    }
}

pub async fn the_last_lines_of_both_streams_are_read_back<L: Lab>(lab: &L) {
    let talkative = || Behaviour::default().printing(["one", "two", "three", "four", "five"]);
    let id = started_of(lab, "plain", talkative()).await;
    let logs = async |lines| lab.engine().logs(&id, lines).await.expect("logs");
    until_logged(lab, &id, "five").await;
    assert_eq!(logs(3).await, "three\nfour\nfive\n");
    assert_eq!(logs(100).await, "one\ntwo\nthree\nfour\nfive\n");
    ended(lab, &id, LONG).await;
    assert_eq!(logs(2).await, "four\nfive\n", "of a stopped one too");
}

pub async fn the_log_of_a_terminal_is_read_back<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default().printing(["one", "two"])).await;
    let mut body = lab.body(&image);
    body["Tty"] = json!(true);
    let id = started(lab, "terminal", &body).await;
    until_logged(lab, &id, "two").await;
    let log = lab.engine().logs(&id, 10).await.expect("logs");
    let lines: Vec<&str> = log.lines().map(str::trim_end).collect();
    assert_eq!(lines, ["one", "two"]);
}

pub async fn a_log_that_cannot_be_read_back_is_empty<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default().printing(["one"])).await;
    let mut body = lab.body(&image);
    body["HostConfig"]["LogConfig"] = json!({ "Type": "none", "Config": {} });
    let id = started(lab, "unread", &body).await;
    sleep(seconds(1)).await;
    assert_eq!(lab.engine().logs(&id, 10).await.expect("logs"), "");
    let never_started = created(lab, "created", &lab.body(&image)).await;
    assert_eq!(lab.engine().logs(&never_started, 10).await.expect("logs"), "");
    assert_not_found(&lab.engine().logs(&nobody(), 10).await);
}
