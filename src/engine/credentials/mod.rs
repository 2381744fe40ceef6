//! Which account a registry gets: the one in our own settings, or one of Docker's `config.json`. That file is read for
//! every pull, so that the next one has a login that was renewed there.

mod config_file;
pub(crate) mod header;
mod helper;

use std::fs;
use std::io;
use std::path::PathBuf;

use config_file::DockerConfig;
use header::{Account, Login};

use crate::engine::EngineError;
use crate::text::secret::Secret;

/// The accounts for registries.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    own: Option<StaticCredentials>,
    file: Option<ConfigFile>,
}

/// `REGISTRY_USERNAME` and `REGISTRY_PASSWORD`.
#[derive(Clone, Debug)]
pub struct StaticCredentials {
    /// The user name.
    pub username: String,
    /// The password or access token.
    pub password: Secret,
    /// The registries it is for, as `host` or `host:port`; empty for every registry.
    pub registries: Vec<String>,
}

/// Docker's `config.json`.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whether a setting names it. A file at the usual place may be unreadable for us, and then counts as absent.
    pub named: bool,
}

impl Credentials {
    /// Takes the places where logins are kept. Nothing is read yet.
    pub fn new(own: Option<StaticCredentials>, file: Option<ConfigFile>) -> Self {
        Self { own, file }
    }

    /// The login for a registry, and what is wrong with it.
    pub(super) async fn look_up(&self, registry: &str) -> Lookup {
        let is_for = |own: &&StaticCredentials| {
            own.registries.is_empty() || own.registries.iter().any(|r| r == registry)
        };
        let mut lookup = Lookup::default();
        if let Some(own) = self.own.as_ref().filter(is_for) {
            let account = Account::Password {
                username: own.username.clone(),
                password: own.password.clone(),
            };
            lookup.login = Some(Login::new(account, registry));
            return lookup;
        }
        let config = lookup.note(self.file.as_ref().map_or(Ok(None), read));
        if let Some(config) = config {
            let mut account = match config.helper(registry) {
                Some(helper) => lookup.note(helper::ask(helper, registry).await),
                None => None,
            };
            if account.is_none() {
                account = lookup.note(config.account(registry));
            }
            lookup.login = account.map(|account| Login::new(account, registry));
        }
        lookup
    }
}

/// What a look-up of a login found.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    /// The login to pull with.
    pub(super) login: Option<Login>,
    /// The first thing that was wrong, without any secret. Most images need no login, so it stops nothing; it is reported
    /// where the registry wants one.
    pub(super) problem: Option<String>,
}

impl Lookup {
    /// Keeps a problem, and goes on without what it concerns.
    fn note<T>(&mut self, outcome: Result<Option<T>, String>) -> Option<T> {
        outcome.unwrap_or_else(|problem| {
            self.problem.get_or_insert(problem);
            None
        })
    }

    /// Adds the problem to the outcome of a call with this login, where that failed for want of one.
    pub(super) fn complete<T>(self, outcome: Result<T, EngineError>) -> Result<T, EngineError> {
        match (outcome, self.problem) {
            (Err(error), Some(problem)) if error.is_auth_error() => Err(EngineError::Unauthorized(format!(
                "{}; {problem}",
                error.message()
            ))),
            (outcome, _) => outcome,
        }
    }
}

