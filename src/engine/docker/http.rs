//! Raw JSON in and out of the engine's API: documents pass through whole, whatever fields they have.

use std::fs;
use std::path::Path;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode, Url};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::container::ApiVersion;
use crate::engine::{EngineError, EngineHost};
use crate::net::{innermost, tls_builder, tls_without_roots, without_markup};
use crate::text::one_line;

/// An engine's message may hold what a registry or a runtime wrote, in characters.
const MAX_MESSAGE: usize = 2_000;

/// A client of the engine's API that neither models nor alters what it carries.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Raw {
    client: reqwest::Client,
    base: Url,
}

/// A request to come: method, address, body and the time it may take in all.
#[derive(Debug)]
pub(in crate::engine) struct Call {
    method: Method,
    url: Url,
    body: Option<Vec<u8>>,
    header: Option<(&'static str, String)>,
    limit: Duration,
}

impl Raw {
    /// Makes the client; nothing is sent and no socket is opened.
    pub(in crate::engine) fn new(host: &EngineHost) -> Result<Self, EngineError> {
        let broken = |what: String| EngineError::Unreachable(what);
        let builder = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            // A new connection per call: one that idled through an engine's restart would fail a create
            // that never left.
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
        })
    }

    /// A call to a path given in segments, each encoded here; at an API version unless `None`.
    pub(in crate::engine) fn call(
        &self,
        method: Method,
        api: Option<ApiVersion>,
        segments: &[&str],
        limit: Duration,
    ) -> Call {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.clear();
            if let Some(api) = api {
                path.push(&format!("v{api}"));
            }
            path.extend(segments);
        }
        Call {
            method,
            url,
            body: None,
            header: None,
            limit,
        }
    }

    /// Sends a call; the body of a success, an error for anything but 2xx and 304.
    pub(in crate::engine) async fn send(&self, call: Call) -> Result<Vec<u8>, EngineError> {
        self.send_at_most(call, usize::MAX).await
    }

    /// The same for an answer that may have no end: what is beyond so many bytes is not read.
    pub(in crate::engine) async fn send_at_most(
        &self,
        call: Call,
        most: usize,
    ) -> Result<Vec<u8>, EngineError> {
        let limit = call.limit;
        let mut response = self.response(call).await?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failure(&error, limit))? {
            body.extend_from_slice(&chunk);
            if body.len() >= most {
                body.truncate(most);
                break;
            }
        }
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            Ok(body)
        } else {
            Err(refusal(status.as_u16(), &message(&body)))
        }
    }

    /// Sends a HEAD call: a header of a success.
    pub(in crate::engine) async fn header_of(
        &self,
        call: Call,
        name: &str,
    ) -> Result<Option<String>, EngineError> {
        let response = self.response(call).await?;
        let status = response.status();
        if !status.is_success() {
            // An answer to HEAD has no body to tell why.
            return Err(refusal(status.as_u16(), &status.to_string()));
        }
        let value = response.headers().get(name).and_then(|value| value.to_str().ok());
        Ok(value.map(str::to_owned))
    }

    async fn response(&self, call: Call) -> Result<reqwest::Response, EngineError> {
        let limit = call.limit;
        let mut request = self.client.request(call.method, call.url).timeout(limit);
        if let Some((name, value)) = call.header {
            request = request.header(name, value);
        }
        if let Some(body) = call.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        request.send().await.map_err(|error| failure(&error, limit))
    }

    /// Sends a call and reads the answer as JSON.
    pub(in crate::engine) async fn fetch<T: DeserializeOwned>(&self, call: Call) -> Result<T, EngineError> {
        let path = call.url.path().to_owned();
        let body = self.send(call).await?;
        serde_json::from_slice(&body).map_err(|error| EngineError::Malformed(format!("{path}: {error}")))
    }
}

impl Call {
    pub(in crate::engine) fn query(mut self, name: &str, value: &str) -> Self {
        self.url.query_pairs_mut().append_pair(name, value);
        self
    }

