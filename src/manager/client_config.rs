//! The Manager client's configuration, checked and turned into an HTTP client.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::{Client, Proxy, Url, redirect};
use rustls::sign::CertifiedKey;

use super::response::MAX_SHOWN;
use super::token::DelegateToken;
use super::transport_error::reason;
use super::trust;
use crate::net::{certificates, tls_without_roots};
use crate::text::one_line;

/// How to reach a Manager, and as whom.
pub struct ManagerConfig {
    /// `MANAGER_HOST_AND_PORT`: scheme, host, and port and path prefix where there are some.
    pub base_url: String,
    /// `ACCOUNT_ID`.
    pub account_id: String,
    /// `UPGRADER_TOKEN`.
    pub delegate_token: DelegateToken,
    /// This host's name, the issuer of the tokens.
    pub host_name: String,
    /// Whether the Manager's UI shows AUTO UPGRADE ON for the workloads that are asked about: for a daemon that
    /// upgrades, not for one that only checks.
    pub reports_upgrader: bool,
    /// `User-Agent`.
    pub user_agent: String,
    /// The proxy to go through, with its exceptions; nothing is read from the environment here.
    pub proxy: Option<Proxy>,
    /// Whether that proxy is reached over plain HTTP.
    pub proxy_is_plain: bool,
    /// PEM certificates to trust beside those of the system: authorities, and servers' own.
    pub ca_bundle: Option<Vec<u8>>,
    /// For mTLS.
    pub client_identity: Option<ClientIdentity>,
    /// The bounds on waiting.
    pub timing: Timing,
    /// The clock that tokens are issued by.
    pub clock: fn() -> DateTime<Utc>,
}

impl ManagerConfig {
    /// The mandatory settings; all others as in production.
    pub fn new(
        base_url: impl Into<String>,
        account_id: impl Into<String>,
        delegate_token: impl Into<DelegateToken>,
        host_name: impl Into<String>,
    ) -> Self {
        Self {
            base_url: base_url.into(),
            account_id: account_id.into(),
            delegate_token: delegate_token.into(),
            host_name: host_name.into(),
            reports_upgrader: false,
            user_agent: concat!("delegate-upgrader/", env!("CARGO_PKG_VERSION")).to_owned(),
            proxy: None,
            proxy_is_plain: false,
            ca_bundle: None,
            client_identity: None,
            timing: Timing::default(),
            clock: Utc::now,
        }
    }
}

impl fmt::Debug for ManagerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerConfig")
            .field("account_id", &self.account_id)
            .field("host_name", &self.host_name)
            .field("reports_upgrader", &self.reports_upgrader)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}

/// What a Manager that requires a client certificate gets.
#[derive(Clone)]
pub struct ClientIdentity {
    /// PEM certificate chain, the client's own certificate first.
    pub certificate: Vec<u8>,
    /// PEM private key of that certificate.
    pub key: Vec<u8>,
}

/// The bounds on waiting for a Manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// For a connection, including TLS.
    pub connect: Duration,
    /// For one question, including its retries and the pauses between them.
    pub total: Duration,
    /// The pause before the first retry; it doubles with each.
    pub first_pause: Duration,
    /// The least time that a retry must have left.
    pub min_attempt: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            total: Duration::from_secs(30),
            first_pause: Duration::from_millis(500),
            min_attempt: Duration::from_secs(5),
        }
    }
}

/// Why a client could not be created: the configuration is wrong. No text repeats a value that may contain a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagerSetupError {
    /// The base URL.
    #[error(
        "MANAGER_HOST_AND_PORT: {0}; expected https://host[:port][/path], such as https://app.harness.io"
    )]
    BaseUrl(String),
    /// The additional certificates.
    #[error("CA_BUNDLE: {0}; expected one or more certificates in PEM format")]
    CaBundle(String),
    /// The client's certificate and key.
    #[error("CLIENT_CERT, CLIENT_KEY: {0}; expected a certificate chain and its private key in PEM format")]
    ClientIdentity(String),
    /// The client as a whole: most often the system has no CA certificates.
    #[error(
        "cannot set up the HTTPS client: {0}; if CA certificates are missing, install them (ca-certificates), or set \
         SSL_CERT_FILE to a file of them or CA_BUNDLE to the Manager's own"
    )]
    Client(String),
}

/// Parses `MANAGER_HOST_AND_PORT`.
pub(super) fn base_url(text: &str) -> Result<Url, ManagerSetupError> {
    let refuse = |reason: &str| Err(ManagerSetupError::BaseUrl(reason.to_owned()));
    let Ok(url) = Url::parse(text.trim()) else {
        return refuse("not a URL");
    };
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return refuse("the scheme must be https or http");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("user names and passwords are not accepted");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refuse("queries and fragments are not accepted");
    }
    Ok(url)
}

/// The URL of the upgrade check. Only `delegate-v2` records the time from which the Manager's UI derives AUTO UPGRADE.
pub(super) fn endpoint(base: &Url, reports_upgrader: bool) -> Result<Url, ManagerSetupError> {
    let mut endpoint = base.clone();
    let resource = if reports_upgrader {
        "delegate-v2"
    } else {
        "delegate"
    };
    endpoint
        .path_segments_mut()
        .map_err(|()| ManagerSetupError::BaseUrl("it cannot have a path".to_owned()))?
        .pop_if_empty()
        .extend(["api", "upgrade-check", resource]);
    Ok(endpoint)
}

/// `scheme://host:port`, always with the port.
pub(super) fn audience(base: &Url) -> String {
    let host = base.host_str().unwrap_or_default();
    let port = base.port_or_known_default().unwrap_or_default();
    format!("{}://{host}:{port}", base.scheme())
}

/// The HTTP client: no redirects, nothing from the environment.
pub(super) fn client(config: &ManagerConfig, base: &Url) -> Result<Client, ManagerSetupError> {
    // For clients without a TLS configuration of their own, such as those of the tests. Err: one is installed already,
    // which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let broken = |reason: &str| ManagerSetupError::Client(one_line(reason, MAX_SHOWN));
    let authorities = match &config.ca_bundle {
        Some(pem) => certificates::authorities(pem).map_err(ManagerSetupError::CaBundle)?,
        None => Vec::new(),
    };
    let identity = match &config.client_identity {
        Some(files) => Some(identity(files).map_err(ManagerSetupError::ClientIdentity)?),
        None => None,
    };
    let plain = base.scheme() == "http" && (config.proxy.is_none() || config.proxy_is_plain);
    let tls = if plain {
        // Without TLS, no CA certificates are needed or loaded.
        tls_without_roots()
    } else {
        trust::tls(authorities, identity)
    };
    let mut builder = Client::builder()
        .user_agent(&config.user_agent)
        .redirect(redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .connect_timeout(config.timing.connect)
        .tls_backend_preconfigured(tls.map_err(|error| broken(&error))?);
    if let Some(proxy) = &config.proxy {
        builder = builder.proxy(proxy.clone());
    }
    builder
        .build()
        .map_err(|error| broken(&reason(&error.without_url())))
}

fn identity(files: &ClientIdentity) -> Result<CertifiedKey, String> {
    certificates::identity(
        certificates::chain(&files.certificate)?,
        certificates::signing_key(&files.key)?,
        "CLIENT_CERT",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audience_always_has_its_port() {
        for (base, expected) in [
            ("https://manager.example", "https://manager.example:443"),
            ("https://manager.example/gratis", "https://manager.example:443"),
            ("http://m:8080", "http://m:8080"),
            ("http://[::1]", "http://[::1]:80"),
        ] {
            assert_eq!(audience(&base_url(base).unwrap()), expected);
        }
    }
}
