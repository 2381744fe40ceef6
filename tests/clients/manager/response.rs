//! The meaning of each response of a Manager.

use std::time::Duration;

use chrono::{DateTime, Utc};
use delegate_upgrader::image::ImageReference;
use delegate_upgrader::manager::ManagerError;
use delegate_upgrader::manager::response::Response;

fn now() -> DateTime<Utc> {
    DateTime::parse_from_rfc2822("Fri, 20 Nov 2026 12:00:00 GMT")
        .unwrap()
        .to_utc()
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
#[rustfmt::skip]
fn maps_protocol_errors_to_kinds() {
    let body = complaint;
    for (status, body, kind) in [
        (401, body("INVALID_TOKEN", "Token is not valid"), "token_unknown"),
        (401, body("REVOKED_TOKEN", "Token is revoked"), "token_revoked"),
        (401, body("EXPIRED_TOKEN", "Token has expired"), "token_expired"),
        (401, body("INVALID_AGENT_MTLS_AUTHORITY", "x"), "wrong_endpoint"),
        (401, body("SOMETHING_NEW", "x"), "refused"),
        (400, body("INVALID_REQUEST", "Access denied"), "access_denied"),
        (400, body("INVALID_REQUEST", "no such thing"), "invalid_request"),
        (400, body("INVALID_ARGUMENT", "accountId is null"), "invalid_request"),
        (400, "<html>Bad Request</html>".to_owned(), "refused"),
        (
            400,
            "<center><h1>400 Bad Request</h1></center><center>No required SSL certificate was sent</center>"
                .to_owned(),
            "client_certificate",
        ),
        (400, body("INVALID_ARGUMENT", "no SSL certificate"), "invalid_request"),
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
#[rustfmt::skip]
fn a_response_outside_the_protocol_is_malformed() {
    for (body, expected) in [
        ("", "empty"),
        ("<html>Sign in to the hotel's network</html>", "not JSON"),
        ("{", "not JSON"),
        (r#"{"resource":{"imageTag":"a:1"}} and more"#, "not JSON"),
        ("{\"resource\":{\"imageTag\":\"a\u{0}", "not JSON"),
        (r#"{"metaData":{},"resource":null,"responseMessages":[]}"#, "no resource"),
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
fn rejects_published_image_that_cannot_be_pulled() {
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
fn the_error_header_counts_if_the_body_says_nothing() {
    let answer = Response {
        status: 401,
        harness_error: Some("REVOKED_TOKEN".to_owned()),
        body: b"<html>".to_vec(),
        ..Response::default()
    };
    assert_eq!(answer.read(now()), Err(ManagerError::TokenRevoked));
}

#[test]
fn clock_skew_is_measured_by_the_date_header() {
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
fn shows_the_text_of_an_error_page() {
    let page = "<?xml version=\"1.0\"?>\n<html><head><title>403 Forbidden</title></head>\n<body><h1>No <b>way</b></h1><im";
    for (status, body, words) in [
        (403, page, ": 403 Forbidden No way;"),
        (403, "1 < 2", ": 1 < 2;"),
        (502, "", "no reason given"),
        (503, &"é".repeat(50_000), "é…"),
    ] {
        let error = read(status, body).unwrap_err().to_string();
        assert!(error.contains(words) && error.chars().count() < 350, "{error}");
    }
}
