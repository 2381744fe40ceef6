//! Why the published image is not known: one variant for each thing a person would do about it.

use std::time::Duration;

use crate::image::ReferenceError;
use crate::text::duration;

/// Why the published image is not known.
///
/// Texts in it that came from outside are cut short, free of control characters and of the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagerError {
    /// No connection, or it broke.
    #[error(
        "the Manager is out of reach: {0}; check MANAGER_HOST_AND_PORT, the host's DNS, the proxy and the firewall"
    )]
    Unreachable(String),
    /// A connection, but no trust: why, and what to do.
    #[error("no trusted TLS connection to the Manager: {0}")]
    Tls(String),
    /// It does not trust us, or does not know whom it talks to: mTLS.
    #[error(
        "the Manager takes no connection without a client certificate that it trusts: {0}; CLIENT_CERT and CLIENT_KEY \
         are missing, or not what it wants"
    )]
    ClientCertificate(String),
    /// A proxy does not know us: at our request, or at our wish for a tunnel.
    #[error(
        "the proxy refuses the login: PROXY_USER and PROXY_PASSWORD, or those in HTTPS_PROXY or HTTP_PROXY, are missing or wrong"
    )]
    ProxyLogin,
    /// No whole answer in time.
    #[error("the Manager gave no answer within {}; check the proxy and the firewall", duration::text(*.0))]
    Timeout(Duration),
    /// 401 `INVALID_TOKEN`.
    #[error(
        "the Manager does not know the token (INVALID_TOKEN); UPGRADER_TOKEN must be a delegate token of this ACCOUNT_ID"
    )]
    TokenUnknown,
    /// 401 `REVOKED_TOKEN`.
    #[error(
        "the token was revoked (REVOKED_TOKEN); put a delegate token that is in force into UPGRADER_TOKEN"
    )]
    TokenRevoked,
    /// 401 `EXPIRED_TOKEN`: each request's token is made here and now, so one of the two clocks is wrong.
    #[error("the Manager takes a token made just now for expired (EXPIRED_TOKEN); {}", skew_in_words(*.skew_seconds))]
    TokenExpired {
        /// This host's clock minus the Manager's `Date` header, in seconds; `None` without such a header.
        skew_seconds: Option<i64>,
    },
    /// 401 `INVALID_AGENT_MTLS_AUTHORITY`.
    #[error(
        "the account's delegates must come through its mTLS endpoint (INVALID_AGENT_MTLS_AUTHORITY); set \
         MANAGER_HOST_AND_PORT to that endpoint and give CLIENT_CERT and CLIENT_KEY"
    )]
    WrongEndpoint,
    /// 400 "Access denied": the account is unknown.
    #[error("the Manager knows no such account (access denied); check ACCOUNT_ID and MANAGER_HOST_AND_PORT")]
    AccessDenied,
    /// Any other 400.
    #[error(
        "the Manager refused the request ({code}): {message}; check ACCOUNT_ID and UPGRADER_WORKLOAD_NAME"
    )]
    InvalidRequest {
        /// The Manager's code: `INVALID_REQUEST`, `INVALID_ARGUMENT`.
        code: String,
        /// The Manager's words.
        message: String,
    },
    /// Any other 4xx: most often no Manager at this address, or a proxy in between.
    #[error(
        "{status} instead of the Manager's answer: {message}; check MANAGER_HOST_AND_PORT (its path too) and the proxy"
    )]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What the answer said of itself.
        message: String,
    },
    /// 429.
    #[error("the Manager limits the rate of requests (429){}", wait_in_words(*.retry_after))]
    RateLimited {
        /// How long the Manager asks to wait.
        retry_after: Option<Duration>,
    },
    /// 5xx.
    #[error("the Manager failed ({status}): {message}; the next run asks again")]
    Server {
        /// The HTTP status.
        status: u16,
        /// The Manager's words.
        message: String,
    },
    /// 3xx: not followed, since the token goes with the request.
    #[error(
        "the Manager redirects ({status}) to {to}; redirects are not followed: set MANAGER_HOST_AND_PORT to the final address"
    )]
    Redirect {
        /// The HTTP status.
        status: u16,
        /// Scheme, host and port of the other place.
        to: String,
    },
    /// A body beyond all reason.
    #[error(
        "the answer is larger than {limit} bytes: that is no Manager; check MANAGER_HOST_AND_PORT and the proxy"
    )]
    TooLarge {
        /// The bound, in bytes.
        limit: usize,
    },
    /// A 200 that is not what the protocol promises.
    #[error("the answer is not a Manager's ({0}); check MANAGER_HOST_AND_PORT and the proxy")]
    Malformed(String),
    /// The published image is no image reference.
    #[error(
        "the Manager published something that cannot be pulled: {0}; check the account's delegate image override"
    )]
    BadReference(ReferenceError),
    /// No token could be made: the system gave no random numbers.
    #[error("no token could be made: {0}")]
    NoToken(String),
}

