//! bollard's client over our transport, with fixes for two faults (0.21.1): it omits the version prefix, and it reads error
//! messages of any size. The client only sends commands, and reads nothing but the status of their answers.

use std::io;

use bollard::errors::Error as BollardError;
use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker};
use hyper::Uri;

use super::WRITE;
use super::http::{HttpClient, failure, successful};
use crate::container::ApiVersion;
use crate::engine::EngineError;
use crate::net::innermost;

/// Creates the client for this version of the API. It sends nothing.
pub(super) fn new(http: &HttpClient, api: ApiVersion) -> Result<Docker, EngineError> {
    let transport = http.transport.clone();
    let send = move |mut request: BollardRequest| {
        with_version_prefix(request.uri_mut(), api);
        let sent = transport(request);
        async {
            let answer = sent.await.map_err(|error| failure(&error));
            let answer = async { successful(answer?, WRITE).await };
            answer.await.map_err(|error| io::Error::other(error).into())
        }
    };
    // The limit until an answer starts. The caller limits the whole call. The version reaches no request.
    Docker::connect_with_custom_transport(
        send,
        Some(http.base.as_str().trim_end_matches('/')),
        WRITE.as_secs(),
        API_DEFAULT_VERSION,
    )
    .map_err(to_engine_error)
}

/// Returns the error of our transport, or converts bollard's own.
pub(super) fn to_engine_error(error: BollardError) -> EngineError {
    match error {
        BollardError::IOError { err } => err.downcast().unwrap_or_else(|error| failure(&error)),
        BollardError::RequestTimeoutError => EngineError::TimedOut(WRITE),
        other => EngineError::Unreachable(innermost(&other)),
    }
}

/// Puts `/v1.41` before the path of an address.
fn with_version_prefix(uri: &mut Uri, api: ApiVersion) {
    let mut parts = std::mem::take(uri).into_parts();
    let path = parts.path_and_query.take();
    parts.path_and_query = path.and_then(|path| format!("/v{api}{path}").parse().ok());
    *uri = Uri::from_parts(parts).unwrap_or_default();
}
