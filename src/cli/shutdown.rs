//! SIGTERM and SIGINT: the process ends at once, even in the middle of a replacement. SIGHUP reloads the settings.

use std::future::Future;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use super::{Exit, fail};

/// Completes at SIGTERM or SIGINT. Process 1 of a container must handle these, since it has no default action for them.
pub(super) fn shutdown() -> Result<impl Future<Output = ()>, Exit> {
    let mut terminate = receive(SignalKind::terminate())?;
    let mut interrupt = receive(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => info!("SIGTERM"),
            _ = interrupt.recv() => info!("SIGINT"),
        }
    })
}

pub(super) fn receive(kind: SignalKind) -> Result<Signal, Exit> {
    signal(kind).map_err(|error| fail(format!("cannot receive signals: {error}"), Exit::Unavailable))
}

/// Runs the work until it is done or a signal ends the process. Unfinished work is dropped, and the next run continues
/// from the state of the containers.
pub(super) async fn until_shutdown(work: impl Future<Output = Result<Exit, Exit>>) -> Result<Exit, Exit> {
    let shutdown = shutdown()?;
    tokio::select! {
        biased;
        () = shutdown => {
            warn!("interrupted; unfinished replacements resume at the next run");
            Ok(Exit::NotServed)
        }
        ended = work => ended,
    }
}
