//! Raw JSON in and out of the engine's API: documents pass through whole, whatever fields they have.

use std::fmt;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::call_log::logged;
use super::errors::from_status;
use super::tls::mutual_tls;
use crate::container::ApiVersion;
use crate::engine::{EngineCalls, EngineError, EngineHost};
use crate::net::client::USER_AGENT;
use crate::net::dns::Resolver;
use crate::net::{innermost, tls_without_roots};

/// A client of the engine's API that neither models nor alters what it carries.
#[derive(Clone, Debug)]
pub(super) struct HttpClient {
    client: reqwest::Client,
    base: Url,
    pub(super) calls: EngineCalls,
}

/// A request that has not been sent yet.
#[derive(Debug)]
pub(super) struct Request {
    method: Method,
    url: Url,
    body: Option<Vec<u8>>,
    header: Option<(&'static str, String)>,
    /// The time it may take, with its whole answer.
    limit: Duration,
}

impl HttpClient {
    /// Makes the client. Nothing is sent and no socket is opened; errs where a TLS file cannot be used.
    pub(super) fn new(host: &EngineHost) -> Result<Self, EngineError> {
        let broken = |what: String| EngineError::Unreachable(what);
        let builder = reqwest::Client::builder()
            .user_agent(USER_AGENT)
            .no_proxy()
            .dns_resolver(Resolver::default())
            .redirect(reqwest::redirect::Policy::none())
            // A new connection per call: one that idled through an engine's restart would fail a create that was never
            // sent.
            .pool_max_idle_per_host(0);
        let (builder, base) = match host {
            EngineHost::Unix(path) => {
                let builder = builder
                    .unix_socket(path.as_path())
                    .tls_backend_preconfigured(tls_without_roots().map_err(broken)?);
                (builder, "http://docker".to_owned())
            }
            EngineHost::Tcp { address, tls: None } => {
                let builder = builder.tls_backend_preconfigured(tls_without_roots().map_err(broken)?);
                (builder, format!("http://{address}"))
            }
            EngineHost::Tcp {
                address,
                tls: Some(directory),
            } => {
                let builder = builder.tls_backend_preconfigured(mutual_tls(directory).map_err(broken)?);
                (builder, format!("https://{address}"))
            }
        };
        Ok(Self {
            client: builder.build().map_err(|error| broken(innermost(&error)))?,
            base: Url::parse(&base).map_err(|error| broken(format!("{base}: {error}")))?,
            calls: EngineCalls::default(),
        })
    }

    /// Makes a request to a path given in segments, which are encoded here; below an API version unless `None`.
    pub(super) fn request(
        &self,
        method: Method,
        api: Option<ApiVersion>,
        segments: &[&str],
        limit: Duration,
    ) -> Request {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.clear();
            if let Some(api) = api {
                path.push(&format!("v{api}"));
            }
            path.extend(segments);
        }
        Request {
            method,
            url,
            body: None,
            header: None,
            limit,
        }
    }

    /// Sends a request; the body of the answer. Errs for any status but 2xx and 304.
    pub(super) async fn send(&self, request: Request) -> Result<Vec<u8>, EngineError> {
        let mut body = Vec::new();
        let take = |chunk: &[u8]| body.extend_from_slice(chunk);
        self.stream(request, usize::MAX, take).await?;
        Ok(body)
    }

    /// Sends a request whose answer may be long, and hands out the chunks of its body until there are `max` bytes. Errs
    /// for any status but 2xx and 304.
    pub(super) async fn stream(
        &self,
        request: Request,
        max: usize,
        take: impl FnMut(&[u8]) + Send,
    ) -> Result<(), EngineError> {
        logged(&self.calls, request.to_string(), self.follow(request, max, take)).await
    }

    /// The same for an answer without an end, such as an event stream. It is neither counted nor logged as a call, since its
    /// duration says nothing about the engine.
    pub(super) async fn follow(
        &self,
        request: Request,
        max: usize,
        mut take: impl FnMut(&[u8]) + Send,
    ) -> Result<(), EngineError> {
        let limit = request.limit;
        let mut response = self.response(request).await?;
        let status = response.status();
        let is_success = status.is_success() || status == StatusCode::NOT_MODIFIED;
        let (mut length, mut problem) = (0_usize, Vec::new());
        while length < max
            && let Some(chunk) = response.chunk().await.map_err(|error| failure(&error, limit))?
        {
            length = length.saturating_add(chunk.len());
            if is_success {
                take(&chunk);
            } else {
                problem.extend_from_slice(&chunk);
            }
        }
        if is_success {
            Ok(())
        } else {
            Err(from_status(status.as_u16(), &message(&problem)))
        }
    }

    /// Sends a request and reads the answer as JSON.
    pub(super) async fn fetch<T: DeserializeOwned>(&self, request: Request) -> Result<T, EngineError> {
        let path = request.path().to_owned();
        parse(&path, &self.send(request).await?)
    }

    /// Sends a HEAD request; a header of the answer.
    pub(super) async fn header_of(
        &self,
        request: Request,
        name: &str,
    ) -> Result<Option<String>, EngineError> {
        logged(&self.calls, request.to_string(), async {
            let response = self.response(request).await?;
            let status = response.status();
            if !status.is_success() {
                // An answer to HEAD has no body with a message.
                return Err(from_status(status.as_u16(), &status.to_string()));
            }
            let value = response.headers().get(name).and_then(|value| value.to_str().ok());
            Ok(value.map(str::to_owned))
        })
        .await
    }

    async fn response(&self, request: Request) -> Result<reqwest::Response, EngineError> {
        let limit = request.limit;
        let mut builder = self.client.request(request.method, request.url).timeout(limit);
        if let Some((name, value)) = request.header {
            builder = builder.header(name, value);
        }
        if let Some(body) = request.body {
            builder = builder.header(CONTENT_TYPE, "application/json").body(body);
        }
        // Boxed, since each future that awaits a call holds a place for this one.
        Box::pin(builder.send())
            .await
            .map_err(|error| failure(&error, limit))
    }
}

/// Method, path and query: what a log may show of it.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.url.path())?;
        match self.url.query() {
            Some(query) => write!(f, "?{query}"),
            None => Ok(()),
        }
    }
}

impl Request {
    pub(super) fn path(&self) -> &str {
        self.url.path()
    }

    pub(super) fn query(mut self, name: &str, value: &str) -> Self {
        self.url.query_pairs_mut().append_pair(name, value);
        self
    }

    pub(super) fn body(mut self, body: &Value) -> Self {
        self.body = Some(body.to_string().into_bytes());
        self
    }

    pub(super) fn header(mut self, name: &'static str, value: String) -> Self {
        self.header = Some((name, value));
        self
    }
}

/// The answer to a request to this path, read as JSON.
pub(super) fn parse<T: DeserializeOwned>(path: &str, body: &[u8]) -> Result<T, EngineError> {
    serde_json::from_slice(body).map_err(|error| EngineError::Malformed(format!("{path}: {error}")))
}

/// The engine's own message: `{"message": …}`, or the body as it is where something in between answered.
fn message(body: &[u8]) -> String {
    serde_json::from_slice::<Value>(body)
        .ok()
        .and_then(|value| Some(value.get("message")?.as_str()?.to_owned()))
        .unwrap_or_else(|| String::from_utf8_lossy(body).into_owned())
}

fn failure(error: &reqwest::Error, limit: Duration) -> EngineError {
    if error.is_timeout() {
        EngineError::TimedOut(limit)
    } else {
        EngineError::Unreachable(innermost(error))
    }
}
