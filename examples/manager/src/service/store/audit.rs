//! The audit trail.

use rusqlite::{Transaction, TransactionBehavior, params};

use super::credentials::scope;
use super::{Store, StoreError};
use crate::service::scope::Scope;

/// The author and the time of a change.
pub(crate) struct By {
    pub(crate) actor: String,
    pub(crate) now: i64,
}

pub(crate) struct Entry {
    pub(crate) at: i64,
    /// A user of the commands, an API key or an upgrader.
    pub(crate) actor: String,
    pub(crate) action: String,
    pub(crate) scope: Scope,
    pub(crate) subject: String,
}

impl Store {
    /// Makes a change and its entry, or neither. `change` also returns the subject of the entry.
    pub(crate) fn audited<T, E: From<StoreError>>(
        &self,
        by: &By,
        action: &str,
        scope: &Scope,
        change: impl FnOnce(&Self) -> Result<(String, T), E>,
    ) -> Result<T, E> {
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
            .map_err(StoreError::from)?;
        let (subject, changed) = change(self)?;
        self.record(by, action, scope, &subject)?;
        transaction.commit().map_err(StoreError::from)?;
        Ok(changed)
    }

    /// Makes an entry of what the present transaction changes.
    pub(super) fn record(
        &self,
        by: &By,
        action: &str,
        scope: &Scope,
        subject: &str,
    ) -> Result<(), StoreError> {
        let (org, project) = (scope.org().unwrap_or(""), scope.project().unwrap_or(""));
        self.connection.execute(
            "INSERT INTO audit (at, actor, action, org, project, subject) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![by.now, by.actor, action, org, project, subject],
        )?;
        Ok(())
    }

    /// The latest entry last.
    pub(crate) fn audit_trail(&self) -> Result<Vec<Entry>, StoreError> {
        let mut statement = self
            .connection
            .prepare("SELECT at, actor, action, org, project, subject FROM audit ORDER BY number")?;
        let entries = statement.query_map([], |row| {
            Ok(Entry {
                at: row.get(0)?,
                actor: row.get(1)?,
                action: row.get(2)?,
                scope: scope(row, 3)?,
                subject: row.get(5)?,
            })
        })?;
        Ok(entries.collect::<Result<_, _>>()?)
    }
}
