//! Delegates: registered by an administrator, or seen in an upgrader's question.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use rusqlite::{OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::audit::By;
use super::credentials::scope;
use super::{Store, StoreError, in_words, tags_from_column, tags_to_column};
use crate::service::resolve::Tags;
use crate::service::scope::Scope;
use crate::service::support::{AutoUpgrade, auto_upgrade};

/// An upgrader in a container has a host name of its own, so each new one is another host, and the last is never heard
/// of again.
const REMEMBERED: TimeDelta = TimeDelta::days(30);

/// Within this time all questions about the replicas of a delegate are of one run.
const SAME_RUN: TimeDelta = TimeDelta::minutes(1);

/// An upgrader checks in with all images of a delegate within these seconds.
const AT_ONCE: i64 = 15;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delegate {
    pub(crate) scope: Scope,
    pub(crate) name: String,
    pub(crate) tags: Tags,
    pub(crate) created_at: i64,
    /// When an upgrader last asked for it.
    pub(crate) asked_at: Option<i64>,
    /// Whether a run has ended since an upgrader's first check-in.
    pub(crate) synchronized: bool,
    pub(crate) replicas: Vec<Replica>,
}

/// A host that has it, and an image that it has there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) host: String,
    pub(crate) image: String,
    pub(crate) seen_at: i64,
}

impl Delegate {
    /// Whether an upgrader looks after it.
    pub(crate) fn auto_upgrade(&self, now: DateTime<Utc>) -> AutoUpgrade {
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap_or_default();
        auto_upgrade(self.asked_at.map(at), self.synchronized, at(self.created_at), now)
    }

    /// Only the images that run.
    pub(crate) fn current_replicas(&self) -> impl Iterator<Item = &Replica> {
        self.replicas.iter().filter(|replica| {
            let of_its_host = self.replicas.iter().filter(|other| other.host == replica.host);
            of_its_host
                .map(|other| other.seen_at)
                .max()
                .is_none_or(|newest| newest - replica.seen_at <= AT_ONCE)
        })
    }
}

impl Store {
    /// A second time gives it these tags.
    pub(crate) fn register(
        &self,
        scope: &Scope,
        name: &str,
        tags: &Tags,
        now: i64,
    ) -> Result<(), StoreError> {
        self.connection.execute(
            "INSERT INTO delegate (org, project, name, tags, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (org, project, name) DO UPDATE SET tags = ?4",
            params![
                scope.org().unwrap_or(""),
                scope.project().unwrap_or(""),
                name,
                tags_to_column(tags),
                now
            ],
        )?;
        Ok(())
    }

    /// An upgrader has asked for it. One that nobody registered is known from now on.
    pub(crate) fn stamp(
        &self,
        scope: &Scope,
        name: &str,
        host: &str,
        image: &str,
        now: i64,
    ) -> Result<(), StoreError> {
        let (org, project) = (scope.org().unwrap_or(""), scope.project().unwrap_or(""));
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        self.record_check_in(scope, name, host, image, now)?;
        self.connection.execute(
            "INSERT INTO delegate (org, project, name, tags, created_at, asked_at) VALUES (?1, ?2, ?3, '[]', ?4, ?4)
             ON CONFLICT (org, project, name) DO UPDATE
             SET asked_at = ?4, synchronized = synchronized OR coalesce(asked_at <= ?4 - ?5, 0)",
            params![org, project, name, now, SAME_RUN.num_seconds()],
        )?;
        self.connection.execute(
            "INSERT OR REPLACE INTO replica (org, project, name, host, image, seen_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![org, project, name, host, image, now],
        )?;
        self.connection.execute(
            "DELETE FROM replica WHERE seen_at < ?1",
            [now - REMEMBERED.num_seconds()],
        )?;
        Ok(transaction.commit()?)
    }

