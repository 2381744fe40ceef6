//! Overrides of the delegate's image: in each scope at most one with tags and one without.

use rusqlite::{Row, params};

use super::credentials::scope;
use super::{Store, StoreError, tags_from_column, tags_to_column};
use crate::service::resolve::{Override, Tags};
use crate::service::scope::Scope;

impl Store {
    /// All of them, those that are over too.
    pub(crate) fn overrides(&self) -> Result<Vec<Override>, StoreError> {
        let mut statement = self.connection.prepare(
            "SELECT org, project, tags, image, release, till_next_release, valid_until
             FROM version_override ORDER BY org, project, tagged",
        )?;
        let found = statement.query_map([], override_of)?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// Takes the place of the one that the scope has of its sort.
    pub(crate) fn set_override(&self, set: &Override) -> Result<(), StoreError> {
        self.connection.execute(
            "INSERT OR REPLACE INTO version_override
             (org, project, tagged, tags, image, release, till_next_release, valid_until)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                set.scope.org().unwrap_or(""),
                set.scope.project().unwrap_or(""),
                !set.tags.is_empty(),
                tags_to_column(&set.tags),
                set.image,
                set.release,
                set.till_next_release,
                set.valid_until,
            ],
        )?;
        Ok(())
    }

    /// The one of exactly these tags.
    pub(crate) fn delete_override(&self, scope: &Scope, tags: &Tags) -> Result<(), StoreError> {
        let deleted = self.connection.execute(
            "DELETE FROM version_override WHERE org = ?1 AND project = ?2 AND tags = ?3",
            params![
                scope.org().unwrap_or(""),
                scope.project().unwrap_or(""),
                tags_to_column(tags)
            ],
        )?;
        if deleted == 0 {
            let there: Vec<String> = self
                .overrides()?
                .iter()
                .filter(|found| found.scope == *scope)
                .map(|found| in_words(&found.tags))
                .collect();
            let there = if there.is_empty() {
                "none".to_owned()
            } else {
                format!("one {}", there.join(" and one "))
            };
            return Err(StoreError::NoSuchOverride(format!(
                "there is no override {} for the scope {scope}; it has {there}",
                in_words(tags)
            )));
        }
        Ok(())
    }
}

pub(crate) fn in_words(tags: &Tags) -> String {
    if tags.is_empty() {
        return "without tags".to_owned();
    }
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    format!("with the tags {}", tags.join(", "))
}

fn override_of(row: &Row<'_>) -> rusqlite::Result<Override> {
    Ok(Override {
        scope: scope(row, 0)?,
        tags: tags_from_column(&row.get::<_, String>(2)?)?,
        image: row.get(3)?,
        release: row.get(4)?,
        till_next_release: row.get(5)?,
        valid_until: row.get(6)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(scope: &Scope, tags: &[&str], image: &str) -> Override {
        Override {
            scope: scope.clone(),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            image: image.to_owned(),
            release: 3,
            till_next_release: true,
            valid_until: 1_000,
        }
    }

    #[test]
    fn a_scope_has_at_most_one_with_tags_and_one_without() {
        let store = Store::in_memory("acct").unwrap();
        let org = Scope::new(Some("o"), None).unwrap();
        let plain = some(&org, &[], "a:2");
        let tagged = some(&org, &["c", "b"], "a:4");
        let elsewhere = some(&Scope::Account, &["x"], "a:5");
        for set in [
            &some(&org, &[], "a:1"),
            &plain,
            &some(&org, &["a"], "a:3"),
            &tagged,
            &elsewhere,
        ] {
            store.set_override(set).unwrap();
        }
        assert_eq!(store.overrides().unwrap(), [elsewhere, plain, tagged]);
    }

    #[test]
    fn one_exact_match_is_deleted_and_a_miss_says_what_is_there() {
        let store = Store::in_memory("acct").unwrap();
        let tagged = some(&Scope::Account, &["b", "a"], "a:1");
        let plain = some(&Scope::Account, &[], "a:2");
        store.set_override(&tagged).unwrap();
        store.set_override(&plain).unwrap();
        let part: Tags = ["a".to_owned()].into();
        let error = store.delete_override(&Scope::Account, &part).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no override with the tags a for the scope account; it has one without tags and one with the \
             tags a, b"
        );
        store.delete_override(&Scope::Account, &tagged.tags).unwrap();
        assert_eq!(store.overrides().unwrap(), [plain]);
        store.delete_override(&Scope::Account, &Tags::new()).unwrap();
        let error = store.delete_override(&Scope::Account, &Tags::new()).unwrap_err();
        assert!(error.to_string().ends_with("it has none"), "{error}");
    }
}
