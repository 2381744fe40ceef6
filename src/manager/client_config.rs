//! The Manager client's configuration, checked and turned into an HTTP client.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::Url;

use super::token::DelegateToken;
use crate::net::client::{ClientError, Connection};

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
    /// The proxy and certificates.
    pub connection: Connection,
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
            connection: Connection::default(),
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
    /// The certificates, or the client as a whole.
    #[error(transparent)]
    Client(#[from] ClientError),
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

/// The URL of an upgrade check. Of those for delegates, only `delegate-v2` records the time from which the Manager's UI
/// derives AUTO UPGRADE.
pub(super) fn endpoint(base: &Url, resource: &str) -> Result<Url, ManagerSetupError> {
    let mut endpoint = base.clone();
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
