//! Makes, ends and lists tokens and API keys, and shows a value only once, when it makes it.

use chrono::{DateTime, Utc};
use clap::Subcommand;

use super::{Database, Place, Said, time};
use crate::service::scope::Scope;
use crate::service::store::{Credential, Kind};
use crate::service::tokens::{new_api_key, new_token};
use crate::tables::table;

#[derive(Subcommand)]
pub(crate) enum Token {
    /// Make a token and print it, this once
    Create {
        #[command(flatten)]
        database: Database,
        #[command(flatten)]
        place: Place,
        /// A name to know it by
        name: String,
    },
    /// End a token: every request with it is refused from now on
    Revoke {
        #[command(flatten)]
        database: Database,
        name: String,
    },
    /// The tokens there are, without their values
    List {
        #[command(flatten)]
        database: Database,
    },
}

impl Token {
    pub(crate) fn run(&self, now: DateTime<Utc>) -> Said {
        match self {
            Self::Create {
                database,
                place,
                name,
            } => {
                let scope = place.scope()?;
                let (key, text) = new_token()?;
                database.change("create token", &scope, now, |store| {
                    store.add_token(name, &key, &scope, now.timestamp())?;
                    Ok((name.clone(), format!("{text}\n")))
                })
            }
            Self::Revoke { database, name } => revoke(database, Kind::Token, name, now),
            Self::List { database } => {
                let tokens = database.open()?.credentials(Kind::Token)?;
                let rows: Vec<_> = tokens
                    .iter()
                    .map(|token| {
                        let [name, created, state] = shown(token);
                        [name, token.scope.to_string(), created, state]
                    })
                    .collect();
                Ok(table(["NAME", "SCOPE", "CREATED", "STATE"], &rows))
            }
        }
    }
}

#[derive(Subcommand)]
pub(crate) enum Key {
    /// Make an API key and print it, this once
    Create {
        #[command(flatten)]
        database: Database,
        /// A name to know it by
        name: String,
    },
    /// End an API key
    Revoke {
        #[command(flatten)]
        database: Database,
        name: String,
    },
    /// The API keys there are, without their values
    List {
        #[command(flatten)]
        database: Database,
    },
}

impl Key {
    pub(crate) fn run(&self, now: DateTime<Utc>) -> Said {
        match self {
            Self::Create { database, name } => {
                let value = new_api_key()?;
                database.change("create API key", &Scope::Account, now, |store| {
                    store.add_api_key(name, &value, now.timestamp())?;
                    Ok((name.clone(), format!("{value}\n")))
                })
            }
            Self::Revoke { database, name } => revoke(database, Kind::ApiKey, name, now),
            Self::List { database } => {
                let keys = database.open()?.credentials(Kind::ApiKey)?;
                let rows: Vec<_> = keys.iter().map(shown).collect();
                Ok(table(["NAME", "CREATED", "STATE"], &rows))
            }
        }
    }
}

fn revoke(database: &Database, kind: Kind, name: &str, now: DateTime<Utc>) -> Said {
    database.change(&format!("revoke {kind}"), &Scope::Account, now, |store| {
        store.revoke(kind, name, now.timestamp())?;
        Ok((name.to_owned(), format!("the {kind} {name} is revoked\n")))
    })
}

fn shown(credential: &Credential) -> [String; 3] {
    let state = match credential.revoked_at {
        None => "in force".to_owned(),
        Some(at) => format!("revoked {}", time(at)),
    };
    [credential.name.clone(), time(credential.created_at), state]
}
