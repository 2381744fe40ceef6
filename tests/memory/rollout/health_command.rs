//! Health that a command in the container checks.

use std::time::Duration;

use delegate_upgrader::config::ProbeKind;
use delegate_upgrader::health::{HealthStatus, HttpOutcome};
use delegate_upgrader::status::report::DelegateReport;
use serde_json::json;

use super::health_restarts::{MINUTE, live, restarts};
use super::host::{DRAIN, Host, NEW, OLD, good, row};
use kit::twin::{Behaviour, Fault, Operation};

/// A host whose unhealthy delegates are restarted, and whose health check is this command.
fn host(command: &'static str) -> Host {
    let mut host = Host::new();
    host.settings.scope.health.probe = ProbeKind::Exec;
    host.settings.scope.health.command = ["/bin/sh", "-c", command].map(str::to_owned).into();
    host.settings.policy.restarts_unhealthy = true;
    host
}

/// The report of the delegate after this time.
async fn delegate(host: &Host, time: Duration) -> DelegateReport {
    let report = live(host, &mut host.upgrader(OLD), time).await;
    row(&report, "dd").clone()
}

#[tokio::test(start_paused = true)]
async fn the_health_commands_exit_code_is_the_verdict() {
    for (behaviour, status, detail) in [
        (
            Behaviour::default(),
            HealthStatus::Healthy,
            "the health command exits with 0",
        ),
        (
            Behaviour::never_healthy(),
            HealthStatus::Unhealthy,
            "the health command exits with 1",
        ),
    ] {
        let host = host("curl -sf http://localhost:3460/api/health");
        host.twin.set_behaviour(OLD, &behaviour);
        host.run("dd");
        let delegate = delegate(&host, 3 * MINUTE / 2).await;
        assert_eq!(delegate.health, status);
        assert_eq!(delegate.health_probe.as_str(), "exec");
        assert_eq!(delegate.health_detail, detail);
        // It runs once per `HEALTH_INTERVAL`.
        assert_eq!(host.count(Operation::CreateExec), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn health_command_output_is_shown_on_one_line_without_secrets() {
    let host = host("echo no; echo hunter2-hunter2; exit 7");
    host.run_with("dd", |body| {
        let variables = ["DELEGATE_NAME=docker-delegate", "DELEGATE_TOKEN=hunter2-hunter2"];
        body["Env"] = json!(variables);
    });
    let delegate = delegate(&host, Duration::from_secs(5)).await;
    assert_eq!(delegate.health_detail, "the health command exits with 7: no ***");
}

/// No engine ends such a command, so it is not started again and again.
#[tokio::test(start_paused = true)]
async fn a_hanging_health_command_fails_and_is_not_started_again() {
    let mut host = host("sleep 3600; exit 0");
    host.settings.policy.restarts_unhealthy = false;
    host.run("dd");
    let first = delegate(&host, Duration::from_secs(30)).await;
    assert_eq!(first.health_detail, "the health command did not end within 10s");
    let mut upgrader = host.upgrader(OLD);
    let before = host.twin.elapsed();
    let report = live(&host, &mut upgrader, 30 * MINUTE).await;
    let delegate = row(&report, "dd");
    assert_eq!(
        delegate.health_detail,
        "the health command of an earlier check has not ended yet"
    );
    let calls = host.twin.calls();
    let created = calls
        .iter()
        .filter(|call| call.operation == Operation::CreateExec && call.at >= before);
    assert_eq!(created.count(), 1);
}

/// Neither a missing program nor an engine that refuses says anything about the delegate.
#[tokio::test(start_paused = true)]
async fn command_that_cannot_run_restarts_nothing() {
    let missing = host("exit 127");
    let refused = host("exit 0");
    refused.fault(Operation::CreateExec, Fault::RefuseWith(403, "not permitted"));
    for (host, detail) in [
        (missing, "the health command exits with 127"),
        (refused, "cannot run the health command: "),
    ] {
        host.twin.set_behaviour(OLD, &Behaviour::drains(DRAIN));
        host.run("dd");
        let delegate = delegate(&host, 30 * MINUTE).await;
        assert_eq!(delegate.health, HealthStatus::Unhealthy);
        assert!(delegate.health_detail.starts_with(detail), "{delegate:?}");
        assert!(restarts(&host, "dd").is_empty());
    }
}

/// The upgrader and the delegates are on different networks, so HTTP reaches none of them.
#[tokio::test(start_paused = true)]
async fn proves_an_unreachable_candidate_by_its_command_or_by_staying_up() {
    let sleeps = Behaviour::never_healthy();
    for (behaviour, refuses, image, last) in [
        (good(), false, NEW, "up_to_date"),
        (sleeps.clone(), false, OLD, "rejected"),
        // A socket proxy permits no command: then it is known only that the delegate runs.
        (sleeps, true, NEW, "up_to_date"),
    ] {
        let host = Host::new();
        host.publish(NEW, behaviour);
        host.set_slow(|_| Some((Duration::ZERO, HttpOutcome::NoRoute("no route".to_owned()))));
        host.run("dd");
        if refuses {
            host.fault(Operation::CreateExec, Fault::Refuse(403));
        }
        let report = host.once(NEW).await;
        let dd = row(&report, "dd");
        assert_eq!(
            (dd.image.as_str(), dd.reason.as_str()),
            (image, last),
            "{}",
            dd.message
        );
        assert!(host.count(Operation::CreateExec) > 0);
    }
}
