//! The rules for answers that claim to come from the Manager.
//!
//! An input is an answer in curl's form: the status, header lines, an empty line, the body.

use chrono::{DateTime, Utc};
use delegate_upgrader::image::ImageReference;
use delegate_upgrader::manager::ManagerError;
use delegate_upgrader::manager::response::Response;

/// The most bytes of a body that are read.
const MOST_BODY: usize = 64 * 1024;

/// Checks one answer.
pub fn check(data: &[u8]) {
    let answer = parse(data);
    let now = DateTime::<Utc>::from_timestamp(1_795_176_000, 0).expect("a moment of 2026");
    let read = answer.read(now);
    assert_eq!(read, answer.read(now), "two answers to one question");
    match read {
        Ok(image) => published(&answer, &image),
        Err(error) => refused(&answer, &error),
    }
}

fn parse(data: &[u8]) -> Response {
    let (head, body) = match data.windows(2).position(|two| two == b"\n\n") {
        Some(end) => (&data[..end], &data[end + 2..]),
        None => (data, &[][..]),
    };
    let mut answer = Response {
        body: body[..body.len().min(MOST_BODY)].to_vec(),
        ..Response::default()
    };
    // The client also ignores a header that is not visible ASCII.
    let visible = |line: &[u8]| line.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    let mut lines = head
        .split(|byte| *byte == b'\n')
        .filter(|line| visible(line))
        .map(String::from_utf8_lossy);
    let status = lines.next().unwrap_or_default();
    answer.status = status.trim().parse().unwrap_or(200);
    for line in lines {
        let Some((name, value)) = line.split_once(": ") else {
            continue;
        };
        let slot = match name {
            "Date" => &mut answer.date,
            "Retry-After" => &mut answer.retry_after,
            "X-Harness-Error" => &mut answer.harness_error,
            // The client shortens it before it gets here.
            "Location" if value.len() <= 200 => &mut answer.redirected_to,
            _ => continue,
        };
        *slot = Some(value.replace('\t', " "));
    }
    answer
}

/// Only a success publishes an image, only the one in the envelope, and only one that can be pulled.
fn published(answer: &Response, image: &ImageReference) {
    assert!((200..300).contains(&answer.status));
    let envelope: serde_json::Value = serde_json::from_slice(&answer.body).expect("it was read");
    assert_eq!(envelope["resource"]["imageTag"], image.to_string());
    super::image_reference::check(image.to_string().as_bytes());
}

/// The error is reported on one log line, and at limited length.
fn refused(answer: &Response, error: &ManagerError) {
    let told = error.to_string();
    assert!(!told.contains(char::is_control), "{told:?}");
    assert!(told.chars().count() < 1000, "a novel: {told}");
    assert!(!error.kind().is_empty());
    match answer.status {
        200..=299 => assert!(
            matches!(error, ManagerError::Malformed(_) | ManagerError::BadReference(_)),
            "{error}"
        ),
        300..=399 => assert_eq!(error.kind(), "redirect"),
        429 => assert_eq!(error.kind(), "rate_limited"),
        500..=599 => assert!(error.is_outage()),
        _ => assert!(!error.is_outage(), "{error}"),
    }
}
