//! The alerts that hold upgrades back, and the Prometheus that knows them.

use std::time::Duration;

use reqwest::Url;

use super::notifications::url;
use super::reader::Reader;
use super::variables::Environment;
use crate::text::secret::Secret;

/// Which alerts hold upgrades back, and how to ask for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertHold {
    /// `HOLD_ON_ALERTS`: the regular expression for their names, which Prometheus reads.
    pub alerts: String,
    /// `PROMETHEUS_URL`, perhaps with a user and password.
    pub url: Secret,
    /// `PROMETHEUS_TOKEN`.
    pub token: Option<Secret>,
    /// `HOLD_TIMEOUT`: how long upgrades are held while Prometheus does not answer; `None` without a limit.
    pub timeout: Option<Duration>,
}

/// Reads these settings. One of the first two without the other is a problem.
pub(super) fn alert_hold(reader: &mut Reader, env: &Environment) -> Option<AlertHold> {
    let (alerts, url) = (reader.text(&env.hold_on_alerts), url(reader, &env.prometheus_url));
    let timeout = reader.optional_duration(&env.hold_timeout, Duration::ZERO);
    let mut token = reader.secret(&env.prometheus_token, |text| Ok(Secret::new(text.trim())));
    let parsed = url.as_ref().and_then(|url| url.expose().parse::<Url>().ok());
    let has_user = parsed.is_some_and(|url| !url.username().is_empty());
    if token.take_if(|_| has_user).is_some() {
        reader.unused(&[&env.prometheus_token], ", since PROMETHEUS_URL has a user");
    }
    match (&alerts, &url) {
        (Some(_), None) if !env.prometheus_url.is_set() => {
            reader
                .problems
                .missing_beside(env.prometheus_url.row, &env.hold_on_alerts);
        }
        (None, _) => {
            let unused = [&env.prometheus_url, &env.prometheus_token, &env.hold_timeout];
            reader.unused(&unused, ", since HOLD_ON_ALERTS is not set");
        }
        _ => {}
    }
    Some(AlertHold {
        alerts: alerts?,
        url: url?,
        token,
        timeout,
    })
}
