//! Keeps all that the Manager knows in SQLite: in a file, or in memory.
//!
//! The service and the administrator's commands open the same file side by side. Nothing is kept outside it, so what
//! one writes the other reads with its next question. Times are seconds since the epoch.

mod audit;
mod credentials;
mod delegates;
mod overrides;

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior, params};

pub(crate) use audit::By;
pub(crate) use credentials::{Credential, Kind};
pub(crate) use delegates::{Delegate, Replica};
pub(crate) use overrides::in_words;

use super::resolve::Release;
use super::scope::Scope;

/// The steps from each version of the schema to the next; the number of those taken is `PRAGMA user_version`.
const SCHEMA: [&str; VERSION as usize] = [include_str!("schema.sql"), include_str!("version-2.sql")];

const VERSION: u32 = 2;

/// `PRAGMA application_id`, so that no other program's database is taken for ours.
const APPLICATION_ID: i64 = 0x6475_6d67;

/// A writer is done within milliseconds.
const MOST_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error(
        "{0}: there is no such database; `manager serve --database {0} --account ACCOUNT` makes it at its first start"
    )]
    Missing(PathBuf),
    #[error("{0}: {1}; the directory must be there and writable")]
    File(PathBuf, io::Error),
    #[error("{0}: this is not a database of a local Manager; give a path that does not exist")]
    Foreign(PathBuf),
    #[error(
        "{path}: its schema has version {found}, and this Manager knows those up to {known}; start one that is as new as the \
         last that used it"
    )]
    TooNew { path: PathBuf, found: u32, known: u32 },
    #[error("the database belongs to the account {stored}, not to {given}; a database has one account")]
    OtherAccount { stored: String, given: String },
    #[error("{0}: there is none yet, and a new database needs the account that it is for: --account ACCOUNT")]
    NoAccount(PathBuf),
    #[error("there is {kind} named {name} already, revoked ones included; take another name")]
    NameTaken { kind: Kind, name: String },
    #[error("{0} of the same value is there already")]
    ValueTaken(Kind),
    #[error("there is no {kind} named {name}; `manager {} list` shows those there are", kind.command())]
    NoSuchCredential { kind: Kind, name: String },
    #[error("the {kind} {name} was revoked before")]
    RevokedBefore { kind: Kind, name: String },
    #[error("{0}")]
    NoSuchOverride(String),
    #[error("there is no delegate {name} for the scope {scope}; `manager delegates` shows those there are")]
    NoSuchDelegate { name: String, scope: Scope },
    #[error("the database cannot be used: {0}")]
    Sqlite(#[from] rusqlite::Error),
}

impl From<StoreError> for String {
    fn from(error: StoreError) -> Self {
        error.to_string()
    }
}

pub(crate) struct Store {
    connection: Connection,
    account: String,
}

impl Store {
    /// In memory, gone with the process.
    pub(crate) fn in_memory(account: &str) -> Result<Self, StoreError> {
        Self::prepare(
            Connection::open_in_memory()?,
            Path::new(":memory:"),
            Some(account),
        )
    }

    /// The file, made if there is none. The account has to be given then; else it may be, and has to be the same.
    pub(crate) fn create(path: &Path, account: Option<&str>) -> Result<Self, StoreError> {
        if !path.exists() {
            if account.is_none() {
                return Err(StoreError::NoAccount(path.to_owned()));
            }
            // It will hold keys: for its owner only, from the first moment.
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
                .map_err(|error| StoreError::File(path.to_owned(), error))?;
        }
        Self::open_with(path, account)
    }

    /// The file, which has to be there.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing(path.to_owned()));
        }
        Self::open_with(path, None)
    }

    fn open_with(path: &Path, account: Option<&str>) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Self::prepare(Connection::open_with_flags(path, flags)?, path, account)
    }

    fn prepare(mut connection: Connection, path: &Path, account: Option<&str>) -> Result<Self, StoreError> {
        connection.busy_timeout(MOST_WAIT)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        let foreign = || StoreError::Foreign(path.to_owned());
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| match error.sqlite_error_code() {
                Some(rusqlite::ErrorCode::NotADatabase) => foreign(),
                _ => error.into(),
            })?;
        let found: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let id: i64 = transaction.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let tables: i64 =
            transaction.query_one("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        let is_new = found == 0 && id == 0 && tables == 0;
        if !is_new && id != APPLICATION_ID {
            return Err(foreign());
        }
        if found > VERSION {
            return Err(StoreError::TooNew {
                path: path.to_owned(),
                found,
                known: VERSION,
            });
        }
        if found < VERSION {
            for step in SCHEMA.iter().skip(found as usize) {
                transaction.execute_batch(step)?;
            }
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        let stored: Option<String> = setting(&transaction, "account")?;
        let account = match (stored, account) {
            (Some(stored), Some(given)) if stored != given => {
                let given = given.to_owned();
                return Err(StoreError::OtherAccount { stored, given });
            }
            (Some(stored), _) => stored,
            (None, Some(given)) => {
                set(&transaction, "account", given)?;
                given.to_owned()
            }
            (None, None) => return Err(StoreError::NoAccount(path.to_owned())),
        };
        transaction.commit()?;
        Ok(Self { connection, account })
    }

    pub(crate) fn account(&self) -> &str {
        &self.account
    }

    pub(crate) fn latest(&self) -> Result<Release, StoreError> {
        let latest = self
            .connection
            .query_row(
                "SELECT number, image FROM release ORDER BY number DESC LIMIT 1",
                [],
                |row| {
                    Ok(Release {
                        number: row.get(0)?,
                        image: row.get(1)?,
                    })
                },
            )
            .optional()?;
        Ok(latest.unwrap_or_default())
    }

    /// Publishing the same image again makes no new release.
    pub(crate) fn publish(&self, image: &str, now: i64) -> Result<(), StoreError> {
        self.connection.execute(
            "INSERT INTO release (image, published_at) SELECT ?1, ?2
             WHERE ?1 IS NOT (SELECT image FROM release ORDER BY number DESC LIMIT 1)",
            params![image, now],
        )?;
        Ok(())
    }

    /// The upgrader's own published image.
    pub(crate) fn published_upgrader(&self) -> Result<Option<String>, StoreError> {
        setting(&self.connection, "published_upgrader")
    }

    pub(crate) fn publish_upgrader(&self, image: &str) -> Result<(), StoreError> {
        set(&self.connection, "published_upgrader", image)
    }
}

