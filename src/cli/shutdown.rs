//! SIGTERM and SIGINT: the process ends at once, wherever it is. SIGHUP: the daemon reads its settings again.

use std::future::Future;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use super::{Exit, fail};

/// Completes when the process is asked to end. As process 1 of a container it has no default action for these signals.
///
/// # Errors
/// The exit, once the error is printed, where signals cannot be received.
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

/// The requests to read the settings again.
///
/// # Errors
/// As for [`shutdown`].
pub(super) fn hang_ups() -> Result<Signal, Exit> {
    receive(SignalKind::hangup())
}

fn receive(kind: SignalKind) -> Result<Signal, Exit> {
    signal(kind).map_err(|error| fail(format!("cannot receive signals: {error}"), Exit::Unavailable))
}

/// Works until the work is done or the process is asked to end. The work is dropped where it stands, since the next
/// run finds on the containers what was begun.
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