impl ManagerError {
    /// Whether the Manager itself is out of reach: it would be for the delegates too, so their health says nothing
    /// about their image.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Unreachable(_)
            | Self::Tls(_)
            | Self::ClientCertificate(_)
            | Self::ProxyLogin
            | Self::Timeout(_)
            | Self::Server { .. }
            | Self::RateLimited { .. } => true,
            Self::TokenUnknown
            | Self::TokenRevoked
            | Self::TokenExpired { .. }
            | Self::WrongEndpoint
            | Self::AccessDenied
            | Self::InvalidRequest { .. }
            | Self::Refused { .. }
            | Self::Redirect { .. }
            | Self::TooLarge { .. }
            | Self::Malformed(_)
            | Self::BadReference(_)
            | Self::NoToken(_) => false,
        }
    }

    /// One word for it, stable: a metric's label.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Tls(_) => "tls",
            Self::ClientCertificate(_) => "client_certificate",
            Self::ProxyLogin => "proxy_login",
            Self::Timeout(_) => "timeout",
            Self::TokenUnknown => "token_unknown",
            Self::TokenRevoked => "token_revoked",
            Self::TokenExpired { .. } => "token_expired",
            Self::WrongEndpoint => "wrong_endpoint",
            Self::AccessDenied => "access_denied",
            Self::InvalidRequest { .. } => "invalid_request",
            Self::Refused { .. } => "refused",
            Self::RateLimited { .. } => "rate_limited",
            Self::Server { .. } => "server",
            Self::Redirect { .. } => "redirect",
            Self::TooLarge { .. } => "too_large",
            Self::Malformed(_) => "malformed",
            Self::BadReference(_) => "bad_reference",
            Self::NoToken(_) => "no_token",
        }
    }

    /// Whether asking again within seconds may help.
    pub(super) fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_) | Self::Timeout(_) | Self::Server { .. } | Self::RateLimited { .. }
        )
    }
}

fn wait_in_words(retry_after: Option<Duration>) -> String {
    match retry_after {
        None => "; the next run asks again".to_owned(),
        Some(wait) => format!(
            " and asks to wait {}; the next run after that asks again",
            duration::text(wait)
        ),
    }
}

/// Below this the clocks agree: the header has whole seconds, and the answer took its way.
const CLOCKS_AGREE_SECONDS: u64 = 60;

fn skew_in_words(skew_seconds: Option<i64>) -> String {
    match skew_seconds {
        None => "compare this host's clock with the Manager's".to_owned(),
        Some(skew) => clock_problem(skew).unwrap_or_else(|| {
            "yet the two clocks agree: a proxy may be replaying an old request".to_owned()
        }),
    }
}

/// What is wrong with a clock that is so many seconds ahead of the Manager's; `None` where they agree.
pub(crate) fn clock_problem(skew_seconds: i64) -> Option<String> {
    if skew_seconds.unsigned_abs() <= CLOCKS_AGREE_SECONDS {
        return None;
    }
    let direction = if skew_seconds < 0 { "behind" } else { "ahead of" };
    // In whole minutes: the seconds are those of the answer's way.
    let skew = duration::text(Duration::from_secs(skew_seconds.unsigned_abs() / 60 * 60));
    Some(format!(
        "this host's clock is {skew} {direction} the Manager's: set it right (NTP)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expired_token_is_a_wrong_clock_told_in_words() {
        for (skew_seconds, words) in [
            (
                Some(-7_380),
                "this host's clock is 2h3m behind the Manager's: set it right (NTP)",
            ),
            (
                Some(86_400),
                "this host's clock is 1d ahead of the Manager's: set it right (NTP)",
            ),
            (
                Some(-3),
                "yet the two clocks agree: a proxy may be replaying an old request",
            ),
            (None, "compare this host's clock with the Manager's"),
        ] {
            let error = ManagerError::TokenExpired { skew_seconds }.to_string();
            assert!(error.ends_with(words), "{error}");
        }
    }

    #[test]
    fn every_error_is_one_line_with_its_own_kind() {
        let text = || "reason".to_owned();
        let errors = [
            ManagerError::Unreachable(text()),
            ManagerError::Tls(text()),
            ManagerError::ClientCertificate(text()),
            ManagerError::ProxyLogin,
            ManagerError::Timeout(Duration::from_secs(30)),
            ManagerError::TokenUnknown,
            ManagerError::TokenRevoked,
            ManagerError::TokenExpired { skew_seconds: None },
            ManagerError::WrongEndpoint,
            ManagerError::AccessDenied,
            ManagerError::InvalidRequest {
                code: text(),
                message: text(),
            },
            ManagerError::Refused {
                status: 404,
                message: text(),
            },
            ManagerError::RateLimited {
                retry_after: Some(Duration::from_secs(90)),
            },
            ManagerError::Server {
                status: 503,
                message: text(),
            },
            ManagerError::Redirect {
                status: 302,
                to: text(),
            },
            ManagerError::TooLarge { limit: 65_536 },
            ManagerError::Malformed(text()),
            ManagerError::BadReference("a b".parse::<crate::image::ImageReference>().unwrap_err()),
            ManagerError::NoToken(text()),
        ];
        let mut kinds = std::collections::BTreeSet::new();
        for error in &errors {
            assert!(kinds.insert(error.kind()), "{} is there twice", error.kind());
            let line = error.to_string();
            assert!(!line.contains('\n') && !line.contains("  "), "{line}");
        }
        let outages: Vec<_> = errors
            .iter()
            .filter(|e| e.is_outage())
            .map(ManagerError::kind)
            .collect();
        assert_eq!(
            outages,
            [
                "unreachable",
                "tls",
                "client_certificate",
                "proxy_login",
                "timeout",
                "rate_limited",
                "server"
            ]
        );
    }

    #[test]
    fn a_rate_limit_says_how_long_to_wait_if_the_manager_does() {
        let error = ManagerError::RateLimited {
            retry_after: Some(Duration::from_secs(90)),
        };
        assert_eq!(
            error.to_string(),
            "the Manager limits the rate of requests (429) and asks to wait 1m30s; the next run after \
             that asks again"
        );
        let error = ManagerError::RateLimited { retry_after: None };
        assert_eq!(
            error.to_string(),
            "the Manager limits the rate of requests (429); the next run asks again"
        );
    }
}