    /// Records the first check-in for a delegate, and each image that a host did not have at its last check-in.
    fn record_check_in(
        &self,
        scope: &Scope,
        name: &str,
        host: &str,
        image: &str,
        now: i64,
    ) -> Result<(), StoreError> {
        let by = By {
            actor: "SYSTEM".to_owned(),
            now,
        };
        let delegate = [scope.org().unwrap_or(""), scope.project().unwrap_or(""), name];
        let mut known = self.connection.prepare(
            "SELECT 1 FROM delegate WHERE org = ?1 AND project = ?2 AND name = ?3 AND asked_at IS NOT NULL",
        )?;
        if !known.exists(delegate)? {
            return self.record(
                &by,
                "first check-in",
                scope,
                &format!("{name} on {host} with {image}"),
            );
        }
        let [org, project, _] = delegate;
        let mut last = self.connection.prepare(
            "SELECT image, seen_at FROM replica WHERE org = ?1 AND project = ?2 AND name = ?3 AND host = ?4 ORDER BY seen_at DESC",
        )?;
        let last = last.query_map([org, project, name, host], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let last: Vec<(String, i64)> = last.collect::<Result<_, _>>()?;
        let Some((from, newest)) = last.iter().find(|(known, _)| known != image) else {
            return Ok(());
        };
        let ran = last.iter().find(|(known, _)| known == image);
        if ran.is_some_and(|(_, seen_at)| newest - seen_at <= AT_ONCE) {
            return Ok(());
        }
        self.record(
            &by,
            "upgrade delegate",
            scope,
            &format!("{name} on {host} from {from} to {image}"),
        )
    }

    /// Notes that an upgrader has asked about a delegate that runs the published image.
    pub(crate) fn note_synchronized(&self, scope: &Scope, name: &str) -> Result<(), StoreError> {
        self.connection.execute(
            "UPDATE delegate SET synchronized = 1 WHERE org = ?1 AND project = ?2 AND name = ?3",
            [scope.org().unwrap_or(""), scope.project().unwrap_or(""), name],
        )?;
        Ok(())
    }

    /// With its tags and its replicas, until an upgrader asks for it again.
    pub(crate) fn forget(&self, scope: &Scope, name: &str) -> Result<(), StoreError> {
        let forgotten = self.connection.execute(
            "DELETE FROM delegate WHERE org = ?1 AND project = ?2 AND name = ?3",
            [scope.org().unwrap_or(""), scope.project().unwrap_or(""), name],
        )?;
        if forgotten == 0 {
            return Err(StoreError::NoSuchDelegate {
                name: name.to_owned(),
                scope: scope.clone(),
            });
        }
        Ok(())
    }

    /// The tags of a delegate, and its name, which counts as one of them.
    pub(crate) fn tags_of(&self, scope: &Scope, name: &str) -> Result<Tags, StoreError> {
        let tags: Option<String> = self
            .connection
            .query_row(
                "SELECT tags FROM delegate WHERE org = ?1 AND project = ?2 AND name = ?3",
                [scope.org().unwrap_or(""), scope.project().unwrap_or(""), name],
                |row| row.get(0),
            )
            .optional()?;
        let tags = tags.map(|tags| tags_from_column(&tags)).transpose()?;
        let mut tags = tags.unwrap_or_default();
        tags.insert(name.to_owned());
        Ok(tags)
    }

    /// A half sentence if none of the known delegates of a scope, or below it, has these tags.
    pub(crate) fn without_delegates(&self, scope: &Scope, tags: &Tags) -> Result<String, StoreError> {
        let mut all = self.delegates()?;
        for delegate in &mut all {
            delegate.tags.insert(delegate.name.clone());
        }
        let is_meant = |delegate: &Delegate| {
            tags.is_subset(&delegate.tags) && delegate.scope.and_above().any(|above| above == *scope)
        };
        Ok(if tags.is_empty() || all.iter().any(is_meant) {
            String::new()
        } else {
            format!("; no delegate {} is known for {scope}", in_words(tags))
        })
    }

    pub(crate) fn delegates(&self) -> Result<Vec<Delegate>, StoreError> {
        let mut replicas: BTreeMap<(Scope, String), Vec<Replica>> = BTreeMap::new();
        let mut statement = self
            .connection
            .prepare("SELECT org, project, name, host, image, seen_at FROM replica ORDER BY host, seen_at")?;
        let rows = statement.query_map([], |row| {
            let replica = Replica {
                host: row.get(3)?,
                image: row.get(4)?,
                seen_at: row.get(5)?,
            };
            Ok(((scope(row, 0)?, row.get(2)?), replica))
        })?;
        for row in rows {
            let (of, replica) = row?;
            replicas.entry(of).or_default().push(replica);
        }
        let mut statement = self.connection.prepare(
            "SELECT org, project, name, tags, created_at, asked_at, synchronized FROM delegate ORDER BY org, project, name",
        )?;
        let rows = statement.query_map([], |row| {
            Ok(Delegate {
                scope: scope(row, 0)?,
                name: row.get(2)?,
                tags: tags_from_column(&row.get::<_, String>(3)?)?,
                created_at: row.get(4)?,
                asked_at: row.get(5)?,
                synchronized: row.get(6)?,
                replicas: Vec::new(),
            })
        })?;
        rows.map(|row| {
            let mut delegate = row?;
            let of = (delegate.scope.clone(), delegate.name.clone());
            delegate.replicas = replicas.remove(&of).unwrap_or_default();
            Ok(delegate)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_makes_a_delegate_known_and_a_registration_gives_it_tags() {
        let store = Store::in_memory("acct").unwrap();
        let org = Scope::new(Some("o"), None).unwrap();
        let tags: Tags = ["linux".to_owned()].into();
        let blue = |host, image, now| store.stamp(&Scope::Account, "blue", host, image, now).unwrap();
        blue("h1", "a:1", 100);
        blue("h2", "a:1", 110);
        // Two images of one host in one run.
        blue("h1", "a:2", 112);
        blue("h1", "a:1", 115);
        store.register(&Scope::Account, "blue", &tags, 140).unwrap();
        store.register(&org, "blue", &Tags::new(), 150).unwrap();
        let [account, other] = store.delegates().unwrap().try_into().unwrap();
        assert_eq!((account.created_at, account.asked_at), (100, Some(115)));
        assert_eq!(account.tags, tags);
        let running = |delegate: &Delegate| {
            let replicas = delegate.current_replicas();
            let replicas = replicas.map(|it| format!("{} {} {}", it.host, it.image, it.seen_at));
            replicas.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(running(&account), "h1 a:2 112, h1 a:1 115, h2 a:1 110");
        blue("h1", "a:2", 200);
        blue("h1", "a:2", 300);
        // It went back to an image that it had before.
        blue("h1", "a:1", 400);
        let later = store.delegates().unwrap();
        assert_eq!(running(&later[0]), "h1 a:1 400, h2 a:1 110");
        let trail = store.audit_trail().unwrap();
        let trail: Vec<String> = trail
            .iter()
            .map(|it| format!("{} {} {}: {}", it.at, it.actor, it.action, it.subject))
            .collect();
        assert_eq!(
            trail,
            [
                "100 SYSTEM first check-in: blue on h1 with a:1",
                "112 SYSTEM upgrade delegate: blue on h1 from a:1 to a:2",
                "400 SYSTEM upgrade delegate: blue on h1 from a:2 to a:1",
            ]
        );
        assert_eq!((other.scope.clone(), other.asked_at), (org.clone(), None));
        // A minute after the first question it has ended its first run. Its name is one of its tags.
        assert!(later[0].synchronized && !account.synchronized);
        assert_eq!(
            store.tags_of(&Scope::Account, "blue").unwrap(),
            ["blue".to_owned(), "linux".to_owned()].into()
        );
        assert_eq!(store.tags_of(&org, "green").unwrap(), ["green".to_owned()].into());
    }

    #[test]
    fn a_host_that_is_not_heard_of_any_more_is_forgotten_with_somebody_s_next_question() {
        let store = Store::in_memory("acct").unwrap();
        let day = 24 * 60 * 60;
        store.stamp(&Scope::Account, "blue", "gone", "a:1", 0).unwrap();
        store.stamp(&Scope::Account, "blue", "quiet", "a:1", 1).unwrap();
        store
            .stamp(&Scope::Account, "green", "other", "a:1", 30 * day + 1)
            .unwrap();
        let [blue, green] = store.delegates().unwrap().try_into().unwrap();
        let hosts = |delegate: &Delegate| -> Vec<String> {
            delegate
                .replicas
                .iter()
                .map(|replica| replica.host.clone())
                .collect()
        };
        assert_eq!(hosts(&blue), ["quiet"]);
        assert_eq!(hosts(&green), ["other"]);
    }
}
