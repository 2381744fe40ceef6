//! The meaning of a Manager's response: pure.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::error::ManagerError;
use crate::image::ImageReference;
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
    /// The body, as far as it was read
    pub body: Vec<u8>,
}

impl Response {
    /// The published image, or why the response does not name it. `now` is the time by this host's clock.
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

    /// This host's clock minus the Manager's; `None` without a `Date` header.
    pub(super) fn skew_seconds(&self, now: DateTime<Utc>) -> Option<i64> {
        self.date().map(|date| (now - date).num_seconds())
    }

    /// `shouldUpgrade` is not read: it is text inequality on the server, and decides nothing here.
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
            // nginx's answer, over HTTP, to a client without a certificate that it trusts.
            (400, "") if message.contains("SSL certificate") => ManagerError::ClientCertificate(message),
            (400, _) if message.to_ascii_lowercase().contains("access denied") => ManagerError::AccessDenied,
            (400, code) if !code.is_empty() => ManagerError::InvalidRequest {
                code: code.to_owned(),
                message,
            },
            (407, _) => ManagerError::ProxyLogin,
            // tinyproxy's answer to a wrong login. A Manager's 401 has a code.
            (401, "") if message.contains("proxy") => ManagerError::ProxyLogin,
            (429, _) => ManagerError::RateLimited {
                retry_after: self.retry_after(now),
            },
            (status @ 500..=599, _) => ManagerError::Server { status, message },
            (status, _) => ManagerError::Refused { status, message },
        }
    }

    /// The code and the message of the first error in the envelope, or the best substitutes there are, made printable.
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

    /// `Retry-After` in either of its forms. A date is compared with the server's own clock, if it sends that.
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