fn read(file: &ConfigFile) -> Result<Option<DockerConfig>, String> {
    let path = file.path.display();
    let text = match fs::read(&file.path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound || !file.named => return Ok(None),
        Err(error) => return Err(format!("cannot read the registry logins in {path}: {error}")),
    };
    match serde_json::from_slice(&text) {
        Ok(config) => Ok(Some(config)),
        Err(error) => Err(format!(
            "{path} is not what `docker login` writes: line {}, column {}",
            error.line(),
            error.column()
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn logins(directory: &Path, config: &str) -> Credentials {
        let path = directory.join("config.json");
        fs::write(&path, config).unwrap();
        Credentials::new(None, Some(ConfigFile { path, named: true }))
    }

    async fn username(logins: &Credentials, registry: &str) -> Option<String> {
        match logins.look_up(registry).await.login?.account() {
            Account::Password { username, .. } => Some(username.clone()),
            Account::IdentityToken(_) => Some("<token>".to_owned()),
        }
    }

    #[tokio::test]
    async fn a_given_login_goes_to_its_own_registries_and_to_no_other() {
        let given = |registries: &[&str]| {
            let registries = registries.iter().map(ToString::to_string).collect();
            let (username, password) = ("ci".to_owned(), Secret::new("secret"));
            Credentials::new(
                Some(StaticCredentials {
                    username,
                    password,
                    registries,
                }),
                None,
            )
        };
        let mirror = given(&["mirror.example:5000"]);
        assert_eq!(
            username(&mirror, "mirror.example:5000").await.as_deref(),
            Some("ci")
        );
        assert_eq!(username(&mirror, "elsewhere.example").await, None);
        assert_eq!(
            username(&given(&[]), "elsewhere.example").await.as_deref(),
            Some("ci")
        );
    }

    #[tokio::test]
    async fn the_file_is_read_anew_and_what_is_wrong_with_it_is_told_without_its_content() {
        let directory = tempfile::tempdir().unwrap();
        let logins = logins(
            directory.path(),
            r#"{"auths": {"a.example": {"auth": "dTE6cA=="}}}"#,
        );
        assert_eq!(username(&logins, "a.example").await.as_deref(), Some("u1"));
        fs::write(
            directory.path().join("config.json"),
            r#"{"auths": {"a.example": {"auth": "dTI6cA=="}}}"#,
        )
        .unwrap();
        assert_eq!(username(&logins, "a.example").await.as_deref(), Some("u2"));
        fs::write(directory.path().join("config.json"), r#"{"auths": "hunter2""#).unwrap();
        let found = logins.look_up("a.example").await;
        assert!(found.login.is_none());
        let error = found.problem.unwrap();
        assert!(
            error.contains("config.json is not what `docker login` writes") && !error.contains("hunter2"),
            "{error}"
        );
        fs::remove_file(directory.path().join("config.json")).unwrap();
        assert_eq!(username(&logins, "a.example").await, None);
    }

    #[tokio::test]
    async fn what_is_wrong_with_a_login_is_told_only_where_one_is_wanted() {
        let directory = tempfile::tempdir().unwrap();
        let refused = |message: &str| {
            Err::<(), _>(EngineError::Refused {
                status: 500,
                message: message.to_owned(),
            })
        };
        for (config, problem) in [
            (
                r#"{"credsStore": "of-somewhere-else"}"#,
                "docker-credential-of-somewhere-else, which is not installed",
            ),
            (r#"{"auths":"#, "is not what `docker login` writes"),
        ] {
            let logins = logins(directory.path(), config);
            let of = async || logins.look_up("r.example").await;
            assert_eq!(of().await.complete(Ok(())), Ok(()));
            let away = Err(EngineError::Unreachable(
                "permission denied: docker.sock".to_owned(),
            ));
            for other in [refused("manifest unknown"), away] {
                assert_eq!(of().await.complete(other.clone()), other);
            }
            let error = of()
                .await
                .complete(refused("no basic auth credentials"))
                .unwrap_err();
            let EngineError::Unauthorized(words) = &error else {
                panic!("{error:?}")
            };
            assert!(
                words.contains("no basic auth credentials; ") && words.contains(problem),
                "{words}"
            );
        }
    }

    #[tokio::test]
    async fn the_file_s_own_login_is_taken_where_its_helper_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let config = r#"{"credsStore": "of-somewhere-else", "auths": {"r.example": {"auth": "dTpw"}}}"#;
        let logins = logins(directory.path(), config);
        assert_eq!(username(&logins, "r.example").await.as_deref(), Some("u"));
    }
}
