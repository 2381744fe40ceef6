//! An engine that answers as a test wants, and records the calls.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use delegate_upgrader::engine::{Credentials, DockerEngine, EngineHost};
use serde_json::{Value, json};

/// A call as the engine received it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Method, path and query: `GET /v1.41/info`.
    pub(crate) line: String,
    /// The header `X-Registry-Auth`.
    pub(crate) credentials: Option<String>,
    /// The body; `null` if there is none.
    pub(crate) body: Value,
}

pub(crate) struct ScriptedEngine {
    host: EngineHost,
    pub(crate) docker: DockerEngine,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl ScriptedEngine {
    /// An engine that answers each call except `GET /version` with the result of `answer` for the call's line.
    pub(crate) async fn start(answer: impl Fn(&str) -> Response + Clone + Send + Sync + 'static) -> Self {
        Self::of("1.41", "26.1.5", answer).await
    }

    /// An engine with this API version, such as `1.51`, or this range, such as `1.44..1.51`, and this release.
    pub(crate) async fn of(
        api: &str,
        release: &str,
        answer: impl Fn(&str) -> Response + Clone + Send + Sync + 'static,
    ) -> Self {
        let (oldest, api) = api.split_once("..").unwrap_or(("1.24", api));
        let version = json!({
            "ApiVersion": api, "MinAPIVersion": oldest, "Version": release, "Os": "linux", "Arch": "amd64",
        });
        let calls = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&calls);
        let app = Router::new().fallback(async move |request: Request| {
            let line = format!("{} {}", request.method(), request.uri());
            let agent = request.headers().get("User-Agent").cloned().unwrap();
            assert_eq!(
                agent,
                concat!("delegate-upgrader/", env!("CARGO_PKG_VERSION")),
                "{line}"
            );
            let credentials = request.headers().get("X-Registry-Auth");
            let credentials = credentials.map(|value| value.to_str().unwrap().to_owned());
            let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
            seen.lock().unwrap().push(Call {
                line: line.clone(),
                credentials,
                body: serde_json::from_slice(&body).unwrap_or_default(),
            });
            match line.as_str() {
                "GET /version" => answer_json(200, &version),
                line => answer(line),
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move { axum::serve(listener, app).await });
        let host = EngineHost::Tcp { address, tls: None };
        let docker = DockerEngine::connect(&host, Credentials::default()).unwrap();
        Self { host, docker, calls }
    }

    /// A client of this engine with credentials for registries.
    pub(crate) fn client(&self, credentials: &Credentials) -> DockerEngine {
        DockerEngine::connect(&self.host, credentials.clone()).unwrap()
    }

    /// The calls so far, including `GET /version`.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn last_call(&self) -> Call {
        self.calls().pop().unwrap()
    }
}

pub(crate) fn answer(status: u16, body: impl Into<Body>) -> Response {
    (StatusCode::from_u16(status).unwrap(), body.into()).into_response()
}

pub(crate) fn answer_json(status: u16, body: &Value) -> Response {
    answer(status, body.to_string())
}

/// A refusal in the form that engines use.
pub(crate) fn refusal(status: u16, message: &str) -> Response {
    answer_json(status, &json!({ "message": message }))
}
