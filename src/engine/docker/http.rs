//! Sends and receives raw JSON over the engine's API. Documents keep all their fields, even unknown ones.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bollard::body_full;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Response, StatusCode};
use reqwest::Url;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::stream::too_much;
use super::transport::{self, Transport};
use crate::container::ApiVersion;
use crate::engine::credentials::header::{self, Account};
use crate::engine::{EngineError, EngineHost};
use crate::net::innermost;

/// The most bytes of one document, and of a list of documents. The parsed form can take sixteen times as much memory, which
/// still fits into the 100 MB that the upgrader may use.
const MOST: usize = 2 << 20;
pub(super) const MOST_OF_DOCUMENTS: usize = 8 << 20;
/// The most bytes of an error message.
const MOST_MESSAGE: usize = 64 << 10;
/// The most bytes of a list that is read element by element.
pub(super) const MOST_OF_LIST: usize = 128 << 20;

/// The total time for an answer that keeps sending data, as a multiple of its limit.
const PATIENCE: u32 = 10;

/// A client for the engine's API that neither models nor alters the documents it carries.
#[derive(Clone)]
pub(super) struct HttpClient {
    pub(super) transport: Transport,
    pub(super) base: Url,
}

/// A request that has not been sent yet.
#[derive(Debug)]
pub(super) struct Request {
    method: Method,
    url: Url,
    body: Option<Vec<u8>>,
    /// The value of [`header::HEADER`].
    login: Option<String>,
    /// The time limit until the next part of the answer must arrive.
    limit: Duration,
    /// The most bytes of the answer to read.
    most: usize,
}

impl HttpClient {
    /// Creates the client without sending anything or opening a socket. Fails if a TLS file cannot be used.
    pub(super) fn new(host: &EngineHost) -> Result<Self, EngineError> {
        let (transport, base) = transport::to(host).map_err(EngineError::Unreachable)?;
        let base = Url::parse(&base).map_err(|error| EngineError::Unreachable(format!("{base}: {error}")))?;
        Ok(Self { transport, base })
    }

    /// Creates a request. Encodes the segments of its path, and puts them below the API version unless that is `None`.
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
            login: None,
            limit,
            most: MOST,
        }
    }

    /// Sends a request and returns the body of the answer. Fails for any status but 2xx and 304, and for too long a body.
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

    /// Sends a request whose answer may be long, and passes on the chunks of its body until `max` bytes have arrived. Fails
    /// for any status but 2xx and 304.
    pub(super) async fn stream(
        &self,
        request: Request,
        max: usize,
        mut take: impl FnMut(&[u8]) + Send,
    ) -> Result<(), EngineError> {
        let limit = request.limit;
        let mut response = self.open(request).await?;
        read(response.body_mut(), limit, max, &mut take).await
    }

    /// Sends a request and returns the answer with its body still unread. Fails for any status but 2xx and 304.
    pub(super) async fn open(&self, request: Request) -> Result<Response<Incoming>, EngineError> {
        let limit = request.limit;
        successful(self.response(request).await?, limit).await
    }

    /// Sends a HEAD request and returns one header of the answer.
    pub(super) async fn header_of(
        &self,
        request: Request,
        name: &str,
    ) -> Result<Option<String>, EngineError> {
        let response = self.response(request).await?;
        let status = response.status();
        if !status.is_success() {
            // An answer to HEAD has no body, and so no message.
            return Err(EngineError::of_status(status.as_u16(), &status.to_string()));
        }
        let value = response.headers().get(name).and_then(|value| value.to_str().ok());
        Ok(value.map(str::to_owned))
    }

    async fn response(&self, request: Request) -> Result<Response<Incoming>, EngineError> {
        let limit = request.limit;
        let mut builder = hyper::Request::builder()
            .method(request.method)
            .uri(request.url.as_str());
        if let Some(login) = request.login {
            builder = builder.header(header::HEADER, login);
        }
        if request.body.is_some() {
            builder = builder.header(CONTENT_TYPE, "application/json");
        }
        let request = builder.body(body_full(request.body.unwrap_or_default().into()));
        let sent = timeout(limit, (self.transport)(request.map_err(|error| failure(&error))?)).await;
        sent.map_err(|_| EngineError::TimedOut(limit))?
            .map_err(|error| failure(&error))
    }
}

/// Shows the method, path and query, which are safe to log.
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

    /// Adds a parameter to the query, if it has a value.
    pub(super) fn query<'a>(mut self, name: &str, value: impl Into<Option<&'a str>>) -> Self {
        if let Some(value) = value.into() {
            self.url.query_pairs_mut().append_pair(name, value);
        }
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

    /// Sends this login of a registry along, if there is one.
    pub(super) fn with(mut self, login: Option<&Account>, registry: &str) -> Self {
        self.login = login.map(|login| login.header(registry));
        self
    }
}

/// Parses the answer to a request to this path as JSON.
pub(super) fn parse<T: DeserializeOwned>(path: &str, body: &[u8]) -> Result<T, EngineError> {
    serde_json::from_slice(body).map_err(|error| EngineError::Malformed(format!("{path}: {error}")))
}

/// Returns the engine's own message, `{"message": …}`, or the whole body if a proxy in between sent the answer.
fn message(body: &[u8]) -> String {
    serde_json::from_slice::<Value>(body)
        .ok()
        .and_then(|value| Some(value.get("message")?.as_str()?.to_owned()))
        .unwrap_or_else(|| String::from_utf8_lossy(body).into_owned())
}

/// Returns an answer with a status of 2xx or 304 as it is, and otherwise an error with the beginning of its message.
pub(super) async fn successful(
    mut response: Response<Incoming>,
    limit: Duration,
) -> Result<Response<Incoming>, EngineError> {
    let status = response.status();
    if status.is_success() || status == StatusCode::NOT_MODIFIED {
        return Ok(response);
    }
    let mut problem = Vec::new();
    read(response.body_mut(), limit, MOST_MESSAGE, &mut |chunk| {
        problem.extend_from_slice(chunk);
    })
    .await?;
    Err(EngineError::of_status(status.as_u16(), &message(&problem)))
}

/// Passes on the chunks of a body until `max` bytes have arrived. Each chunk must arrive within `limit`, and the whole body
/// within ten times `limit`, so that a server that sends a byte now and then cannot block for long.
async fn read(
    body: &mut Incoming,
    limit: Duration,
    max: usize,
    take: &mut (impl FnMut(&[u8]) + Send),
) -> Result<(), EngineError> {
    let (mut length, begun) = (0_usize, Instant::now());
    while length < max {
        let left = limit.saturating_mul(PATIENCE).saturating_sub(begun.elapsed());
        let chunk = timeout(limit.min(left), next_chunk(body)).await;
        let chunk = chunk.map_err(|_| EngineError::TimedOut(limit))?;
        let Some(chunk) = chunk.map_err(|error| failure(&error))? else {
            break;
        };
        length = length.saturating_add(chunk.len());
        take(&chunk);
    }
    Ok(())
}

/// Waits for the next part of a body. Returns `None` at its end.
pub(super) async fn next_chunk(body: &mut Incoming) -> Result<Option<Bytes>, hyper::Error> {
    let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await;
    // Trailers, which no engine sends, are an empty part.
    Ok(frame
        .transpose()?
        .map(|frame| frame.into_data().unwrap_or_default()))
}

/// The error for a request that was not answered, or not to the end.
pub(super) fn failure(error: &(dyn Error + 'static)) -> EngineError {
    EngineError::Unreachable(innermost(error))
}
