//! `AUDIT_LOG`: where outcomes are recorded.

use std::path::PathBuf;

use super::reader::Reader;
use super::variables::Environment;

/// Where outcomes are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// On standard output.
    Stdout,
    /// In a file.
    File(PathBuf),
}

impl AuditTarget {
    /// The path of the file, if it is one.
    pub fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::Stdout => None,
            Self::File(path) => Some(path),
        }
    }
}

pub(super) fn audit_log(reader: &mut Reader, env: &Environment) -> Option<AuditTarget> {
    let path = reader.text(&env.audit_log)?;
    let why = match &path[..] {
        "-" => return Some(AuditTarget::Stdout),
        path if path.ends_with('/') => Some("is a directory"),
        path if !path.starts_with('/') => Some("is relative, and the program's directory may be any"),
        _ => None,
    };
    if let Some(why) = why {
        reader.problems.wrong(env.audit_log.row, format!("{path}: {why}"));
    }
    Some(AuditTarget::File(PathBuf::from(path)))
}
