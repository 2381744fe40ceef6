//! bollard's client, with two of its faults (0.21.1) repaired: it leaves out the version prefix, and it writes registry
//! credentials in an alphabet that engines do not read.

use std::sync::Arc;

use bollard::errors::Error as BollardError;
use bollard::{BollardRequest, ClientVersion, Docker};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, USER_AGENT};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::pull;
use super::tls::mutual_tls;
use crate::container::ApiVersion;
use crate::engine::EngineHost;
use crate::engine::credentials::header;
use crate::net::{self, dns::Resolver, tls_without_roots};

/// Makes the client, for this version of the API. Nothing is sent.
pub(super) fn new(host: &EngineHost, api: ApiVersion) -> Result<Docker, BollardError> {
    let version = ClientVersion {
        major_version: api.major.into(),
        minor_version: api.minor.into(),
    };
    // The longest time that any call may take to start its answer; each has its own, shorter limit.
    let seconds = pull::IDLE.as_secs();
    let docker = match host {
        EngineHost::Unix(path) => Docker::connect_with_unix(&path.to_string_lossy(), seconds, &version)?,
        EngineHost::Tcp { address, tls } => {
            let (scheme, tls) = match tls {
                Some(directory) => ("https", mutual_tls(directory)),
                None => ("http", tls_without_roots()),
            };
            Docker::connect_with_custom_transport(
                over_tcp(tls.map_err(std::io::Error::other)?),
                Some(format!("{scheme}://{address}")),
                seconds,
                &version,
            )?
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
        if let Some(header) = request.headers_mut().get_mut(header::HEADER)
            && let Some(repaired) = header
                .to_str()
                .ok()
                .and_then(|text| header::url_safe(text).parse().ok())
        {
            *header = repaired;
        }
        request
    }))
}

/// A connection for each call. bollard's own would trust the system's authorities too, show no certificate, and leave names
/// to the C library.
fn over_tcp(
    tls: rustls::ClientConfig,
) -> impl Fn(BollardRequest) -> BoxFuture<'static, Result<Response<Incoming>, BollardError>> {
    let mut tcp = HttpConnector::new_with_resolver(Resolver::default());
    tcp.enforce_http(false);
    let client = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build(HttpsConnector::from((tcp, tls)));
    let client = Arc::new(client);
    move |request: BollardRequest| {
        let client = Arc::clone(&client);
        async move { client.request(request).await.map_err(BollardError::from) }.boxed()
    }
}

/// The address with `/v1.41` before its path; `None` where it has a version already.
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
                "unix://2f64/containers/json?all=1",
                Some("unix://2f64/v1.41/containers/json?all=1"),
            ),
            ("http://h:2375/version", Some("http://h:2375/v1.41/version")),
            ("unix://2f64/v1.41/containers/json", None),
            ("unix://2f64/v1.53/info", None),
        ] {
            assert_eq!(with_version_prefix(given, api).as_deref(), expected, "{given}");
        }
    }
}
