//! HTTP for probes, scrapers and people: `/livez`, `/readyz`, `/metrics`, `/status` and a page at `/`. It answers
//! `GET` only.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::status::liveness::Liveness;
use crate::status::{Reader, Status, metrics, page};
use crate::telemetry;

/// Serves until the task is dropped.
pub async fn serve(listener: TcpListener, status: Reader, liveness: Liveness) -> std::io::Result<()> {
    axum::serve(listener, router(status, liveness)).await
}

fn router(status: Reader, liveness: Liveness) -> Router {
    Router::new()
        .route("/livez", get(async move || verdict(liveness.problem())))
        .route("/readyz", get(ready))
        .route("/metrics", get(scrape))
        .route("/status", get(state))
        .route("/", get(html))
        .with_state(status)
}

async fn ready(State(status): State<Reader>) -> Response {
    verdict(status.borrow().not_ready())
}

/// The answer to a probe.
fn verdict(problem: Option<String>) -> Response {
    match problem {
        None => "ok\n".into_response(),
        Some(problem) => (StatusCode::SERVICE_UNAVAILABLE, format!("{problem}\n")).into_response(),
    }
}

/// What the loop published, and what is known without it.
fn current(status: &Reader) -> Status {
    Status {
        log_lines_dropped: telemetry::dropped_lines(),
        ..status.borrow().clone()
    }
}

async fn scrape(State(status): State<Reader>) -> Response {
    let status = current(&status);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], metrics::text(&status)).into_response()
}

async fn state(State(status): State<Reader>) -> Response {
    let status = current(&status);
    match serde_json::to_string_pretty(&status) {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json + "\n").into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn html(State(status): State<Reader>) -> Response {
    let status = status.borrow().clone();
    (
        [(header::CONTENT_TYPE, "text/html; charset=utf-8")],
        page::html(&status),
    )
        .into_response()
}
