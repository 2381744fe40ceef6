//! The errors of an engine, and how to interpret them.

use std::time::Duration;

use super::docker::messages::start_problem;
use crate::net::retry::Retry;
use crate::net::without_markup;
use crate::text::{duration, one_line};

/// Why a call to the engine failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum EngineError {
    /// 404: the object does not exist, which is an observation rather than a failure.
    #[error("no such object: {0}")]
    NotFound(String),
    /// 409: a name is taken, or a removal is in progress.
    #[error("conflict: {0}")]
    Conflict(String),
    /// Any other refusal.
    #[error("the engine refused ({status}): {message}")]
    Refused {
        /// The HTTP status, or 200 if the error came inside a stream.
        status: u16,
        /// The engine's message, on one line.
        message: String,
    },
    /// The socket does not answer. The text gives the address and the reason.
    #[error("the engine is unreachable: {0}")]
    Unreachable(String),
    /// The engine did not answer within this time. The next observation shows whether it acted.
    #[error("the engine did not answer within {}", duration::text(*.0))]
    TimedOut(Duration),
    /// The registry wants a login, and none could be used. The text gives its message and the problem with the login.
    #[error("{0}")]
    Unauthorized(String),
    /// The engine no longer supports the API versions of this program.
    #[error("{0}")]
    Unsupported(String),
    /// The answer does not match the API.
    #[error("unexpected answer from the engine: {0}")]
    Malformed(String),
}

/// The longest message of an engine to keep, in characters. A message may quote a registry or a runtime.
const MAX_MESSAGE: usize = 2_000;

impl EngineError {
    /// Returns the error for an answer with this unsuccessful status.
    pub(super) fn of_status(status: u16, message: &str) -> Self {
        let message = one_line(&without_markup(message), MAX_MESSAGE);
        match status {
            404 => Self::NotFound(message),
            409 => Self::Conflict(message),
            _ => Self::Refused { status, message },
        }
    }

    /// Returns the error for a message inside a stream whose status was 200.
    pub(super) fn in_stream(message: &str) -> Self {
        Self::Refused {
            status: 200,
            message: one_line(message, MAX_MESSAGE),
        }
    }

    /// The stable word for this kind of error, such as `timed_out`.
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    /// Returns the error message. Omits the status 200, which only means that the error came inside a stream.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Refused { status: 200, message } => message.clone(),
            error => error.to_string(),
        }
    }

    /// The engine's own words, if it refused the call.
    pub(super) fn said(&self) -> Option<&str> {
        match self {
            Self::NotFound(message) | Self::Conflict(message) | Self::Refused { message, .. } => {
                Some(message)
            }
            _ => None,
        }
    }

    /// Describes a failed request to a registry, and suggests how to fix it.
    pub fn explain(&self, registry: &str) -> String {
        let message = self.message();
        if self.is_disk_full() {
            format!("the engine's disk is full: {message}")
        } else if self.is_auth_error() {
            format!(
                "{message}; put a login for {registry} into REGISTRY_USERNAME and REGISTRY_PASSWORD, or into the \
                 config.json of DOCKER_CONFIG"
            )
        } else {
            message
        }
    }

    /// Whether repeating the call is useless because a socket proxy refuses it. An upgrade may not need the call.
    pub(crate) fn is_not_permitted(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                status: 401 | 403 | 405,
                ..
            }
        )
    }

    /// Whether to retry a failed pull or registry request. A retry is useless if the login, the image or disk space is missing.
    pub(crate) fn retry(&self) -> Retry {
        let may_pass = match self {
            Self::Refused { .. } => !self.is_auth_error() && !self.is_disk_full() && !self.is_missing_image(),
            other => matches!(other, Self::TimedOut(_) | Self::Unreachable(_)),
        };
        if may_pass {
            Retry::Later(None)
        } else {
            Retry::Never
        }
    }

    /// Explains why a start was refused. Puts an operator's explanation first if the engine's words are known.
    pub fn explain_start(&self) -> String {
        match self.said().map(|message| (message, start_problem(message))) {
            Some((message, Some(problem))) => format!("{problem}: {message}"),
            Some((message, None)) => message.to_owned(),
            None => self.to_string(),
        }
    }
}
