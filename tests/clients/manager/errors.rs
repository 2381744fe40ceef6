//! Error sentences that say more than one thing.

use std::time::Duration;

use delegate_upgrader::manager::ManagerError;

#[test]
#[rustfmt::skip]
fn explains_an_expired_token_by_comparing_the_clocks() {
    for (skew_seconds, words) in [
        (Some(-7_380), "this host's clock is 2h3m behind the Manager's; synchronise it (NTP)"),
        (Some(86_400), "this host's clock is 1d ahead of the Manager's; synchronise it (NTP)"),
        (Some(-3), "but the two clocks agree, so a proxy may be replaying an old request"),
        (None, "compare this host's clock with the Manager's"),
    ] {
        let error = ManagerError::TokenExpired { skew_seconds }.to_string();
        assert!(error.ends_with(words), "{error}");
    }
}

#[test]
fn rate_limit_error_includes_the_managers_retry_after() {
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
