//! `AUDIT_LOG`: where outcomes are recorded.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::reader::Reader;
use super::variables::Environment;

/// Where outcomes are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// Nowhere: `AUDIT_LOG` is `off`.
    Off,
    /// Nowhere: `AUDIT_LOG` is not set, and this user may not write the usual file.
    NotWritable,
    /// On standard output.
    Stdout,
    /// In a file.
    File(PathBuf),
}

impl AuditTarget {
    /// The file if `AUDIT_LOG` is not set: in a directory that systemd makes for the service, and containers have for a volume.
    pub const USUAL: &str = "/var/log/delegate-upgrader/audit.log";

    /// The path of the file to write, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Off | Self::NotWritable | Self::Stdout => None,
        }
    }

    /// The path of the file to read: another user may have written it.
    pub fn readable(&self) -> Option<&Path> {
        match self {
            Self::NotWritable => Some(Path::new(Self::USUAL)),
            other => other.path(),
        }
    }
}

pub(super) fn audit_log(reader: &mut Reader, env: &Environment) -> AuditTarget {
    let Some(path) = reader.text(&env.audit_log) else {
        // Only an explicit setting is an error if it does not work.
        if try_file(Path::new(AuditTarget::USUAL)).is_err() {
            return AuditTarget::NotWritable;
        }
        reader.note(&env.audit_log, AuditTarget::USUAL);
        return AuditTarget::File(AuditTarget::USUAL.into());
    };
    let why = match &path[..] {
        "off" => return AuditTarget::Off,
        "-" => return AuditTarget::Stdout,
        path if path.ends_with('/') => Some("is a directory"),
        path if !path.starts_with('/') => Some("is relative, and the program's directory may be any"),
        _ => None,
    };
    if let Some(why) = why {
        reader.problems.wrong(env.audit_log.row, format!("{path}: {why}"));
    }
    AuditTarget::File(PathBuf::from(path))
}

/// Checks that the file can be written, or created in its directory.
pub(crate) fn try_file(path: &Path) -> io::Result<()> {
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
