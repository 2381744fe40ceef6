//! Counts every call to the engine, and logs it at `LOG_LEVEL=debug`: method and path, the time it took, how it failed.
//! Bodies and headers, which hold environments and credentials, stay out.

use tokio::time::Instant;
use tracing::debug;

use crate::engine::{EngineCalls, EngineError};

/// Awaits the outcome of a call, logs it and counts it.
pub(super) async fn logged<T>(
    calls: &EngineCalls,
    call: String,
    outcome: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let started = Instant::now();
    let outcome = outcome.await;
    let took = started.elapsed();
    let ms = took.as_millis();
    match &outcome {
        Ok(_) => debug!(call, ms, "engine"),
        Err(error) => debug!(call, ms, %error, "engine"),
    }
    calls.note(&call, outcome.as_ref().err(), took);
    outcome
}
