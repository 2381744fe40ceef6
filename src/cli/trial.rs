//! Settings that are valid only if they work: the file of the audit log, and the address of the status server.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::fs::{Access, access};
use tokio::net::TcpListener;

use super::status::daemon_state;
use crate::config::{AuditTarget, Settings};

/// Finds the problems that would make `run` fail, without changing anything.
pub(super) async fn problems(settings: &Settings) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(path) = settings.audit.as_ref().and_then(AuditTarget::path)
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

/// Checks that the file can be written, or created in its directory.
fn try_file(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() && !found.file_type().is_char_device() => {
            Err(io::Error::other("it is not a regular file"))
        }
        Ok(_) => File::options().append(true).open(path).map(drop),
        Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            let directory = path.parent().unwrap_or(Path::new("/"));
            Ok(access(directory, Access::WRITE_OK | Access::EXEC_OK)?)
        }
        // This includes a link whose target does not exist.
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_a_file_without_creating_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name| directory.path().join(name);
        std::os::unix::fs::symlink(path("nowhere"), path("link")).unwrap();
        assert!(try_file(&path("new.log")).is_ok());
        assert!(!path("new.log").exists());
        assert!(try_file(&path("link")).is_err());
        assert!(try_file(directory.path()).is_err());
        assert!(try_file(&path("no/such.log")).is_err());
        assert!(try_file(Path::new("/dev/null")).is_ok());
    }
}
