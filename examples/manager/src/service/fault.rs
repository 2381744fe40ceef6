//! Wrong and late answers on demand, for tests of the clients.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;

use super::answer::{Refusal, refused};

/// A wrong answer, or a late one, instead of the right one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Fault {
    /// The status; without one the answer is the right one.
    pub(crate) status: Option<u16>,
    /// How many questions get it; all of them if not given.
    pub(crate) times: Option<u32>,
    /// The code in the envelope and in `X-Harness-Error`.
    pub(crate) code: Option<String>,
    /// The message in the envelope.
    pub(crate) message: Option<String>,
    /// The body as it is, instead of an envelope.
    pub(crate) body: Option<String>,
    /// Further headers.
    pub(crate) headers: BTreeMap<String, String>,
    /// Milliseconds to wait before answering.
    pub(crate) delay_ms: u64,
}

impl Fault {
    /// The fault for the next question, one time of it used up.
    pub(super) fn take(slot: &mut Option<Self>) -> Option<Self> {
        let fault = slot.as_mut()?;
        match &mut fault.times {
            None => Some(fault.clone()),
            Some(0) => {
                *slot = None;
                None
            }
            Some(times) => {
                *times -= 1;
                Some(fault.clone())
            }
        }
    }

    pub(super) fn into_response(self) -> Response {
        let status = self
            .status
            .and_then(|status| StatusCode::from_u16(status).ok())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = match self.body {
            Some(body) => (status, Body::from(body)).into_response(),
            None => refused(&Refusal {
                status,
                code: self.code.unwrap_or_else(|| "UNKNOWN_ERROR".to_owned()),
                message: self
                    .message
                    .unwrap_or_else(|| "a fault set under /local/fault".to_owned()),
            }),
        };
        for (name, value) in self.headers {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}
