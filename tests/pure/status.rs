//! The state of the daemon, as the terminal and the page show it.

use std::collections::BTreeSet;

use delegate_upgrader::status::Status;
use delegate_upgrader::status::metrics;
use delegate_upgrader::status::page::html;
use delegate_upgrader::status::terminal::text;
use serde_json::{Value, json};

fn status(change: impl FnOnce(&mut Value)) -> Status {
    let mut status = json!({
        "version": "0.1.0", "started_at": "2026-11-21T05:00:00Z", "mode": "health-only", "schedule": "@hourly",
        "steps": {},
    });
    change(&mut status);
    serde_json::from_value(status).unwrap()
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
        let text = text(&status(|status| status["manager"] = manager));
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
    assert_eq!(text(&status(|_| {})).lines().count(), 1);
}

#[test]
fn the_evidence_on_a_rejected_candidate_stands_below_its_delegate() {
    let mut rejected = delegate("d1");
    rejected["evidence"] = json!({
        "container": "d1.failed-1", "image": "harness/delegate:26.03.1", "time": "2026-11-21T05:18:14Z",
        "message": "exited with code 3", "log_tail": ["one", "two"], "health_log": ["exit code 1: ill"],
    });
    let report = json!({ "observed_at": "2026-11-21T05:18:15Z", "delegates": [rejected, delegate("d2")] });
    let text = text(&status(|status| status["report"] = report));
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

#[test]
fn the_page_shows_why_the_manager_gave_no_answer() {
    let manager = json!({ "problem": "the token was revoked", "published": {} });
    let page = html(&status(|status| status["manager"] = manager));
    let shown = "Manager: the token was revoked (no successful answer since start)";
    assert!(page.contains(shown), "{page}");
}

#[test]
fn the_output_of_a_rejected_candidate_is_text_and_not_markup() {
    let mut rejected = delegate("dd");
    rejected["evidence"] = json!({
        "container": "dd.failed-1", "image": "harness/delegate:26.03.1", "time": "1970-01-01T00:00:00Z",
        "message": "exited with code 3", "log_tail": ["</pre><script>alert(1)</script>"],
        "health_log": ["exit code 1: ill"],
    });
    let report = json!({ "observed_at": "2026-11-21T05:18:15Z", "delegates": [rejected] });
    let html = html(&status(|status| status["report"] = report));
    assert!(!html.contains("<script>"), "{html}");
    for text in [
        "dd.failed-1",
        "exited with code 3",
        "exit code 1: ill",
        "&lt;script&gt;",
    ] {
        assert!(html.contains(text), "{html}");
    }
}

/// The names of the samples, with the suffixes that the format asks for.
#[test]
fn the_command_page_lists_every_metric() {
    let status = status(|status| {
        let mut delegate = delegate("dd");
        delegate["tasks"] = 1.into();
        delegate["draining"] = json!([{ "container": "d", "tasks": 2, "until": "2026-11-21T06:18:14Z" }]);
        delegate["expiry"] = json!({ "support_ends": "2026-12-31", "life_ends": "2027-01-31" });
        status["report"] = json!({ "observed_at": "2026-11-21T05:18:14Z", "delegates": [delegate] });
        status["next_run"] = "2026-11-21T06:00:00Z".into();
        status["manager"] = json!({ "answered_at": "2026-11-21T05:18:14Z", "published": {} });
        status["steps"] = json!({ "pull": 1 });
    });
    let text = metrics::text(&status);
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let found: BTreeSet<&str> = samples.filter_map(|line| line.split(['{', ' ']).next()).collect();
    let page = include_str!("../../docs/usage/commands.md");
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `delegate_upgrader_"));
    let listed: BTreeSet<String> = rows
        .filter_map(|row| row.split('`').next())
        .map(|name| format!("delegate_upgrader_{name}"))
        .collect();
    assert_eq!(found, listed.iter().map(String::as_str).collect());
}
