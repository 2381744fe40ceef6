//! Which account a registry gets: the one that the configuration names, or one of Docker's own `config.json`, read anew
//! for every pull, so that a login that is renewed there is the next one's.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::auth::{Account, Login};
use super::docker_config::DockerConfig;
use super::helper;
use crate::secret::Secret;

/// The accounts there are.
#[derive(Clone, Debug, Default)]
pub struct Logins {
    given: Option<GivenLogin>,
    file: Option<LoginFile>,
}

/// `REGISTRY_USERNAME` and `REGISTRY_PASSWORD`.
#[derive(Clone, Debug)]
pub struct GivenLogin {
    /// The user name.
    pub username: String,
    /// The password or access token.
    pub password: Secret,
    /// The registries it is for, as `host` or `host:port`; empty: whichever a pulled reference names.
    pub registries: Vec<String>,
}

/// Docker's `config.json`.
#[derive(Clone, Debug)]
pub struct LoginFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whether somebody named it. The usual place may be nothing that we can read.
    pub named: bool,
}

impl Logins {
    /// Nothing is read yet.
    pub fn new(given: Option<GivenLogin>, file: Option<LoginFile>) -> Self {
        Self { given, file }
    }

    /// The login for a registry; `None` for a pull without one. The error says what is wrong, and shows no secret.
    pub(super) async fn of(&self, registry: &str) -> Result<Option<Login>, String> {
        let is_for = |given: &&GivenLogin| {
            given.registries.is_empty() || given.registries.iter().any(|r| r == registry)
        };
        if let Some(given) = self.given.as_ref().filter(is_for) {
            let account = Account::Password {
                username: given.username.clone(),
                password: given.password.clone(),
            };
            return Ok(Some(Login::new(account, registry)));
        }
        let Some(config) = self.file.as_ref().map(read).transpose()?.flatten() else {
            return Ok(None);
        };
        let account = match config.helper(registry) {
            Some(helper) => match helper::ask(helper, registry).await? {
                Some(account) => Some(account),
                None => config.account(registry)?,
            },
            None => config.account(registry)?,
        };
        Ok(account.map(|account| Login::new(account, registry)))
    }
}

fn read(file: &LoginFile) -> Result<Option<DockerConfig>, String> {
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

    fn logins(directory: &Path, config: &str) -> Logins {
        let path = directory.join("config.json");
        fs::write(&path, config).unwrap();
        Logins::new(None, Some(LoginFile { path, named: true }))
    }

    async fn username(logins: &Logins, registry: &str) -> Option<String> {
        match logins.of(registry).await.unwrap()?.account() {
            Account::Password { username, .. } => Some(username.clone()),
            Account::IdentityToken(_) => Some("<token>".to_owned()),
        }
    }

    #[tokio::test]
    async fn a_given_login_goes_to_its_own_registries_and_to_no_other() {
        let given = |registries: &[&str]| {
            let registries = registries.iter().map(ToString::to_string).collect();
            let (username, password) = ("ci".to_owned(), Secret::new("secret"));
            Logins::new(
                Some(GivenLogin {
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
        let error = logins.of("a.example").await.unwrap_err();
        assert!(
            error.contains("config.json is not what `docker login` writes") && !error.contains("hunter2"),
            "{error}"
        );
        fs::remove_file(directory.path().join("config.json")).unwrap();
        assert_eq!(username(&logins, "a.example").await, None);
    }
}