    pub(in crate::engine) fn body(mut self, body: &Value) -> Self {
        self.body = Some(body.to_string().into_bytes());
        self
    }

    pub(in crate::engine) fn header(mut self, name: &'static str, value: String) -> Self {
        self.header = Some((name, value));
        self
    }
}

/// What a status that is not a success means.
pub(in crate::engine) fn refusal(status: u16, message: &str) -> EngineError {
    let message = one_line(&without_markup(message), MAX_MESSAGE);
    match status {
        404 => EngineError::NotFound(message),
        409 => EngineError::Conflict(message),
        _ => EngineError::Refused { status, message },
    }
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

/// `ca.pem`, `cert.pem` and `key.pem`, as every Docker client reads them.
fn mutual_tls(directory: &Path) -> Result<rustls::ClientConfig, String> {
    let mut roots = rustls::RootCertStore::empty();
    let authority = directory.join("ca.pem");
    for certificate in certificates(&authority)? {
        roots
            .add(certificate)
            .map_err(|error| format!("{}: {error}", authority.display()))?;
    }
    let key_file = directory.join("key.pem");
    let key = PrivateKeyDer::from_pem_slice(&read(&key_file)?)
        .map_err(|error| format!("{}: no private key: {error}", key_file.display()))?;
    tls_builder()?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates(&directory.join("cert.pem"))?, key)
        .map_err(|error| format!("{}: {error}", directory.display()))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(&read(file)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("{}: {error}", file.display()))?;
    if certificates.is_empty() {
        return Err(format!("{}: no certificate in it", file.display()));
    }
    Ok(certificates)
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn raw() -> Raw {
        Raw::new(&EngineHost::Unix(PathBuf::from("/nowhere/docker.sock"))).unwrap()
    }

    #[test]
    fn every_segment_and_every_parameter_is_encoded() {
        let call = raw()
            .call(
                Method::POST,
                Some(ApiVersion::new(1, 41)),
                &["networks", "a/b?c#d e", "connect"],
                Duration::from_secs(1),
            )
            .query("name", "x&y=z")
            .query("platform", "linux/arm64");
        assert_eq!(
            call.url.as_str(),
            "http://docker/v1.41/networks/a%2Fb%3Fc%23d%20e/connect?name=x%26y%3Dz&platform=linux%2Farm64"
        );
    }

    #[test]
    fn statuses_become_observations_with_the_engine_s_words() {
        let body = br#"{"message":"No such container: x"}"#;
        assert_eq!(
            refusal(404, &message(body)),
            EngineError::NotFound("No such container: x".to_owned())
        );
        assert_eq!(
            refusal(409, &message(b"taken\n")),
            EngineError::Conflict("taken".to_owned())
        );
        let expected = EngineError::Refused {
            status: 403,
            message: "no".to_owned(),
        };
        assert_eq!(refusal(403, &message(br#"{"message":"no"}"#)), expected);
    }

    #[test]
    fn an_error_page_becomes_one_line_without_its_markup() {
        let page = b"<html><body><h1>403 Forbidden</h1>\nBy rule.\n</body></html>\n";
        for (body, words) in [
            (&page[..], "403 Forbidden By rule."),
            (
                br#"{"message":"no such image: <none>\nat all"}"#,
                "no such image: <none> at all",
            ),
        ] {
            let expected = EngineError::Refused {
                status: 403,
                message: words.to_owned(),
            };
            assert_eq!(refusal(403, &message(body)), expected);
        }
    }

    #[test]
    fn a_missing_certificate_is_named() {
        let host = EngineHost::Tcp {
            address: "engine.example:2376".to_owned(),
            tls: Some(PathBuf::from("/nowhere/certs")),
        };
        let error = Raw::new(&host).unwrap_err().to_string();
        assert!(error.contains("/nowhere/certs/ca.pem"), "{error}");
    }
}