/// As many characters of a foreign message fit into a log line.
pub(super) const MAX_SHOWN: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> DateTime<Utc> {
        http_date("Fri, 20 Nov 2026 12:00:00 GMT").unwrap()
    }

    fn read(status: u16, body: &str) -> Result<ImageReference, ManagerError> {
        Response {
            status,
            body: body.as_bytes().to_vec(),
            ..Response::default()
        }
        .read(now())
    }

    fn complaint(code: &str, message: &str) -> String {
        serde_json::json!({
            "metaData": {}, "resource": null,
            "responseMessages": [{"code": code, "level": "ERROR", "message": message}],
        })
        .to_string()
    }

    #[test]
    fn the_published_image_is_read_from_the_envelope() {
        let body = r#"{"metaData":{},"resource":{"imageTag":"harness/delegate:26.03.88501","shouldUpgrade":true},"responseMessages":[]}"#;
        assert_eq!(
            read(200, body),
            Ok("harness/delegate:26.03.88501".parse().unwrap())
        );
        let no_more_than_needed = r#"{"resource":{"imageTag":"a:1","isNew":[1]},"responseMessages":null}"#;
        assert_eq!(read(200, no_more_than_needed), Ok("a:1".parse().unwrap()));
    }

    #[test]
    fn each_row_of_the_protocols_error_table_has_its_kind() {
        let body = complaint;
        for (status, body, kind) in [
            (401, body("INVALID_TOKEN", "Token is not valid"), "token_unknown"),
            (401, body("REVOKED_TOKEN", "Token is revoked"), "token_revoked"),
            (401, body("EXPIRED_TOKEN", "Token has expired"), "token_expired"),
            (401, body("INVALID_AGENT_MTLS_AUTHORITY", "x"), "wrong_endpoint"),
            (401, body("SOMETHING_NEW", "x"), "refused"),
            (400, body("INVALID_REQUEST", "Access denied"), "access_denied"),
            (400, body("INVALID_REQUEST", "no such thing"), "invalid_request"),
            (
                400,
                body("INVALID_ARGUMENT", "accountId is null"),
                "invalid_request",
            ),
            (400, "<html>Bad Request</html>".to_owned(), "refused"),
            (
                400,
                "<center><h1>400 Bad Request</h1></center><center>No required SSL certificate was sent</center>"
                    .to_owned(),
                "client_certificate",
            ),
            (
                400,
                body("INVALID_ARGUMENT", "no SSL certificate"),
                "invalid_request",
            ),
            (403, "<html>proxy says no</html>".to_owned(), "refused"),
            (407, "<html>proxy asks who we are</html>".to_owned(), "proxy_login"),
            (401, "<html>this proxy does not know you</html>".to_owned(), "proxy_login"),
            (401, "<html>who are you?</html>".to_owned(), "refused"),
            (404, String::new(), "refused"),
            (429, String::new(), "rate_limited"),
            (500, body("UNKNOWN_ERROR", "oops"), "server"),
            (503, "<html>".to_owned(), "server"),
            (302, String::new(), "redirect"),
            (304, String::new(), "redirect"),
        ] {
            let error = read(status, &body).expect_err("an error");
            assert_eq!(error.kind(), kind, "{status} {body}");
        }
    }

    #[test]
    fn an_answer_that_is_not_the_protocols_is_malformed() {
        for (body, expected) in [
            ("", "empty"),
            ("<html>Sign in to the hotel's network</html>", "not JSON"),
            ("{", "not JSON"),
            (r#"{"resource":{"imageTag":"a:1"}} and more"#, "not JSON"),
            ("{\"resource\":{\"imageTag\":\"a\u{0}", "not JSON"),
            (
                r#"{"metaData":{},"resource":null,"responseMessages":[]}"#,
                "no resource",
            ),
            (r#"{"metaData":{}}"#, "no resource"),
            (r#"{"resource":["a"]}"#, "no resource"),
            (r#"{"resource":"a:1"}"#, "no resource"),
            ("[]", "no resource"),
            (r#""harness/delegate:1""#, "no resource"),
            (r#"{"resource":{}}"#, "no imageTag"),
            (r#"{"resource":{"imageTag":5}}"#, "no imageTag"),
            (r#"{"resource":{"imageTag":null}}"#, "no imageTag"),
            (r#"{"resource":{"imageTag":["a:1"]}}"#, "no imageTag"),
        ] {
            match read(200, body) {
                Err(ManagerError::Malformed(reason)) => {
                    assert!(reason.contains(expected), "{body}: {reason}");
                }
                other => panic!("{body}: {other:?}"),
            }
        }
        let deep = "[".repeat(60_000);
        assert!(matches!(read(200, &deep), Err(ManagerError::Malformed(_))));
        let not_utf8 = Response {
            status: 200,
            body: vec![0xff; 64],
            ..Response::default()
        };
        assert!(matches!(not_utf8.read(now()), Err(ManagerError::Malformed(_))));
    }

    #[test]
    fn a_published_image_that_cannot_be_pulled_is_refused() {
        for tag in [
            "",
            "harness/delegate:1; rm -rf /",
            "../x",
            "a//b",
            "sha256:0123",
            "a\\nb",
        ] {
            let body = format!(r#"{{"resource":{{"imageTag":"{tag}","shouldUpgrade":true}}}}"#);
            assert!(
                matches!(read(200, &body), Err(ManagerError::BadReference(_))),
                "{tag}"
            );
        }
    }

    #[test]
    fn the_error_header_speaks_where_the_body_does_not() {
        let answer = Response {
            status: 401,
            harness_error: Some("REVOKED_TOKEN".to_owned()),
            body: b"<html>".to_vec(),
            ..Response::default()
        };
        assert_eq!(answer.read(now()), Err(ManagerError::TokenRevoked));
    }

    #[test]
    fn the_clocks_are_compared_by_the_date_header() {
        for (date, skew_seconds) in [
            (Some("Fri, 20 Nov 2026 12:00:00 GMT"), Some(0)),
            (Some("Fri, 20 Nov 2026 14:00:00 GMT"), Some(-7_200)),
            (Some("Fri, 20 Nov 2026 11:00:00 GMT"), Some(3_600)),
            (Some("yesterday"), None),
            (None, None),
        ] {
            let answer = Response {
                status: 401,
                date: date.map(str::to_owned),
                body: complaint("EXPIRED_TOKEN", "x").into_bytes(),
                ..Response::default()
            };
            assert_eq!(
                answer.read(now()),
                Err(ManagerError::TokenExpired { skew_seconds }),
                "{date:?}"
            );
        }
    }

    #[test]
    fn retry_after_is_read_in_both_forms() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let server = Some("Fri, 20 Nov 2026 15:00:00 GMT");
        for (retry_after, date, expected) in [
            (Some("7"), None, seconds(7)),
            (Some(" 120 "), None, seconds(120)),
            (Some("Fri, 20 Nov 2026 12:00:09 GMT"), None, seconds(9)),
            (Some("Fri, 20 Nov 2026 15:00:05 GMT"), server, seconds(5)),
            (Some("Fri, 20 Nov 2026 11:00:00 GMT"), None, seconds(0)),
            (Some("-1"), None, None),
            (Some("99999999999999999999"), None, None),
            (Some("soon"), None, None),
            (None, None, None),
        ] {
            let answer = Response {
                status: 429,
                retry_after: retry_after.map(str::to_owned),
                date: date.map(str::to_owned),
                ..Response::default()
            };
            assert_eq!(
                answer.read(now()),
                Err(ManagerError::RateLimited {
                    retry_after: expected
                })
            );
        }
    }

    #[test]
    fn somebody_elses_words_are_one_short_line() {
        let error = read(503, &"é".repeat(50_000)).unwrap_err().to_string();
        assert!(error.chars().count() < 350, "{error}");
    }

    #[test]
    fn of_an_error_page_the_words_are_told() {
        let page = "<?xml version=\"1.0\"?>\n<html><head><title>403 Forbidden</title></head>\n<body><h1>No <b>way</b></h1><im";
        let error = read(403, page).unwrap_err().to_string();
        assert!(error.contains(": 403 Forbidden No way;"), "{error}");
        let error = read(403, "1 < 2").unwrap_err().to_string();
        assert!(error.contains(": 1 < 2;"), "{error}");
    }

    #[test]
    fn an_error_without_words_still_says_something() {
        let error = read(502, "").unwrap_err().to_string();
        assert!(error.contains("no reason given"), "{error}");
    }
}
