//! `status` and `healthcheck`: what the daemon beside it answers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use chrono::Utc;

use super::{Exit, fail, print};
use crate::config::Settings;
use crate::health::http::plain_client;
use crate::image::Expiry;
use crate::net::innermost;

async fn ask(path: &str) -> Result<String, (String, Exit)> {
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

/// A server that listens on every address is asked on the loopback one.
fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port())
    } else {
        address
    }
}

pub(super) async fn healthcheck() -> Exit {
    match ask("/livez").await {
        Ok(_) => Exit::Ok,
        // Docker wants 1, whatever the matter is.
        Err((problem, _)) => fail(&problem, Exit::NotServed),
    }
}

pub(super) async fn status(json: bool) -> Exit {
    let text = match ask("/status").await {
        Ok(text) => text,
        Err((problem, exit)) => return fail(&problem, exit),
    };
    if json {
        return print(text.trim_end());
    }
    match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(status) => print(&status_text(&status)),
        Err(error) => fail(
            &format!("the daemon's answer cannot be read: {error}"),
            Exit::Unavailable,
        ),
    }
}

fn status_text(status: &serde_json::Value) -> String {
    let field = |value: &serde_json::Value, key: &str| {
        value
            .get(key)
            .and_then(serde_json::Value::as_str)
            .unwrap_or("-")
            .to_owned()
    };
    let mut lines = vec![format!(
        "delegate-upgrader {}, mode {}, schedule {:?}, next run {}",
        field(status, "version"),
        field(status, "mode"),
        field(status, "schedule"),
        field(status, "next_run"),
    )];
    if status.get("engine_error").is_some() {
        lines.push(format!(
            "the engine cannot be looked at: {}",
            field(status, "engine_error")
        ));
    }
    lines.extend(status.get("manager").map(manager_line));
    let delegates = status
        .pointer("/report/delegates")
        .and_then(serde_json::Value::as_array);
    for delegate in delegates.into_iter().flatten() {
        lines.push(format!(
            "{}  {}  {} ({})  {}",
            field(delegate, "container"),
            field(delegate, "image"),
            field(delegate, "health"),
            field(delegate, "health_detail"),
            field(delegate, "message"),
        ));
        if let Some(notice) = expiry_notice(delegate) {
            lines.push(format!("  {notice}"));
        }
        lines.extend(delegate.get("evidence").into_iter().flat_map(evidence_lines));
    }
    lines.join("\n")
}

fn manager_line(manager: &serde_json::Value) -> String {
    let field = |key: &str| manager.get(key).and_then(serde_json::Value::as_str);
    match (field("problem"), field("answered_at")) {
        (None, None) => "the Manager has not been asked yet".to_owned(),
        (None, Some(at)) => format!("the Manager answered at {at}"),
        // It may well answer, with a refusal.
        (Some(problem), Some(at)) => {
            format!("the Manager does not say what is published: {problem}; it last did at {at}")
        }
        (Some(problem), None) => {
            format!(
                "the Manager does not say what is published: {problem}; it has not done so since the start"
            )
        }
    }
}

/// The last words of a rejected candidate.
fn evidence_lines(evidence: &serde_json::Value) -> Vec<String> {
    let field = |key: &str| evidence.get(key).and_then(serde_json::Value::as_str);
    let each = |key: &str, told: &str| -> Vec<String> {
        let lines = evidence.get(key).and_then(serde_json::Value::as_array);
        let lines = lines.into_iter().flatten().filter_map(serde_json::Value::as_str);
        lines.map(|line| format!("    {told}: {line}")).collect()
    };
    let cause = field("cause").or(field("ending")).unwrap_or("rejected");
    let rejected = format!(
        "  {} ({}, {}): {cause}",
        field("container").unwrap_or("-"),
        field("image").unwrap_or("-"),
        field("when").unwrap_or("-"),
    );
    [
        vec![rejected],
        each("health_log", "health check"),
        each("log_tail", "it printed"),
    ]
    .concat()
}

fn expiry_notice(delegate: &serde_json::Value) -> Option<String> {
    let expiry: Expiry = serde_json::from_value(delegate.get("expiry")?.clone()).ok()?;
    expiry.notice(Utc::now().date_naive())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manager_that_answers_with_a_refusal_does_answer() {
        let line = |manager: serde_json::Value| {
            let text = status_text(&json!({ "manager": manager }));
            text.lines().skip(1).collect::<Vec<_>>().join("\n")
        };
        let (problem, at) = ("the token was revoked", "2026-11-21T05:18:14Z");
        assert_eq!(
            line(json!({ "problem": problem, "answered_at": at, "published": {} })),
            "the Manager does not say what is published: the token was revoked; it last did at 2026-11-21T05:18:14Z"
        );
        assert_eq!(
            line(json!({ "problem": problem, "published": {} })),
            "the Manager does not say what is published: the token was revoked; it has not done so since the start"
        );
        assert_eq!(
            line(json!({ "answered_at": at, "published": {} })),
            "the Manager answered at 2026-11-21T05:18:14Z"
        );
        assert_eq!(
            line(json!({ "published": {} })),
            "the Manager has not been asked yet"
        );
        assert_eq!(status_text(&json!({})).lines().count(), 1);
    }

    #[test]
    fn the_last_words_of_a_rejected_candidate_stand_below_its_delegate() {
        let status = json!({ "report": { "delegates": [
            { "container": "d1", "evidence": {
                "container": "d1.failed-1", "image": "harness/delegate:26.03.1", "when": "2026-11-21T05:18:14Z",
                "cause": "exited with code 3", "log_tail": ["one", "two"], "health_log": ["exit code 1: ill"],
            } },
            { "container": "d2" },
        ] } });
        let text = status_text(&status);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert!(
            lines[0].starts_with("d1  ") && lines[5].starts_with("d2  "),
            "{text}"
        );
        assert_eq!(
            lines[1..5],
            [
                "  d1.failed-1 (harness/delegate:26.03.1, 2026-11-21T05:18:14Z): exited with code 3",
                "    health check: exit code 1: ill",
                "    it printed: one",
                "    it printed: two",
            ]
        );
    }
}
