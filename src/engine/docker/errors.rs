//! Makes an [`EngineError`] of an engine's message.

use crate::engine::EngineError;
use crate::net::without_markup;
use crate::text::one_line;

/// The longest message of an engine to keep, in characters. A message may quote a registry or a runtime.
const MAX_MESSAGE: usize = 2_000;

/// Returns the error for an answer with this unsuccessful status.
pub(super) fn from_status(status: u16, message: &str) -> EngineError {
    let message = one_line(&without_markup(message), MAX_MESSAGE);
    match status {
        404 => EngineError::NotFound(message),
        409 => EngineError::Conflict(message),
        _ => EngineError::Refused { status, message },
    }
}

/// Returns the error for a message inside a stream whose status was 200.
pub(super) fn in_stream(message: &str) -> EngineError {
    EngineError::Refused {
        status: 200,
        message: one_line(message, MAX_MESSAGE),
    }
}
