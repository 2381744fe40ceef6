//! The sentence and the kind of each error.

use std::collections::BTreeSet;
use std::time::Duration;

use delegate_upgrader::image::ImageReference;
use delegate_upgrader::manager::ManagerError;

#[test]
fn explains_expired_token_by_the_clocks() {
    for (skew_seconds, words) in [
        (
            Some(-7_380),
            "this host's clock is 2h3m behind the Manager's; synchronise it (NTP)",
        ),
        (
            Some(86_400),
            "this host's clock is 1d ahead of the Manager's; synchronise it (NTP)",
        ),
        (
            Some(-3),
            "but the two clocks agree, so a proxy may be replaying an old request",
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
        ManagerError::BadReference("a b".parse::<ImageReference>().unwrap_err()),
        ManagerError::NoToken(text()),
    ];
    let mut kinds = BTreeSet::new();
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
        "rate limited by the Manager (429), which asks to wait 1m30s"
    );
    let error = ManagerError::RateLimited { retry_after: None };
    assert_eq!(error.to_string(), "rate limited by the Manager (429)");
}
