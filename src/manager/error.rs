//! Why the published image is unknown. Each variant calls for a different action of the operator.

use std::time::Duration;

use crate::image::ReferenceError;
use crate::net::retry::Retry;
use crate::text::duration;

/// Why the published image is unknown.
///
/// Texts from outside are shortened, and contain neither control characters nor the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ManagerError {
    /// The connection failed or broke.
    #[error(
        "the Manager is unreachable: {0}; check MANAGER_HOST_AND_PORT, the host's DNS, the proxy and the firewall"
    )]
    Unreachable(String),
    /// The connection is not trusted. The text gives the reason and the remedy.
    #[error("no trusted TLS connection to the Manager: {0}")]
    Tls(String),
    /// mTLS: our certificate is missing, or the Manager does not trust it.
    #[error("the Manager requires a trusted client certificate: {0}; check CLIENT_CERT and CLIENT_KEY")]
    ClientCertificate(String),
    /// The proxy rejected the login of the request or of the tunnel.
    #[error(
        "the proxy rejected the login; check PROXY_USER and PROXY_PASSWORD, or the credentials in HTTPS_PROXY"
    )]
    ProxyLogin,
    /// No complete answer arrived within this time.
    #[error("the Manager did not answer within {}; check the host's DNS, the proxy and the firewall", duration::text(*.0))]
    Timeout(Duration),
    /// 401 `INVALID_TOKEN`: the Manager does not know the token.
    #[error(
        "the Manager does not know the token (INVALID_TOKEN); set UPGRADER_TOKEN to a delegate token of this ACCOUNT_ID"
    )]
    TokenUnknown,
    /// 401 `REVOKED_TOKEN`: the token was revoked.
    #[error("the token was revoked (REVOKED_TOKEN); set UPGRADER_TOKEN to a valid delegate token")]
    TokenRevoked,
    /// 401 `EXPIRED_TOKEN`. No token is older than half an hour, so one of the two clocks is wrong.
    #[error("the Manager rejected a freshly issued token as expired (EXPIRED_TOKEN); {}", skew_in_words(*.skew_seconds))]
    TokenExpired {
        /// This host's clock minus the Manager's `Date` header, in seconds. `None` without such a header.
        skew_seconds: Option<i64>,
    },
    /// 401 `INVALID_AGENT_MTLS_AUTHORITY`: delegates of this account must use its mTLS endpoint.
    #[error(
        "this account's delegates must connect through its mTLS endpoint (INVALID_AGENT_MTLS_AUTHORITY); set \
         MANAGER_HOST_AND_PORT to that endpoint, and CLIENT_CERT and CLIENT_KEY"
    )]
    WrongEndpoint,
    /// 400 "Access denied": the account is unknown.
    #[error(
        "the Manager does not know this account (access denied); check ACCOUNT_ID and MANAGER_HOST_AND_PORT"
    )]
    AccessDenied,
    /// Any other 400 with an error code.
    #[error(
        "the Manager rejected the request ({code}): {message}; check ACCOUNT_ID and UPGRADER_WORKLOAD_NAME"
    )]
    InvalidRequest {
        /// The Manager's code, such as `INVALID_REQUEST` or `INVALID_ARGUMENT`.
        code: String,
        /// The Manager's message.
        message: String,
    },
    /// Any other status, most often because the address is not a Manager's, or because a proxy answers.
    #[error(
        "unexpected status {status}: {message}; check MANAGER_HOST_AND_PORT, including its path, and the proxy"
    )]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The message in the answer.
        message: String,
    },
    /// 429: the Manager limits the rate of requests.
    #[error("rate limited by the Manager (429){}", wait_in_words(*.retry_after))]
    RateLimited {
        /// How long the Manager asks the client to wait.
        retry_after: Option<Duration>,
    },
    /// 5xx: the Manager failed.
    #[error("the Manager failed ({status}): {message}")]
    Server {
        /// The HTTP status.
        status: u16,
        /// The Manager's message.
        message: String,
    },
    /// 3xx. Redirects are not followed, since the request carries the token.
    #[error(
        "the Manager redirects ({status}) to {to}, and redirects are not followed; set MANAGER_HOST_AND_PORT to the final \
         address"
    )]
    Redirect {
        /// The HTTP status.
        status: u16,
        /// The scheme, host and port of the other address.
        to: String,
    },
    /// The answer is larger than any answer of a Manager.
    #[error(
        "the answer exceeds {limit} bytes, so this does not look like a Manager; check MANAGER_HOST_AND_PORT and the proxy"
    )]
    TooLarge {
        /// The size limit, in bytes.
        limit: usize,
    },
    /// The answer has a success status, but does not follow the protocol.
    #[error("this does not look like a Manager's answer ({0}); check MANAGER_HOST_AND_PORT and the proxy")]
    Malformed(String),
    /// The published text is not an image reference.
    #[error(
        "the Manager published an invalid image reference: {0}; check the account's delegate image override"
    )]
    BadReference(ReferenceError),
    /// No token could be created because the system provided no random numbers.
    #[error("cannot create a token: {0}")]
    NoToken(String),
}

impl ManagerError {
    /// Whether delegates cannot use the Manager either. Their health then says nothing about their image.
    pub fn is_outage(&self) -> bool {
        // A Manager that limits requests is reachable.
        matches!(
            self,
            Self::Unreachable(_)
                | Self::Tls(_)
                | Self::ClientCertificate(_)
                | Self::ProxyLogin
                | Self::Timeout(_)
                | Self::Server { .. }
        )
    }

    /// Whether to ask again before the next run.
    pub(crate) fn retry(&self) -> Retry {
        match self {
            Self::RateLimited { retry_after } => Retry::Later(*retry_after),
            error if error.is_transient() => Retry::Later(None),
            _ => Retry::Never,
        }
    }

    /// The stable word for this kind of error, such as `token_revoked`.
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    /// Whether a retry within seconds may succeed.
    pub(super) fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_) | Self::Timeout(_) | Self::Server { .. } | Self::RateLimited { .. }
        )
    }
}

fn wait_in_words(retry_after: Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |wait| {
        format!(", which asks to wait {}", duration::text(wait))
    })
}

/// The largest difference at which clocks count as equal: `Date` has whole seconds, and the answer took time to arrive.
const CLOCKS_AGREE_SECONDS: u64 = 60;

fn skew_in_words(skew_seconds: Option<i64>) -> String {
    match skew_seconds {
        None => "compare this host's clock with the Manager's".to_owned(),
        Some(skew) => clock_problem(skew).unwrap_or_else(|| {
            "but the two clocks agree, so a proxy may be replaying an old request".to_owned()
        }),
    }
}

/// Describes how far this host's clock is off, given how many seconds it is ahead. `None` if the two clocks agree.
pub(crate) fn clock_problem(skew_seconds: i64) -> Option<String> {
    if skew_seconds.unsigned_abs() <= CLOCKS_AGREE_SECONDS {
        return None;
    }
    let direction = if skew_seconds < 0 { "behind" } else { "ahead of" };
    // Show whole minutes, since the seconds may only reflect the delay of the answer.
    let skew = duration::text(Duration::from_secs(skew_seconds.unsigned_abs() / 60 * 60));
    Some(format!(
        "this host's clock is {skew} {direction} the Manager's; synchronise it (NTP)"
    ))
}
