//! Delegate tokens and API keys. A revoked one stays known as revoked, and its name stays taken.

use std::fmt;

use delegate_upgrader::manager::token::KEY_LEN;
use ring::digest::{SHA256, digest};
use rusqlite::{OptionalExtension as _, Row, params};

use super::{Store, StoreError, unreadable};
use crate::service::scope::Scope;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Token,
    ApiKey,
}

impl Kind {
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::ApiKey => "key",
        }
    }

    fn table(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::ApiKey => "api_key",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token => "token",
            Self::ApiKey => "API key",
        })
    }
}

/// The part of a token or an API key that may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credential {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    pub(crate) created_at: i64,
    pub(crate) revoked_at: Option<i64>,
}

/// A delegate token: what opens requests, and whose they are.
pub(crate) struct Token {
    pub(crate) key: [u8; KEY_LEN],
    pub(crate) scope: Scope,
    pub(crate) is_revoked: bool,
}

impl Store {
    pub(crate) fn add_token(
        &self,
        name: &str,
        key: &[u8; KEY_LEN],
        scope: &Scope,
        now: i64,
    ) -> Result<(), StoreError> {
        self.check_free(Kind::Token, name)?;
        let added = self.connection.execute(
            "INSERT OR IGNORE INTO token (name, key, org, project, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                name,
                key,
                scope.org().unwrap_or(""),
                scope.project().unwrap_or(""),
                now
            ],
        )?;
        if added == 0 {
            return Err(StoreError::ValueTaken(Kind::Token));
        }
        Ok(())
    }

    /// All of them, those in force first.
    pub(crate) fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        let mut statement = self.connection.prepare(
            "SELECT key, org, project, revoked_at IS NOT NULL FROM token ORDER BY revoked_at IS NOT NULL, created_at",
        )?;
        let tokens = statement.query_map([], |row| {
            Ok(Token {
                key: row.get(0)?,
                scope: scope(row, 1)?,
                is_revoked: row.get(3)?,
            })
        })?;
        Ok(tokens.collect::<Result<_, _>>()?)
    }

    pub(crate) fn add_api_key(&self, name: &str, value: &str, now: i64) -> Result<(), StoreError> {
        self.check_free(Kind::ApiKey, name)?;
        let added = self.connection.execute(
            "INSERT OR IGNORE INTO api_key (name, digest, created_at) VALUES (?1, ?2, ?3)",
            params![name, fingerprint(value), now],
        )?;
        if added == 0 {
            return Err(StoreError::ValueTaken(Kind::ApiKey));
        }
        Ok(())
    }

    /// Whether the API key is known, and whether it was revoked.
    pub(crate) fn api_key(&self, value: &str) -> Result<Option<Credential>, StoreError> {
        let found = self
            .connection
            .query_row(
                "SELECT name, '', '', created_at, revoked_at FROM api_key WHERE digest = ?1",
                [fingerprint(value)],
                credential,
            )
            .optional()?;
        Ok(found)
    }

    pub(crate) fn credentials(&self, kind: Kind) -> Result<Vec<Credential>, StoreError> {
        let scope = match kind {
            Kind::Token => "org, project",
            Kind::ApiKey => "'', ''",
        };
        let mut statement = self.connection.prepare(&format!(
            "SELECT name, {scope}, created_at, revoked_at FROM {} ORDER BY name",
            kind.table()
        ))?;
        let found = statement.query_map([], credential)?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    pub(crate) fn revoke(&self, kind: Kind, name: &str, now: i64) -> Result<(), StoreError> {
        let name = name.to_owned();
        let all = self.credentials(kind)?;
        let Some(known) = all.iter().find(|known| known.name == name) else {
            return Err(StoreError::NoSuchCredential { kind, name });
        };
        if known.revoked_at.is_some() {
            return Err(StoreError::RevokedBefore { kind, name });
        }
        let statement = format!("UPDATE {} SET revoked_at = ?2 WHERE name = ?1", kind.table());
        self.connection.execute(&statement, params![name, now])?;
        Ok(())
    }

    fn check_free(&self, kind: Kind, name: &str) -> Result<(), StoreError> {
        let name = name.to_owned();
        if self.credentials(kind)?.iter().any(|known| known.name == name) {
            return Err(StoreError::NameTaken { kind, name });
        }
        Ok(())
    }
}

/// An API key is only ever compared, so its digest will do.
fn fingerprint(value: &str) -> Vec<u8> {
    digest(&SHA256, value.as_bytes()).as_ref().to_owned()
}

fn credential(row: &Row<'_>) -> rusqlite::Result<Credential> {
    Ok(Credential {
        name: row.get(0)?,
        scope: scope(row, 1)?,
        created_at: row.get(3)?,
        revoked_at: row.get(4)?,
    })
}

/// The scope in two columns of a row.
pub(super) fn scope(row: &Row<'_>, first: usize) -> rusqlite::Result<Scope> {
    let (org, project): (String, String) = (row.get(first)?, row.get(first + 1)?);
    Scope::new(Some(&org), Some(&project)).map_err(|reason| unreadable(reason.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revoked_token_stays_known_and_its_name_and_value_taken() {
        let store = Store::in_memory("acct").unwrap();
        let org = Scope::new(Some("o"), None).unwrap();
        store.add_token("one", &[1; 16], &org, 10).unwrap();
        store.add_token("two", &[2; 16], &Scope::Account, 20).unwrap();
        store.revoke(Kind::Token, "one", 30).unwrap();
        let states: Vec<_> = store
            .tokens()
            .unwrap()
            .into_iter()
            .map(|token| (token.key[0], token.scope, token.is_revoked))
            .collect();
        assert_eq!(states, [(2, Scope::Account, false), (1, org, true)]);
        let listed = store.credentials(Kind::Token).unwrap();
        assert_eq!(listed[0].revoked_at, Some(30));
        for (error, words) in [
            (
                store.add_token("one", &[3; 16], &Scope::Account, 40),
                "token named one already",
            ),
            (
                store.add_token("three", &[1; 16], &Scope::Account, 40),
                "same value",
            ),
            (store.revoke(Kind::Token, "one", 50), "was revoked before"),
            (store.revoke(Kind::Token, "four", 50), "manager token list"),
        ] {
            let error = error.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn of_an_api_key_only_the_digest_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("manager.db");
        let store = Store::create(&path, Some("acct")).unwrap();
        store.add_api_key("ci", "hunter2-hunter2", 10).unwrap();
        assert_eq!(store.api_key("hunter2-hunter2").unwrap().unwrap().name, "ci");
        assert_eq!(store.api_key("hunter2").unwrap(), None);
        store.revoke(Kind::ApiKey, "ci", 20).unwrap();
        let revoked = store.api_key("hunter2-hunter2").unwrap().unwrap();
        assert_eq!(revoked.revoked_at, Some(20));
        let file = std::fs::read(&path).unwrap();
        assert!(!file.windows(7).any(|bytes| bytes == b"hunter2"));
    }
}
