//! The configuration of the Manager's client.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::Url;

use super::token::DelegateToken;
use crate::net::client::{CONNECT_TIMEOUT, Egress};

/// The Manager, and the account whose published image is followed.
#[derive(Clone, Debug)]
pub struct ManagerSettings {
    /// `ACCOUNT_ID`.
    pub account_id: String,
    /// `MANAGER_HOST_AND_PORT`: scheme and host, with an optional port and path, without a trailing slash.
    pub base_url: String,
    /// `UPGRADER_TOKEN`: a delegate token of that account.
    pub token: DelegateToken,
}

/// A Manager, and the identity of this client.
pub struct ManagerConfig {
    /// Its settings.
    pub manager: ManagerSettings,
    /// The name of this host, which is the issuer of the tokens.
    pub host_name: String,
    /// Whether the Manager's UI shows AUTO UPGRADE ON for the workloads in the requests. True for a daemon that upgrades,
    /// false for one that only checks.
    pub reports_upgrader: bool,
    /// The proxy and certificates.
    pub egress: Egress,
    /// The limits on waiting.
    pub timing: Timing,
    /// The clock for issuing tokens.
    pub clock: fn() -> DateTime<Utc>,
}

impl ManagerConfig {
    /// Creates a configuration from the mandatory settings. All others have their production values.
    pub fn new(manager: ManagerSettings, host_name: impl Into<String>) -> Self {
        Self {
            manager,
            host_name: host_name.into(),
            reports_upgrader: false,
            egress: Egress::default(),
            timing: Timing::default(),
            clock: Utc::now,
        }
    }
}

impl fmt::Debug for ManagerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerConfig")
            .field("account_id", &self.manager.account_id)
            .field("host_name", &self.host_name)
            .field("reports_upgrader", &self.reports_upgrader)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}

/// The limits on waiting for a Manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The limit for a connection, including TLS.
    pub connect: Duration,
    /// The limit for one question, including its retries and the pauses between them.
    pub total: Duration,
    /// The pause before the first retry. It doubles with each retry.
    pub first_pause: Duration,
    /// The least time that must remain for a retry.
    pub min_attempt: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: CONNECT_TIMEOUT,
            total: Duration::from_secs(30),
            first_pause: Duration::from_millis(500),
            min_attempt: Duration::from_secs(5),
        }
    }
}

/// Returns `scheme://host:port`, always with the port.
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
