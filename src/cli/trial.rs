//! Settings that are valid only if they work: the file of the audit log, and the address of the status server.

use std::io::ErrorKind;

use tokio::net::TcpListener;

use super::status::daemon_state;
use crate::config::{Settings, try_file};

/// Finds the problems that would make `run` fail, without changing anything.
pub(super) async fn problems(settings: &Settings) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(path) = settings.audit.path()
        && let Err(error) = try_file(path)
    {
        problems.push(format!("AUDIT_LOG: cannot write {}: {error}", path.display()));
    }
    if let Err(error) = TcpListener::bind(settings.listen).await {
        let is_taken = error.kind() == ErrorKind::AddrInUse;
        if !is_taken || daemon_state(settings.listen).await.is_none() {
            let by = if is_taken {
                "; no daemon of this program answers there"
            } else {
                ""
            };
            problems.push(format!(
                "LISTEN_ADDR: cannot listen on {}: {error}{by}",
                settings.listen
            ));
        }
    }
    problems
}
