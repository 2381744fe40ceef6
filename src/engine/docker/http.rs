//! Raw JSON in and out of the engine's API: documents pass through whole, whatever fields they have.

use std::fmt;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::call_log::logged;
use super::errors::from_status;
use super::stream::{Elements, too_much};
use super::tls::mutual_tls;
use crate::container::ApiVersion;
use crate::engine::{EngineCalls, EngineError, EngineHost};
use crate::net::client::USER_AGENT;
use crate::net::dns::Resolver;
use crate::net::{innermost, tls_without_roots};

/// The most bytes of a document, and of a list of them. Within the 100 MB that the upgrader may have, there is room for what is
/// made of it, which can be sixteen times as much.
const MOST: usize = 2 << 20;
pub(super) const MOST_OF_DOCUMENTS: usize = 8 << 20;
/// The most bytes of a message about an error.
pub(super) const MOST_MESSAGE: usize = 64 << 10;
/// The most bytes of a list that is read element by element.
const MOST_OF_LIST: usize = 128 << 20;

/// An answer that keeps sending data may take this many times its limit in total.
const PATIENCE: u32 = 10;

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
    /// The time in which something of its answer must arrive.
    limit: Duration,
    /// The most bytes that are read of the answer.
    most: usize,
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
            // A new connection per call: one from before a restart of the engine would fail a create that was never sent.
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
            most: MOST,
        }
    }

    /// Sends a request; the body of the answer. Errs for any status but 2xx and 304, and for more than any answer has.
    pub(super) async fn send(&self, request: Request) -> Result<Vec<u8>, EngineError> {
        let (mut body, path, most) = (Vec::new(), request.path().to_owned(), request.most);
        let take = |chunk: &[u8]| body.extend_from_slice(chunk);
        self.stream(request, most, take).await?;
        if body.len() >= most {
            return Err(EngineError::Malformed(format!(
                "{path}: {}",
                too_much("it", most)
            )));
        }
        Ok(body)
    }

    /// Sends a request whose answer is a list, and reads its elements one by one.
    pub(super) async fn each<T: DeserializeOwned>(
        &self,
        request: Request,
        mut take: impl FnMut(T) -> Result<(), String> + Send,
    ) -> Result<(), EngineError> {
        let path = request.path().to_owned();
        let mut elements = Elements::default();
        let read = |chunk: &[u8]| {
            elements.read(chunk, |element| {
                take(serde_json::from_slice(element).map_err(|error| error.to_string())?)
            });
        };
        self.stream(request, MOST_OF_LIST, read).await?;
        elements.end(&path, MOST_OF_LIST)
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
        let response = self.open(request).await?;
        read(response, limit, max, &mut take).await
    }

    /// Sends a request; the answer, whose body is not read yet. Errs for any status but 2xx and 304.
    pub(super) async fn open(&self, request: Request) -> Result<reqwest::Response, EngineError> {
        let limit = request.limit;
        let response = self.response(request).await?;
        let status = response.status();
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            return Ok(response);
        }
        let mut problem = Vec::new();
        read(response, limit, MOST_MESSAGE, &mut |chunk| {
            problem.extend_from_slice(chunk);
        })
        .await?;
        Err(from_status(status.as_u16(), &message(&problem)))
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
        let mut builder = self.client.request(request.method, request.url);
        if let Some((name, value)) = request.header {
            builder = builder.header(name, value);
        }
        if let Some(body) = request.body {
            builder = builder.header(CONTENT_TYPE, "application/json").body(body);
        }
        // Boxed, since each future that awaits a call holds a place for this one.
        let sent = timeout(limit, Box::pin(builder.send())).await;
        sent.map_err(|_| EngineError::TimedOut(limit))?
            .map_err(|error| failure(&error))
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

    pub(super) fn at_most(mut self, most: usize) -> Self {
        self.most = most;
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
pub(super) fn message(body: &[u8]) -> String {
    serde_json::from_slice::<Value>(body)
        .ok()
        .and_then(|value| Some(value.get("message")?.as_str()?.to_owned()))
        .unwrap_or_else(|| String::from_utf8_lossy(body).into_owned())
}

/// Hands out the chunks of a body until there are `max` bytes. A slow one has as long as something arrives, up to ten times
/// `limit`: one that sends a byte now and then holds up nothing for long.
async fn read(
    mut response: reqwest::Response,
    limit: Duration,
    max: usize,
    take: &mut (impl FnMut(&[u8]) + Send),
) -> Result<(), EngineError> {
    let (mut length, begun) = (0_usize, Instant::now());
    while length < max {
        let left = limit.saturating_mul(PATIENCE).saturating_sub(begun.elapsed());
        let chunk = timeout(limit.min(left), response.chunk()).await;
        let chunk = chunk.map_err(|_| EngineError::TimedOut(limit))?;
        let Some(chunk) = chunk.map_err(|error| failure(&error))? else {
            break;
        };
        length = length.saturating_add(chunk.len());
        take(&chunk);
    }
    Ok(())
}

fn failure(error: &reqwest::Error) -> EngineError {
    EngineError::Unreachable(innermost(error))
}
