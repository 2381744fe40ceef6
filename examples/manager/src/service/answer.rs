//! Answers in the Manager's envelope.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::store::StoreError;

pub(super) const HARNESS_ERROR: HeaderName = HeaderName::from_static("x-harness-error");

/// An error as the Manager tells it.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) code: String,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            code: code.to_owned(),
            message: message.into(),
        }
    }

    pub(super) fn unauthorised(code: &str, message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, code, message)
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", message)
    }

    /// Of an account that is not ours.
    pub(super) fn access_denied() -> Self {
        Self::invalid("Access denied")
    }

    pub(super) fn missing(parameter: &str) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "INVALID_ARGUMENT",
            format!("query parameter {parameter} is missing"),
        )
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoSuchOverride(reason) => Self::invalid(reason),
            other => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "UNKNOWN_ERROR",
                other.to_string(),
            ),
        }
    }
}

pub(super) fn granted(resource: &Value) -> Response {
    json_response(
        StatusCode::OK,
        &json!({ "metaData": {}, "resource": resource, "responseMessages": [] }),
    )
}

pub(super) fn refused(refusal: &Refusal) -> Response {
    let mut response = json_response(
        refusal.status,
        &json!({
            "metaData": {},
            "resource": null,
            "responseMessages": [{
                "code": refusal.code,
                "level": "ERROR",
                "message": refusal.message,
                "exception": null,
                "failureTypes": [],
            }],
        }),
    );
    if let Ok(code) = HeaderValue::from_str(&refusal.code) {
        response.headers_mut().insert(HARNESS_ERROR, code);
    }
    response
}

pub(super) fn json_response(status: StatusCode, body: &Value) -> Response {
    (
        status,
        [(header::CONTENT_TYPE, "application/json")],
        body.to_string(),
    )
        .into_response()
}