fn setting(connection: &Connection, name: &str) -> Result<Option<String>, StoreError> {
    let value = connection
        .query_row("SELECT value FROM setting WHERE name = ?1", [name], |row| {
            row.get(0)
        })
        .optional()?;
    Ok(value)
}

fn set(connection: &Connection, name: &str, value: &str) -> Result<(), StoreError> {
    connection.execute(
        "INSERT INTO setting (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2",
        [name, value],
    )?;
    Ok(())
}

/// A set of tags as a column holds it.
fn tags_to_column(tags: &super::resolve::Tags) -> String {
    serde_json::json!(tags).to_string()
}

fn tags_from_column(text: &str) -> rusqlite::Result<super::resolve::Tags> {
    serde_json::from_str(text).map_err(|error| unreadable(error.into()))
}

/// Of a text that only another program can have written there.
fn unreadable(reason: Box<dyn std::error::Error + Send + Sync>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, reason)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn refusal(result: Result<Store, StoreError>) -> String {
        result.err().map(|error| error.to_string()).unwrap()
    }

    #[test]
    fn a_file_keeps_what_was_written_and_is_for_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("manager.db");
        let store = Store::create(&path, Some("acct")).unwrap();
        store.publish("a:1", 1).unwrap();
        store.publish("a:2", 2).unwrap();
        drop(store);
        let store = Store::open(&path).unwrap();
        assert_eq!(store.account(), "acct");
        assert_eq!(store.latest().unwrap().image.as_deref(), Some("a:2"));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_one_writes_the_other_reads_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("manager.db");
        let serving = Store::create(&path, Some("acct")).unwrap();
        let administering = Store::open(&path).unwrap();
        administering.publish("a:1", 1).unwrap();
        assert_eq!(serving.latest().unwrap().image.as_deref(), Some("a:1"));
    }

    #[test]
    fn publishing_the_same_again_is_no_release() {
        let store = Store::in_memory("acct").unwrap();
        let mut numbers = Vec::new();
        for image in ["a:1", "a:1", "a:2", "a:1"] {
            store.publish(image, 0).unwrap();
            numbers.push(store.latest().unwrap().number);
        }
        assert_eq!(numbers, [1, 1, 2, 3]);
    }

    #[test]
    fn the_schema_has_a_version_an_older_one_is_brought_up_to_date_and_a_newer_one_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("old.db");
        let old = Connection::open(&path).unwrap();
        old.execute_batch(SCHEMA[0]).unwrap();
        old.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
        set(&old, "account", "acct").unwrap();
        assert!(Store::open(&path).unwrap().audit_trail().unwrap().is_empty());
        let path = directory.path().join("manager.db");
        let store = Store::create(&path, Some("acct")).unwrap();
        let version = |connection: &Connection| {
            connection.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0))
        };
        assert_eq!(version(&store.connection).unwrap(), VERSION);
        store
            .connection
            .pragma_update(None, "user_version", VERSION + 1)
            .unwrap();
        drop(store);
        let error = refusal(Store::open(&path));
        assert!(
            error.contains("version 3") && error.contains("up to 2"),
            "{error}"
        );
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("somebody-elses");
        std::fs::write(&path, "x".repeat(5_000)).unwrap();
        assert!(refusal(Store::create(&path, Some("acct"))).contains("not a database of a local Manager"));
        assert_eq!(std::fs::read(&path).unwrap().len(), 5_000);

        let path = directory.path().join("other.db");
        let other = Connection::open(&path).unwrap();
        other.execute_batch("CREATE TABLE theirs (x)").unwrap();
        assert!(refusal(Store::open(&path)).contains("not a database of a local Manager"));
        let tables: i64 = other
            .query_one("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .unwrap();
        assert_eq!(tables, 1);
    }

    #[test]
    fn a_database_has_one_account_and_says_how_it_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("manager.db");
        let error = refusal(Store::open(&path));
        assert!(error.contains("manager serve --database"), "{error}");
        assert!(refusal(Store::create(&path, None)).contains("--account"));
        assert!(!path.exists());
        drop(Store::create(&path, Some("acct")).unwrap());
        assert!(Store::create(&path, None).is_ok());
        let error = refusal(Store::create(&path, Some("other")));
        assert!(error.contains("acct") && error.contains("other"), "{error}");
        let nowhere = directory.path().join("no/manager.db");
        assert!(refusal(Store::create(&nowhere, Some("acct"))).contains("directory"));
    }
}
