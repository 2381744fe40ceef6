//! The settings that only their use proves: the file of the audit log, and the address of the status server.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use rustix::fs::{Access, access};
use tokio::net::TcpListener;

use super::status::daemon_answers;
use crate::config::Settings;

/// The problems that would end `run`, found without changing anything.
pub(super) async fn problems(settings: &Settings) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(path) = settings.audit.as_ref().and_then(|audit| audit.path.as_deref())
        && let Err(error) = try_file(path)
    {
        problems.push(format!("AUDIT_LOG: cannot write {}: {error}", path.display()));
    }
    if let Err(error) = TcpListener::bind(settings.listen).await
        && !(error.kind() == ErrorKind::AddrInUse && daemon_answers(settings.listen).await)
    {
        problems.push(format!(
            "LISTEN_ADDR: cannot listen on {}: {error}",
            settings.listen
        ));
    }
    problems
}

/// Whether the file can be written, or made in its directory.
fn try_file(path: &Path) -> io::Result<()> {
    match File::options().append(true).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let directory = path.parent().unwrap_or(Path::new("/"));
            Ok(access(directory, Access::WRITE_OK | Access::EXEC_OK)?)
        }
        opened => opened.map(drop),
    }
}
