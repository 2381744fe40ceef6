//! The administrator's commands on the database. Each returns what it has to say.

mod audit;
mod credentials;
mod delegates;
mod overrides;
#[cfg(test)]
mod tests;

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::Args;

use crate::service::resolve::Tags;
use crate::service::scope::Scope;
use crate::service::store::{By, Store};

pub(crate) use audit::Audit;
pub(crate) use credentials::{Key, Token};
pub(crate) use delegates::Delegates;
pub(crate) use overrides::Override;

const DATABASE: &str = "MANAGER_DATABASE";

type Said = Result<String, String>;

#[derive(Args)]
pub(crate) struct Database {
    /// The SQLite file of all that the Manager knows [env: MANAGER_DATABASE]
    #[arg(long)]
    database: Option<PathBuf>,
}

impl From<Option<PathBuf>> for Database {
    fn from(database: Option<PathBuf>) -> Self {
        Self { database }
    }
}

impl Database {
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let from_environment = || std::env::var_os(DATABASE).filter(|path| !path.is_empty());
        self.database
            .clone()
            .or_else(|| from_environment().map(PathBuf::from))
    }

    pub(crate) fn open(&self) -> Result<Store, String> {
        let path = self.path().ok_or_else(|| {
            format!(
                "--database FILE is missing: the file that `manager serve` has; {DATABASE} can name it too"
            )
        })?;
        Ok(Store::open(&path)?)
    }

    /// Makes a change, and its entry in the audit trail. `act` returns the subject of the entry, and what to print.
    pub(crate) fn change(
        &self,
        action: &str,
        scope: &Scope,
        now: DateTime<Utc>,
        act: impl FnOnce(&Store) -> Result<(String, String), String>,
    ) -> Said {
        let by = By {
            actor: user(),
            now: now.timestamp(),
        };
        self.open()?.audited(&by, action, scope, act)
    }
}

/// The user who runs the command, by name where the environment has it.
fn user() -> String {
    let variable = |name| std::env::var(name).ok().filter(|user| !user.is_empty());
    let name = ["SUDO_USER", "USER"].into_iter().find_map(variable);
    let number = || {
        std::fs::metadata("/proc/self")
            .map_or(0, |process| process.uid())
            .to_string()
    };
    format!("user {}", name.unwrap_or_else(number))
}

#[derive(Args)]
pub(crate) struct Place {
    /// An organisation; without one it is the whole account
    #[arg(long)]
    org: Option<String>,
    /// A project of the organisation
    #[arg(long, requires = "org")]
    project: Option<String>,
}

impl Place {
    fn scope(&self) -> Result<Scope, String> {
        Scope::new(self.org.as_deref(), self.project.as_deref())
    }
}

fn with_tags(tags: &Tags) -> String {
    if tags.is_empty() {
        return String::new();
    }
    format!(" with the tags {}", joined(tags))
}

fn joined(tags: &Tags) -> String {
    if tags.is_empty() {
        return "-".to_owned();
    }
    tags.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

fn time(seconds: i64) -> String {
    let time = DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    time.format("%Y-%m-%d %H:%M").to_string()
}
