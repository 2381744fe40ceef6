//! HTTP for probes, scrapers and people: `/livez`, `/readyz`, `/metrics`, `/status` and a page at `/`. Reading only.

use std::fmt::Write as _;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::status::evidence::Evidence;
use crate::status::metrics;
use crate::status::{Reader, Status};
use crate::text::time;

/// Takes the port, so that a port that is taken is told at start.
pub async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves until the task is dropped.
pub async fn serve(listener: TcpListener, status: Reader) -> std::io::Result<()> {
    axum::serve(listener, router(status)).await
}

fn router(status: Reader) -> Router {
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(scrape))
        .route("/status", get(state))
        .route("/", get(page))
        .with_state(status)
}

async fn ready(State(status): State<Reader>) -> Response {
    match status.borrow().not_ready() {
        None => "ok\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn scrape(State(status): State<Reader>) -> Response {
    let status = status.borrow().clone();
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], metrics::text(&status)).into_response()
}

async fn state(State(status): State<Reader>) -> Response {
    let status = status.borrow().clone();
    match serde_json::to_string_pretty(&status) {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json + "\n").into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn page(State(status): State<Reader>) -> Response {
    let status = status.borrow().clone();
    (
        [(header::CONTENT_TYPE, "text/html; charset=utf-8")],
        html(&status),
    )
        .into_response()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn html(status: &Status) -> String {
    let mut page = String::from(
        "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=10>\
         <title>delegate-upgrader</title><style>body{font:15px/1.5 system-ui,sans-serif;margin:2em;max-width:70em}\
         pre{white-space:pre-wrap;overflow-wrap:anywhere}table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.4em .8em;\
         border-bottom:1px solid #ddd;vertical-align:top}.healthy{color:#17722f}.unhealthy{color:#b3261e}\
         .starting{color:#8a5a00}</style><h1>delegate-upgrader</h1>",
    );
    let _ = write!(
        page,
        "<p>Version {}, mode {}, schedule <code>{}</code>",
        status.version,
        status.mode,
        escaped(&status.schedule)
    );
    if let Some(next) = status.next_run {
        let _ = write!(page, ", next run {}", time::text(next));
    }
    page.push_str(".</p>");
    if let Some(problem) = status
        .manager
        .as_ref()
        .and_then(|manager| manager.problem.as_ref())
    {
        let _ = write!(
            page,
            "<p class=unhealthy>The Manager does not say what is published: {}</p>",
            escaped(problem)
        );
    }
    if let Some(error) = &status.engine_error {
        let _ = write!(
            page,
            "<p class=unhealthy>The engine cannot be looked at: {}</p>",
            escaped(error)
        );
    }
    if let Some(report) = &status.report {
        let _ = write!(page, "<p>Seen at {:.0}.</p>", report.at);
        page.push_str("<table><tr><th>Delegate<th>Image<th>Health<th>What happens, and why</tr>");
        for delegate in &report.delegates {
            let _ = write!(
                page,
                "<tr><td>{}<br><small>{}</small><td>{}<td class={}>{}<br><small>{}</small><td>{}{}</tr>",
                escaped(&delegate.container),
                escaped(&delegate.container_id),
                escaped(&delegate.image),
                delegate.health,
                delegate.health,
                escaped(&delegate.health_detail),
                escaped(&delegate.message),
                delegate.evidence.as_ref().map(evidence_html).unwrap_or_default(),
            );
        }
        page.push_str("</table>");
        if report.delegates.is_empty() {
            page.push_str("<p>No delegate of the configured names on this host.</p>");
        }
    }
    page
}

/// The last words of a rejected candidate, folded up.
fn evidence_html(evidence: &Evidence) -> String {
    let mut text = format!("{} at {}\n", evidence.image, time::text(evidence.when));
    let cause = evidence.cause.iter().chain(&evidence.ending);
    for line in cause.chain(&evidence.health_log).chain(&evidence.log_tail) {
        text.push_str(line);
        text.push('\n');
    }
    format!(
        "<details><summary>{}</summary><pre>{}</pre></details>",
        escaped(&evidence.container),
        escaped(&text)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_of_a_manager_that_refuses_no_more_than_that() {
        let mut status = Status::new(false, "@hourly", chrono::DateTime::UNIX_EPOCH);
        status.manager = Some(crate::manager::heartbeat::ManagerStatus {
            problem: Some("the token was revoked".to_owned()),
            ..Default::default()
        });
        let page = html(&status);
        let told = "The Manager does not say what is published: the token was revoked";
        assert!(page.contains(told), "{page}");
    }

    #[test]
    fn what_a_rejected_candidate_printed_is_text_and_no_markup() {
        let evidence = Evidence {
            container: "dd.failed-1".to_owned(),
            image: "harness/delegate:26.03.1".to_owned(),
            cause: Some("exited with code 3".to_owned()),
            when: chrono::DateTime::UNIX_EPOCH,
            ending: None,
            log_tail: vec!["</pre><script>alert(1)</script>".to_owned()],
            health_log: vec!["exit code 1: ill".to_owned()],
        };
        let evidence_html = evidence_html(&evidence);
        assert!(!evidence_html.contains("<script>"), "{evidence_html}");
        for text in [
            "dd.failed-1",
            "exited with code 3",
            "exit code 1: ill",
            "&lt;script&gt;",
        ] {
            assert!(evidence_html.contains(text), "{evidence_html}");
        }
    }
}
