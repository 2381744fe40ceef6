//! Which account a registry gets: the one that the configuration names, or one of Docker's own `config.json`, read anew
//! for every pull, so that a login that is renewed there is the next one's.

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

/// The accounts there are.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    given: Option<StaticCredentials>,
    file: Option<ConfigFile>,
}

/// `REGISTRY_USERNAME` and `REGISTRY_PASSWORD`.
#[derive(Clone, Debug)]
pub struct StaticCredentials {
    /// The user name.
    pub username: String,
    /// The password or access token.
    pub password: Secret,
    /// The registries it is for, as `host` or `host:port`; empty: whichever a pulled reference names.
    pub registries: Vec<String>,
}

/// Docker's `config.json`.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whether somebody named it. The usual place may be nothing that we can read.
    pub named: bool,
}

impl Credentials {
    /// Nothing is read yet.
    pub fn new(given: Option<StaticCredentials>, file: Option<ConfigFile>) -> Self {
        Self { given, file }
    }

    /// What there is for a registry.
    pub(super) async fn of(&self, registry: &str) -> Found {
        let is_for = |given: &&StaticCredentials| {
            given.registries.is_empty() || given.registries.iter().any(|r| r == registry)
        };
        let mut found = Found::default();
        if let Some(given) = self.given.as_ref().filter(is_for) {
            let account = Account::Password {
                username: given.username.clone(),
                password: given.password.clone(),
            };
            found.login = Some(Login::new(account, registry));
            return found;
        }
        let config = found.or_problem(self.file.as_ref().map_or(Ok(None), read));
        if let Some(config) = config {
            let mut account = match config.helper(registry) {
                Some(helper) => found.or_problem(helper::ask(helper, registry).await),
                None => None,
            };
            if account.is_none() {
                account = found.or_problem(config.account(registry));
            }
            found.login = account.map(|account| Login::new(account, registry));
        }
        found
    }
}

/// A login to pull with, and what came in the way of one. Most images need none, so that stops nobody; it is told where
/// the registry wants one. It shows no secret.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) login: Option<Login>,
    pub(super) problem: Option<String>,
}

impl Found {
    fn or_problem<T>(&mut self, outcome: Result<Option<T>, String>) -> Option<T> {
        outcome.unwrap_or_else(|problem| {
            self.problem.get_or_insert(problem);
            None
        })
    }

    /// The outcome of a pull or a look-up with this login.
    pub(super) fn explain<T>(self, outcome: Result<T, EngineError>) -> Result<T, EngineError> {
        match (outcome, self.problem) {
            (Err(error @ (EngineError::Refused { .. } | EngineError::NotFound(_))), Some(problem))
                if is_auth_error(&error.words()) =>
            {
                Err(EngineError::Unauthorized(format!("{}; {problem}", error.words())))
            }
            (outcome, _) => outcome,
        }
    }
}

/// Whether a refusal is for want of a login. Registries and engines have no common word for it.
pub(crate) fn is_auth_error(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    let signs = [
        "unauthorized",
        "authentication required",
        "no basic auth credentials",
        "access denied",
        "denied:",
        "docker login",
        // What an engine says after it tried again by http, where the registry is an insecure one to it.
        "http request to an https server",
    ];
    signs.iter().any(|sign| words.contains(sign))
}

fn read(file: &ConfigFile) -> Result<Option<DockerConfig>, String> {
    let path = file.path.display();
    let text = match fs::read(&file.path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound || !file.named => return Ok(None),
        Err(error) => return Err(format!("the registry logins in {path} cannot be read: {error}")),
    };
    match serde_json::from_slice(&text) {
        Ok(config) => Ok(Some(config)),
        Err(error) => Err(format!(
            "{path} is not what `docker login` writes, at line {}, column {}",
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
        match logins.of(registry).await.login?.account() {
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
        let found = logins.of("a.example").await;
        assert!(found.login.is_none());
        let error = found.problem.unwrap();
        assert!(
            error.contains("config.json is not what `docker login` writes") && !error.contains("hunter2"),
            "{error}"
        );
        fs::remove_file(directory.path().join("config.json")).unwrap();
        assert_eq!(username(&logins, "a.example").await, None);
    }

    #[test]
    fn only_what_a_login_would_mend_asks_for_one() {
        for words in [
            "pull access denied for x, repository does not exist or may require 'docker login'",
            "Head https://r.example/v2/x/manifests/1: no basic auth credentials",
            "Head https://r.example/v2/x/manifests/1: unauthorized: authentication required",
            "denied: Your authorization token has expired. Reauthenticate and try again.",
            "error parsing HTTP 400 response body: \"Client sent an HTTP request to an HTTPS server.\\n\"",
        ] {
            assert!(is_auth_error(words), "{words}");
        }
        for words in [
            "open /var/lib/docker/tmp/GetImageBlob1: permission denied",
            "manifest unknown",
            "dial tcp: lookup r.example: no such host",
        ] {
            assert!(!is_auth_error(words), "{words}");
        }
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
                "docker-credential-of-somewhere-else, which is not there",
            ),
            (r#"{"auths":"#, "is not what `docker login` writes"),
        ] {
            let logins = logins(directory.path(), config);
            let of = async || logins.of("r.example").await;
            assert_eq!(of().await.explain(Ok(())), Ok(()));
            let away = Err(EngineError::Unreachable(
                "permission denied: docker.sock".to_owned(),
            ));
            for other in [refused("manifest unknown"), away] {
                assert_eq!(of().await.explain(other.clone()), other);
            }
            let error = of()
                .await
                .explain(refused("no basic auth credentials"))
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
