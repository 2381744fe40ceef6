//! `status` and `healthcheck`: the clients of the running daemon.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use chrono::Utc;

use super::{Exit, fail, print};
use crate::config::Settings;
use crate::health::http::plain_client;
use crate::net::innermost;
use crate::status::Status;
use crate::status::evidence::Evidence;
use crate::status::report::DelegateReport;
use crate::text::time;

/// The daemon's answer, or what to print and the exit.
async fn get(path: &str) -> Result<String, (String, Exit)> {
    let address = Settings::listen_from_process_env().map_err(|errors| (errors.to_string(), Exit::Config))?;
    let address = reachable(address);
    let unreachable = |error: reqwest::Error| {
        let cause = innermost(&error);
        let problem = format!("the daemon does not answer at {address} (LISTEN_ADDR): {cause}");
        (problem, Exit::Unavailable)
    };
    let client = plain_client().map_err(unreachable)?;
    let url = format!("http://{address}{path}");
    let answer = client.get(url).send().await.map_err(unreachable)?;
    let status = answer.status();
    let text = answer.text().await.map_err(unreachable)?;
    if status.is_success() {
        Ok(text)
    } else {
        let problem = format!("the daemon answers {status}: {}", text.trim());
        Err((problem, Exit::Unavailable))
    }
}

/// A server that listens on every address is reached at the loopback one.
fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port())
    } else {
        address
    }
}

pub(super) async fn healthcheck() -> Exit {
    match get("/livez").await {
        Ok(_) => Exit::Ok,
        // Docker expects 1 for every failure.
        Err((problem, _)) => fail(&problem, Exit::NotServed),
    }
}

pub(super) async fn status(json: bool) -> Exit {
    let text = match get("/status").await {
        Ok(text) => text,
        Err((problem, exit)) => return fail(&problem, exit),
    };
    if json {
        return print(text.trim_end());
    }
    match serde_json::from_str(&text) {
        Ok(status) => print(&status_text(&status)),
        Err(error) => fail(
            &format!("cannot read the daemon's answer: {error}"),
            Exit::Unavailable,
        ),
    }
}

fn status_text(status: &Status) -> String {
    let next_run = status.next_run.map_or_else(|| "-".to_owned(), time::text);
    let mut lines = vec![format!(
        "delegate-upgrader {}, mode {}, schedule {:?}, next run {next_run}",
        status.version,
        status.mode.as_str(),
        status.schedule,
    )];
    lines.extend(
        status
            .engine_error
            .iter()
            .map(|error| format!("Cannot reach the Docker engine: {error}")),
    );
    lines.extend(status.manager.as_ref().map(ToString::to_string));
    for delegate in status.report.iter().flat_map(|report| &report.delegates) {
        lines.extend(delegate_lines(delegate));
    }
    lines.join("\n")
}

fn delegate_lines(delegate: &DelegateReport) -> Vec<String> {
    let mut lines = vec![format!(
        "{}  {}  {} ({})  {}",
        delegate.container,
        delegate.image,
        delegate.health.as_str(),
        delegate.health_detail,
        delegate.message,
    )];
    let today = Utc::now().date_naive();
    let notice = delegate.expiry.as_ref().and_then(|expiry| expiry.notice(today));
    lines.extend(notice.map(|notice| format!("  {notice}")));
    lines.extend(delegate.evidence.iter().flat_map(evidence_lines));
    lines
}

/// What is known of a rejected candidate.
fn evidence_lines(evidence: &Evidence) -> Vec<String> {
    let outcome = evidence.message.as_deref().or(evidence.ending.as_deref());
    let mut lines = vec![format!(
        "  {} ({}, {}): {}",
        evidence.container,
        evidence.image,
        time::text(evidence.time),
        outcome.unwrap_or("rejected"),
    )];
    let health = evidence.health_log.iter();
    lines.extend(health.map(|line| format!("    health check: {line}")));
    lines.extend(evidence.log_tail.iter().map(|line| format!("    log: {line}")));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn text(change: impl FnOnce(&mut Value)) -> String {
        let mut status = json!({
            "version": "0.1.0", "started_at": "2026-11-21T05:00:00Z", "mode": "health-only", "schedule": "@hourly",
            "steps": {},
        });
        change(&mut status);
        status_text(&serde_json::from_value(status).unwrap())
    }

    fn delegate(container: &str) -> Value {
        json!({
            "container": container, "workload": "docker-delegate", "container_id": "0123456789ab",
            "image": "harness/delegate:latest", "health": "healthy", "health_probe": "http", "health_detail": "answers 200",
            "reason": "up_to_date", "message": "fine", "in_progress": false, "failed": false,
        })
    }

    #[test]
    fn a_manager_that_answers_with_an_error_does_answer() {
        let line = |manager: Value| {
            let text = text(|status| status["manager"] = manager);
            text.lines().skip(1).collect::<Vec<_>>().join("\n")
        };
        let (problem, at) = ("the token was revoked", "2026-11-21T05:18:14Z");
        assert_eq!(
            line(json!({ "problem": problem, "answered_at": at, "published": {} })),
            "Manager: the token was revoked (last successful answer at 2026-11-21T05:18:14Z)"
        );
        assert_eq!(
            line(json!({ "problem": problem, "published": {} })),
            "Manager: the token was revoked (no successful answer since start)"
        );
        assert_eq!(
            line(json!({ "answered_at": at, "published": {} })),
            "Manager: last answer at 2026-11-21T05:18:14Z"
        );
        assert_eq!(line(json!({ "published": {} })), "Manager: not asked yet");
        assert_eq!(text(|_| {}).lines().count(), 1);
    }

    #[test]
    fn the_evidence_on_a_rejected_candidate_stands_below_its_delegate() {
        let mut rejected = delegate("d1");
        rejected["evidence"] = json!({
            "container": "d1.failed-1", "image": "harness/delegate:26.03.1", "time": "2026-11-21T05:18:14Z",
            "message": "exited with code 3", "log_tail": ["one", "two"], "health_log": ["exit code 1: ill"],
        });
        let report =
            json!({ "observed_at": "2026-11-21T05:18:15Z", "delegates": [rejected, delegate("d2")] });
        let text = text(|status| status["report"] = report);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "d1  harness/delegate:latest  healthy (answers 200)  fine",
                "  d1.failed-1 (harness/delegate:26.03.1, 2026-11-21T05:18:14Z): exited with code 3",
                "    health check: exit code 1: ill",
                "    log: one",
                "    log: two",
                "d2  harness/delegate:latest  healthy (answers 200)  fine",
            ]
        );
    }
}
