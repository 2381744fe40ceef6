//! Interprets a Manager's response, without any I/O.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::error::ManagerError;
use crate::image::ImageReference;
use crate::net::client::MAX_SHOWN;
use crate::net::without_markup;
use crate::text::one_line;

/// The parts of a response that matter.
#[derive(Default)]
pub struct Response {
    /// The HTTP status
    pub status: u16,
    /// `Date`
    pub date: Option<String>,
    /// `Retry-After`
    pub retry_after: Option<String>,
    /// `X-Harness-Error`
    pub harness_error: Option<String>,
    /// Scheme, host and port of `Location`
    pub redirected_to: Option<String>,
    /// The part of the body that was read
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the published image, or the error in the response. `now` is the current time on this host's clock.
    pub fn read(&self, now: DateTime<Utc>) -> Result<ImageReference, ManagerError> {
        match self.status {
            200..=299 => self.published(),
            300..=399 => Err(ManagerError::Redirect {
                status: self.status,
                to: self
                    .redirected_to
                    .clone()
                    .unwrap_or_else(|| "an unnamed address".to_owned()),
            }),
            _ => Err(self.failure(now)),
        }
    }

    /// Returns this host's clock minus the Manager's, in seconds, or `None` without a `Date` header.
    pub(super) fn skew_seconds(&self, now: DateTime<Utc>) -> Option<i64> {
        self.date().map(|date| (now - date).num_seconds())
    }

    /// Ignores `shouldUpgrade`, since the server only compares texts to compute it.
    fn published(&self) -> Result<ImageReference, ManagerError> {
        let malformed = |what: &str| ManagerError::Malformed(what.to_owned());
        if self.body.is_empty() {
            return Err(malformed("empty"));
        }
        let envelope: Value = serde_json::from_slice(&self.body)
            .map_err(|error| malformed(&one_line(&format!("not JSON: {error}"), MAX_SHOWN)))?;
        let resource = envelope
            .get("resource")
            .filter(|resource| resource.is_object())
            .ok_or_else(|| malformed("no resource"))?;
        resource
            .get("imageTag")
            .and_then(Value::as_str)
            .ok_or_else(|| malformed("no imageTag in its resource"))?
            .parse()
            .map_err(ManagerError::BadReference)
    }

    fn failure(&self, now: DateTime<Utc>) -> ManagerError {
        let (code, message) = self.error_message();
        match (self.status, code.as_str()) {
            (401, "INVALID_TOKEN") => ManagerError::TokenUnknown,
            (401, "REVOKED_TOKEN") => ManagerError::TokenRevoked,
            (401, "EXPIRED_TOKEN") => ManagerError::TokenExpired {
                skew_seconds: self.skew_seconds(now),
            },
            (401, "INVALID_AGENT_MTLS_AUTHORITY") => ManagerError::WrongEndpoint,
            // nginx's answer, over HTTP, to a client without a certificate that nginx trusts.
            (400, "") if message.contains("SSL certificate") => ManagerError::ClientCertificate(message),
            (400, _) if message.to_ascii_lowercase().contains("access denied") => ManagerError::AccessDenied,
            (400, code) if !code.is_empty() => ManagerError::InvalidRequest {
                code: code.to_owned(),
                message,
            },
            (407, _) => ManagerError::ProxyLogin,
            // tinyproxy's answer to a wrong login. A 401 from a Manager has an error code.
            (401, "") if message.contains("proxy") => ManagerError::ProxyLogin,
            (429, _) => ManagerError::RateLimited {
                retry_after: self.retry_after(now),
            },
            (status @ 500..=599, _) => ManagerError::Server { status, message },
            (status, _) => ManagerError::Refused { status, message },
        }
    }

    /// Returns the code and message of the first error in the envelope, or the best substitutes, in printable form.
    fn error_message(&self) -> (String, String) {
        let envelope: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let messages = envelope.get("responseMessages").and_then(Value::as_array);
        let first = messages.and_then(|messages| {
            messages
                .iter()
                .find(|message| message.get("code").is_some_and(Value::is_string))
        });
        let text = |field: &str| first?.get(field)?.as_str().map(str::to_owned);

        let code = text("code").or_else(|| self.harness_error.clone());
        let message = text("message").unwrap_or_else(|| without_markup(&String::from_utf8_lossy(&self.body)));
        let code = one_line(&code.unwrap_or_default(), MAX_SHOWN);
        let message = match one_line(&message, MAX_SHOWN) {
            message if !message.is_empty() => message,
            _ if !code.is_empty() => code.clone(),
            _ => "no reason given".to_owned(),
        };
        (code, message)
    }

    fn date(&self) -> Option<DateTime<Utc>> {
        http_date(self.date.as_deref()?)
    }

    /// Parses `Retry-After` in either form. Compares a date with the server's clock if the response has a `Date`.
    fn retry_after(&self, now: DateTime<Utc>) -> Option<Duration> {
        let text = self.retry_after.as_deref()?.trim();
        if let Ok(seconds) = text.parse::<u32>() {
            return Some(Duration::from_secs(seconds.into()));
        }
        let wait = http_date(text)? - self.date().unwrap_or(now);
        Some(wait.to_std().unwrap_or_default())
    }
}

fn http_date(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc2822(text.trim())
        .ok()
        .map(|date| date.with_timezone(&Utc))
}
