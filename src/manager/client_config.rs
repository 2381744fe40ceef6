//! How to reach a Manager: the configuration of the client, checked and turned into an HTTP client.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::{Certificate, Client, Identity, Proxy, Url, redirect};

use super::response::MAX_SHOWN;
use super::token::DelegateToken;
use super::transport_error::reason;
use crate::text::one_line;

/// How to reach a Manager, and as whom.
pub struct ManagerConfig {
    /// `MANAGER_HOST_AND_PORT`: scheme, host, and port and path prefix where there are some.
    pub base_url: String,
    /// `ACCOUNT_ID`.
    pub account_id: String,
    /// `UPGRADER_TOKEN`.
    pub delegate_token: DelegateToken,
    /// This host's name: who asks.
    pub host_name: String,
    /// Whether asking counts as "auto upgrade is on" in the Manager's UI: true for an upgrader that upgrades, false
    /// for one that only looks.
    pub reports_upgrader: bool,
    /// `User-Agent`.
    pub user_agent: String,
    /// The proxy to go through, with its exceptions; nothing is read from the environment here.
    pub proxy: Option<Proxy>,
    /// Whether that proxy is spoken to by plain http.
    pub proxy_is_plain: bool,
    /// PEM certificates to trust beside those of the system.
    pub ca_bundle: Option<Vec<u8>>,
    /// PEM certificate chain and private key, for mTLS.
    pub client_identity: Option<Vec<u8>>,
    /// The bounds on waiting.
    pub timing: Timing,
    /// The clock: seconds matter, since a token has a time in which it is good.
    pub clock: fn() -> DateTime<Utc>,
}

impl ManagerConfig {
    /// What is needed; the rest as in production.
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
            .field("stamps", &self.reports_upgrader)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}

/// The bounds on waiting for a Manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// For a connection, TLS included.
    pub connect: Duration,
    /// For one question, its retries and the pauses between them included.
    pub total: Duration,
    /// The pause before the first retry; it doubles with each.
    pub first_pause: Duration,
    /// A retry with less time left than this is not begun.
    pub least_attempt: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            total: Duration::from_secs(30),
            first_pause: Duration::from_millis(500),
            least_attempt: Duration::from_secs(5),
        }
    }
}

/// Why a client could not be made: the configuration is wrong. No text repeats a value that may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagerSetupError {
    /// The base URL.
    #[error("MANAGER_HOST_AND_PORT: {0}; it is https://host[:port][/path], as in https://app.harness.io")]
    BaseUrl(String),
    /// The additional certificates.
    #[error("CA_BUNDLE: {0}; it holds one or more certificates in PEM form")]
    CaBundle(String),
    /// The client's certificate and key.
    #[error("CLIENT_CERT, CLIENT_KEY: {0}; they are a certificate chain and its private key in PEM form")]
    ClientIdentity(String),
    /// The whole: most often there are no CA certificates on the system.
    #[error(
        "the HTTPS client cannot be set up: {0}; where CA certificates are missing, install them (ca-certificates), name a \
         file of them in SSL_CERT_FILE, or the Manager's own in CA_BUNDLE"
    )]
    Client(String),
}

/// The base URL, if it can be one.
pub(super) fn base_url(text: &str) -> Result<Url, ManagerSetupError> {
    let refuse = |reason: &str| Err(ManagerSetupError::BaseUrl(reason.to_owned()));
    let Ok(url) = Url::parse(text.trim()) else {
        return refuse("this is no URL");
    };
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return refuse("the scheme is neither https nor http");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("a user name or password has no place in it");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refuse("a query or a fragment has no place in it");
    }
    Ok(url)
}

/// Where the question goes. Only `delegate-v2` stamps the time that the Manager's UI shows as auto upgrade.
pub(super) fn endpoint(base: &Url, reports_upgrader: bool) -> Result<Url, ManagerSetupError> {
    let mut endpoint = base.clone();
    let question = if reports_upgrader {
        "delegate-v2"
    } else {
        "delegate"
    };
    endpoint
        .path_segments_mut()
        .map_err(|()| ManagerSetupError::BaseUrl("it can have no path".to_owned()))?
        .pop_if_empty()
        .extend(["api", "upgrade-check", question]);
    Ok(endpoint)
}

/// `scheme://host:port`, the port always there.
pub(super) fn audience(base: &Url) -> String {
    let host = base.host_str().unwrap_or_default();
    let port = base.port_or_known_default().unwrap_or_default();
    format!("{}://{host}:{port}", base.scheme())
}

/// The HTTP client: no redirects, nothing from the environment.
pub(super) fn client(config: &ManagerConfig, base: &Url) -> Result<Client, ManagerSetupError> {
    // Err: somebody installed one before, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(&config.user_agent)
        .redirect(redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .connect_timeout(config.timing.connect);
    let plain = base.scheme() == "http" && (config.proxy.is_none() || config.proxy_is_plain);
    if let Some(proxy) = &config.proxy {
        builder = builder.proxy(proxy.clone());
    }
    if plain {
        // No TLS: so no CA certificates need be there, nor be loaded.
        builder = builder.tls_certs_only([]);
    } else if let Some(pem) = &config.ca_bundle {
        let refuse = |reason: &str| ManagerSetupError::CaBundle(reason.to_owned());
        let certificates = Certificate::from_pem_bundle(pem).map_err(|_| refuse("it is not PEM"))?;
        if certificates.is_empty() {
            return Err(refuse("there is no certificate in it"));
        }
        builder = builder.tls_certs_merge(certificates);
    }
    if let Some(pem) = &config.client_identity {
        let identity =
            Identity::from_pem(pem).map_err(|error| ManagerSetupError::ClientIdentity(reason(&error)))?;
        builder = builder.identity(identity);
    }
    builder
        .build()
        .map_err(|error| ManagerSetupError::Client(one_line(&reason(&error.without_url()), MAX_SHOWN)))
}

#[cfg(test)]
mod tests {
    use super::super::HttpManager;
    use super::*;

    fn refusal(base_url: &str) -> Option<ManagerSetupError> {
        HttpManager::new(ManagerConfig::new(base_url, "acct", [7; 16], "host-1")).err()
    }

    #[test]
    fn a_base_url_that_cannot_be_is_refused_and_never_repeated() {
        for base in [
            "",
            "app.harness.io",
            "app.harness.io:443",
            "ftp://hunter2.example",
            "file:///hunter2",
            "https://user:hunter2@app.harness.io",
            "https://hunter2@app.harness.io",
            "https://app.harness.io?token=hunter2",
            "https://app.harness.io#hunter2",
            "https://",
            "mailto:hunter2@example",
        ] {
            let error = refusal(base).unwrap_or_else(|| panic!("{base}"));
            assert!(matches!(error, ManagerSetupError::BaseUrl(_)), "{base}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

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

    #[test]
    fn certificates_that_are_none_are_refused() {
        let config = || ManagerConfig::new("https://m", "acct", [0; 16], "host-1");
        for pem in [
            "",
            "garbage",
            "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----",
        ] {
            let with_ca = ManagerConfig {
                ca_bundle: Some(pem.into()),
                ..config()
            };
            let error = HttpManager::new(with_ca).err().unwrap();
            assert!(matches!(error, ManagerSetupError::CaBundle(_)), "{error}");
            let with_identity = ManagerConfig {
                client_identity: Some(pem.into()),
                ..config()
            };
            let error = HttpManager::new(with_identity).err().unwrap();
            assert!(matches!(error, ManagerSetupError::ClientIdentity(_)), "{error}");
        }
    }
}
