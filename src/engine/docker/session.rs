//! The session with an engine, which holds its version and a client for it, and the two ways to send requests. The session
//! ends when another engine may answer.

use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error as BollardError;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::bollard_client::{self, to_engine_error};
use super::http::{MOST_OF_LIST, Request, parse};
use super::logs::Tail;
use super::stream::Elements;
use super::{DockerEngine, READ, WRITE};
use crate::container::ApiVersion;
use crate::container::json::{list_at, text_at};
use crate::engine::{EngineError, EngineInfo};

/// The most bytes of a container's output to read.
const MAX_STREAM_BYTES: usize = 8 * 1024 * 1024;

/// The newest API version that passed the fidelity matrix. Newer versions may show less: since 1.52, inspect shows the MAC
/// addresses in use instead of the one that the owner chose.
const NEWEST_TESTED: ApiVersion = ApiVersion::new(1, 51);

/// Facts that hold for as long as the same engine answers.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) info: EngineInfo,
    pub(super) docker: Docker,
}

impl DockerEngine {
    /// Returns the engine's version and a client for it. They are fetched once and reused until the engine goes away.
    pub(super) async fn session(&self) -> Result<Session, EngineError> {
        let mut slot = self.shared.session.lock().await;
        if let Some(session) = &*slot {
            return Ok(session.clone());
        }
        let session = self.handshake().await.map_err(|error| self.with_address(error))?;
        *slot = Some(session.clone());
        Ok(session)
    }

    async fn handshake(&self) -> Result<Session, EngineError> {
        let http = &self.shared.http;
        let request = http.request(Method::GET, None, &["version"], READ);
        let answer = self.shared.calls.follow(request.to_string(), http.send(request));
        let info = engine_info(&parse("/version", &answer.await?)?)?;
        let docker = bollard_client::new(http, info.api)?;
        Ok(Session { info, docker })
    }

    /// Returns the outcome, and ends the session if the engine went away or does not support our API version, so that another
    /// engine may answer next.
    pub(super) async fn track_session<T>(&self, outcome: Result<T, EngineError>) -> Result<T, EngineError> {
        if let Err(error) = &outcome
            && (matches!(error, EngineError::Unreachable(_)) || error.is_wrong_api_version())
        {
            *self.shared.session.lock().await = None;
        }
        outcome.map_err(|error| self.with_address(error))
    }

    /// Awaits the outcome of a call, counts it, and ends the session if another engine may answer next.
    pub(super) async fn counted<T>(
        &self,
        call: String,
        outcome: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        self.track_session(self.shared.calls.follow(call, outcome).await)
            .await
    }

    fn with_address(&self, error: EngineError) -> EngineError {
        match error {
            EngineError::Unreachable(cause) => {
                EngineError::Unreachable(format!("{}: {cause}", self.shared.host))
            }
            other => other,
        }
    }

    /// Creates a request for the common API version.
    pub(super) async fn request(
        &self,
        method: Method,
        path: &[&str],
        limit: Duration,
    ) -> Result<Request, EngineError> {
        let api = self.session().await?.info.api;
        Ok(self.shared.http.request(method, Some(api), path, limit))
    }

    /// Sends a request and returns the body of the answer. Boxed, since every future that sends a request would otherwise
    /// embed this large one.
    pub(super) fn send(&self, request: Request) -> BoxFuture<'_, Result<Vec<u8>, EngineError>> {
        self.counted(request.to_string(), self.shared.http.send(request))
            .boxed()
    }

    /// Sends a request and parses the answer as JSON.
    pub(super) async fn json<T: DeserializeOwned>(&self, request: Request) -> Result<T, EngineError> {
        let path = request.path().to_owned();
        parse(&path, &self.send(request).await?)
    }

    /// Sends a request whose answer is a list, and reads the elements one by one.
    pub(super) async fn each<T: DeserializeOwned>(
        &self,
        request: Request,
        mut take: impl FnMut(T) -> Result<(), String> + Send,
    ) -> Result<(), EngineError> {
        let (path, call) = (request.path().to_owned(), request.to_string());
        let mut elements = Elements::default();
        let read = |chunk: &[u8]| elements.read(chunk, &mut take);
        self.counted(call, self.shared.http.stream(request, MOST_OF_LIST, read))
            .await?;
        elements.end(&path, MOST_OF_LIST)
    }

    /// Sends a request whose answer is the output of a container, and returns its last lines.
    pub(super) async fn tail(&self, request: Request, lines: usize) -> Result<String, EngineError> {
        let (mut tail, call) = (Tail::new(lines), request.to_string());
        let http = &self.shared.http;
        let read = http.stream(request, MAX_STREAM_BYTES, |chunk| tail.read(chunk));
        self.counted(call, read).await?;
        Ok(tail.text())
    }

    /// Reads the JSON at a path.
    pub(super) async fn read<T: DeserializeOwned>(&self, path: &[&str]) -> Result<T, EngineError> {
        self.json(self.request(Method::GET, path, READ).await?).await
    }

    /// Runs a bollard command within [`WRITE`]. `call` is the method and path that it sends, for the log.
    pub(super) async fn command<T, F>(
        &self,
        call: String,
        run: impl FnOnce(Docker) -> F,
    ) -> Result<T, EngineError>
    where
        T: Send,
        F: Future<Output = Result<T, BollardError>> + Send,
    {
        let command = run(self.session().await?.docker).boxed();
        let outcome = self.counted(call, async {
            match timeout(WRITE, command).await {
                Ok(outcome) => outcome.map_err(to_engine_error),
                Err(_) => Err(EngineError::TimedOut(WRITE)),
            }
        });
        // Boxed for the same reason as in [`Self::send`].
        outcome.boxed().await
    }
}

/// Reads the answer to `GET /version`. All calls use the engine's newest API version or the newest tested one, whichever is older.
fn engine_info(version: &Value) -> Result<EngineInfo, EngineError> {
    let text = |pointer| text_at(version, pointer).to_owned();
    let api: ApiVersion = text("/ApiVersion").parse().map_err(EngineError::Malformed)?;
    let oldest: Option<ApiVersion> = text("/MinAPIVersion").parse().ok();
    if let Some(oldest) = oldest.filter(|oldest| *oldest > NEWEST_TESTED) {
        return Err(EngineError::Unsupported(format!(
            "Docker {} understands API {oldest} and newer, delegate-upgrader {} only up to {NEWEST_TESTED}",
            text("/Version"),
            env!("CARGO_PKG_VERSION")
        )));
    }
    // Podman 5.8.6 calls itself `Podman Engine`.
    let mut components = list_at(version, "/Components").iter();
    Ok(EngineInfo {
        api: api.min(NEWEST_TESTED),
        version: text("/Version"),
        is_podman: components.any(|component| text_at(component, "/Name").starts_with("Podman")),
        os: text("/Os"),
        architecture: text("/Arch"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_podman_by_its_components() {
        for (components, is_podman) in [
            (
                r#", "Components": [{"Name": "Podman Engine", "Version": "5.8.6"}, {"Name": "Conmon"}]"#,
                true,
            ),
            (
                r#", "Components": [{"Name": "Engine", "Version": "28.5.2"}, {"Name": "runc"}]"#,
                false,
            ),
            (r#", "Components": null"#, false),
            ("", false),
        ] {
            let version = format!(r#"{{"ApiVersion": "1.41"{components}}}"#);
            let version: Value = serde_json::from_str(&version).unwrap();
            assert_eq!(
                engine_info(&version).unwrap().is_podman,
                is_podman,
                "{components}"
            );
        }
    }
}
