//! Counts every call to the engine. At `LOG_LEVEL=debug`, it also logs the method, the path, the duration and any error.
//! Bodies and headers are not logged, since they contain environments and credentials.

use tokio::time::Instant;
use tracing::debug;

use crate::engine::{EngineCalls, EngineError};

/// Awaits the outcome of a call, then logs and counts it.
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
