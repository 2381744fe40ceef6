//! The configuration of the Manager's client, and the URLs that follow from it.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::Url;

use super::token::DelegateToken;
use crate::net::client::Connection;

/// How to reach a Manager, and as whom.
pub struct ManagerConfig {
    /// `MANAGER_HOST_AND_PORT`: scheme and host, perhaps with a port and a path.
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

/// The URL of an upgrade check. Of those for delegates, only `delegate-v2` records the time from which the Manager's UI
/// derives AUTO UPGRADE.
pub(super) fn endpoint(base: &Url, resource: &str) -> Url {
    let mut endpoint = base.clone();
    // Err: a URL without a host, which the settings exclude.
    if let Ok(mut segments) = endpoint.path_segments_mut() {
        segments.pop_if_empty().extend(["api", "upgrade-check", resource]);
    }
    endpoint
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
            assert_eq!(audience(&base.parse().unwrap()), expected);
        }
    }
}
