//! bollard's client, with fixes for two faults (0.21.1): it omits the version prefix, and it reads error messages of any
//! size. The client only sends commands, and reads nothing but the status of their answers.

use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bollard::errors::Error as BollardError;
use bollard::{BollardRequest, ClientVersion, Docker};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::body::{Body as _, Incoming};
use hyper::header::{HeaderValue, USER_AGENT};
use hyper::{Response, StatusCode, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;
use tower_service::Service;

use super::WRITE;
use super::http::{MOST_MESSAGE, message};
use super::tls::mutual_tls;
use crate::container::ApiVersion;
use crate::engine::EngineHost;
use crate::net::{self, dns::Resolver, tls_without_roots};

/// Creates the client for this version of the API. It sends nothing.
pub(super) fn new(host: &EngineHost, api: ApiVersion) -> Result<Docker, BollardError> {
    let version = ClientVersion {
        major_version: api.major.into(),
        minor_version: api.minor.into(),
    };
    // The limit until an answer starts. The caller limits the whole call.
    let seconds = WRITE.as_secs();
    let docker = match host {
        EngineHost::Unix(path) => {
            let socket = over(Socket(path.clone()));
            Docker::connect_with_custom_transport(socket, Some("http://docker"), seconds, &version)?
        }
        EngineHost::Tcp { address, tls } => {
            let (scheme, tls) = match tls {
                Some(directory) => ("https", mutual_tls(directory)),
                None => ("http", tls_without_roots()),
            };
            // bollard's own connector would also trust the system's CAs, send no certificate, and use the C library for DNS.
            let mut tcp = HttpConnector::new_with_resolver(Resolver::default());
            tcp.enforce_http(false);
            let tcp = HttpsConnector::from((tcp, tls.map_err(std::io::Error::other)?));
            let address = format!("{scheme}://{address}");
            Docker::connect_with_custom_transport(over(tcp), Some(address), seconds, &version)?
        }
    };
    Ok(docker.with_request_modifier(move |mut request| {
        let name = HeaderValue::from_static(net::client::USER_AGENT);
        request.headers_mut().insert(USER_AGENT, name);
        if let Some(uri) =
            with_version_prefix(&request.uri().to_string(), api).and_then(|uri| uri.parse().ok())
        {
            *request.uri_mut() = uri;
        }
        request
    }))
}

/// Opens a new connection for each call.
fn over(
    connector: impl Connect + Clone + Send + Sync + 'static,
) -> impl Fn(BollardRequest) -> BoxFuture<'static, Result<Response<Incoming>, BollardError>> {
    let client = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build(connector);
    let client = Arc::new(client);
    move |request: BollardRequest| {
        let client = Arc::clone(&client);
        async move { successful(client.request(request).await?).await }.boxed()
    }
}

/// Returns a successful answer as it is, and otherwise an error with the beginning of its message.
async fn successful(response: Response<Incoming>) -> Result<Response<Incoming>, BollardError> {
    let status = response.status();
    if status.is_success() || status == StatusCode::NOT_MODIFIED {
        return Ok(response);
    }
    let (mut body, mut problem) = (response.into_body(), Vec::new());
    while problem.len() < MOST_MESSAGE
        && let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
    {
        if let Some(data) = frame?.data_ref() {
            problem.extend_from_slice(data);
        }
    }
    Err(BollardError::DockerResponseServerError {
        status_code: status.as_u16(),
        message: message(&problem),
    })
}

/// Connects to the engine's socket, ignoring the address.
#[derive(Clone)]
struct Socket(PathBuf);

impl Service<Uri> for Socket {
    type Response = TokioIo<UnixStream>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let path = self.0.clone();
        async { UnixStream::connect(path).await.map(TokioIo::new) }.boxed()
    }
}

/// Returns the address with `/v1.41` before its path, or `None` if it already has a version.
fn with_version_prefix(uri: &str, api: ApiVersion) -> Option<String> {
    let (scheme, rest) = uri.split_once("://")?;
    let (authority, path) = rest.split_once('/')?;
    let versioned = path
        .strip_prefix('v')
        .and_then(|rest| rest.split('/').next())
        .is_some_and(|version| version.parse::<ApiVersion>().is_ok());
    (!versioned).then(|| format!("{scheme}://{authority}/v{api}/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_prefix_is_added_once() {
        let api = ApiVersion::new(1, 41);
        for (given, expected) in [
            (
                "http://docker/containers/json?all=1",
                Some("http://docker/v1.41/containers/json?all=1"),
            ),
            ("http://h:2375/version", Some("http://h:2375/v1.41/version")),
            ("http://h:2375/v1.41/containers/json", None),
            ("http://h:2375/v1.53/info", None),
        ] {
            assert_eq!(with_version_prefix(given, api).as_deref(), expected, "{given}");
        }
    }
}
