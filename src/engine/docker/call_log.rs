//! Logs every call to the engine at `LOG_LEVEL=debug`: method and path, the time it took, how it failed. Bodies and
//! headers, which hold environments and credentials, stay out.

use tokio::time::Instant;
use tracing::debug;

use crate::engine::EngineError;

/// Awaits the outcome of a call, and logs it.
pub(super) async fn logged<T>(
    call: String,
    outcome: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let started = Instant::now();
    let outcome = outcome.await;
    let ms = started.elapsed().as_millis();
    match &outcome {
        Ok(_) => debug!(call, ms, "engine"),
        Err(error) => debug!(call, ms, %error, "engine"),
    }
    outcome
}
