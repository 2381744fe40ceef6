//! HTTP for probes, scrapers and people: `/livez` (or `/healthz`), `/readyz`, `/metrics`, `/status`, `/status.txt` and
//! a page at `/`. It answers only `GET` and `HEAD`.

use std::convert::Infallible;
use std::sync::Arc;

use chrono::Utc;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;

use crate::status::hosts::Hosts;
use crate::status::layout::Look;
use crate::status::liveness::Liveness;
use crate::status::view::{Headline, Tone, delivery_problems};
use crate::status::{Reader, Status, connections, metrics, page, terminal};
use crate::telemetry;
use crate::text::json::indented;

const TEXT: &str = "text/plain; charset=utf-8";

const WRONG_NAME: &str = "\
unknown host name (DNS-rebinding protection): use an IP address, or add the name to STATUS_HOSTS in the upgrader's environment
";

const PATHS: &str = "not found; there are / /status /status.txt /metrics /livez (or /healthz) /readyz\n";

/// Serves the published status.
#[derive(Clone)]
pub struct Server {
    /// The status that the loop publishes.
    pub status: Reader,
    /// Whether the loop is alive.
    pub liveness: Liveness,
    /// The host names that requests may use.
    pub hosts: Hosts,
}

impl Server {
    /// Serves requests until the task is dropped.
    pub async fn serve(self, listener: Arc<TcpListener>) -> Infallible {
        connections::serve(listener, move |request| self.answer(request)).await
    }

    fn answer<B>(&self, request: &Request<B>) -> Response<String> {
        if !self.hosts.are_asked(request) {
            return text(StatusCode::MISDIRECTED_REQUEST, WRONG_NAME);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            answer.headers_mut().insert(ALLOW, allowed);
            return answer;
        }
        match request.uri().path() {
            "/livez" | "/healthz" => verdict(self.liveness.problem()),
            "/readyz" => verdict(self.status.borrow().not_ready()),
            "/metrics" => {
                let kind = "text/plain; version=0.0.4; charset=utf-8";
                answer(StatusCode::OK, kind, metrics::text(&self.current()))
            }
            "/status" => {
                let json = indented(&self.current()) + "\n";
                answer(StatusCode::OK, "application/json", json)
            }
            "/status.txt" => {
                let look = Look::asked_for(request.uri().query().unwrap_or_default());
                let lines = terminal::text(&self.current(), look, Utc::now());
                text(StatusCode::OK, &(lines + "\n"))
            }
            "/" => {
                let page = page::html(&self.status.borrow(), Utc::now());
                let mut answer = answer(StatusCode::OK, "text/html; charset=utf-8", page);
                if let Ok(policy) = HeaderValue::try_from(page::content_security_policy()) {
                    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
                }
                answer
            }
            _ => text(StatusCode::NOT_FOUND, PATHS),
        }
    }

    /// The published status, completed with the fields that do not come from the loop.
    fn current(&self) -> Status {
        let status = self.status.borrow().clone();
        let now = Utc::now();
        let tone = Headline::of(&status, now).tone;
        Status {
            delivery_problems: delivery_problems(&status, now),
            log_lines_dropped: telemetry::dropped_lines(),
            all_well: matches!(tone, Tone::Good | Tone::Busy),
            ..status
        }
    }
}

/// The answer to a probe: 503 if there is a problem, and otherwise 200.
fn verdict(problem: Option<String>) -> Response<String> {
    match problem {
        None => text(StatusCode::OK, "ok\n"),
        Some(problem) => text(StatusCode::SERVICE_UNAVAILABLE, &format!("{problem}\n")),
    }
}

fn text(status: StatusCode, body: &str) -> Response<String> {
    answer(status, TEXT, body.to_owned())
}

fn answer(status: StatusCode, kind: &'static str, body: String) -> Response<String> {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = [
        (CONTENT_TYPE, kind),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
