//! Finds the account for a registry in the upgrader's own settings or in Docker's `config.json`. That file is read again for
//! every pull, so a login that was renewed there takes effect at the next pull.

mod config_file;
pub(crate) mod header;
mod helper;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use config_file::DockerConfig;
use header::Account;
use tokio::time::timeout;
use tracing::warn;

use crate::engine::EngineError;
use crate::image::ImageReference;
use crate::text::secret::Secret;

/// The time limit for reading the file.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The registry accounts, or the path of the file that has them. Nothing is read until a registry is contacted.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The account from the upgrader's own settings.
    pub own: Option<StaticCredentials>,
    /// Docker's `config.json`, for all other registries.
    pub file: Option<ConfigFile>,
}

/// The account in `REGISTRY_USERNAME` and `REGISTRY_PASSWORD`.
#[derive(Clone, Debug)]
pub struct StaticCredentials {
    /// The user name.
    pub username: String,
    /// The password or access token.
    pub password: Secret,
    /// The registries that the account is for, as `host` or `host:port`. Empty means every registry.
    pub registries: Vec<String>,
}

/// Docker's `config.json`.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// The path of the file.
    pub path: PathBuf,
    /// Whether a setting names the file. Without one, a file at the usual path that cannot be read counts as absent.
    pub named: bool,
}

impl Credentials {
    /// Returns the user name and password for a registry, for a program that contacts the registry itself.
    #[cfg(feature = "kubernetes")]
    pub(crate) async fn password(&self, registry: &str) -> Option<(String, Secret)> {
        match self.look_up(registry).await.login? {
            Account::Password { username, password } => Some((username, password)),
            Account::IdentityToken(_) => None,
        }
    }

    /// Looks up the login for a registry, and reports problems with it.
    pub(super) async fn look_up(&self, registry: &str) -> Lookup {
        let is_for = |own: &&StaticCredentials| {
            own.registries.is_empty() || own.registries.iter().any(|r| r == registry)
        };
        let mut lookup = Lookup::default();
        if let Some(own) = self.own.as_ref().filter(is_for) {
            let (username, password) = (own.username.clone(), own.password.clone());
            lookup.login = Some(Account::Password { username, password });
            return lookup;
        }
        if let Some(file) = &self.file
            && let Some(config) = lookup.note(read(file).await)
        {
            let path = file.path.display().to_string();
            if let Some(helper) = config.helper(registry)
                && let Some(account) = lookup.note(helper::ask(helper, registry).await)
            {
                lookup.login = Some(account);
                lookup.origin = Some(format!("{path} (credential helper {helper})"));
            } else if let Some((key, account)) = lookup.note(config.account(registry)) {
                lookup.login = Some(account);
                lookup.origin = Some(format!("{path} (entry {key})"));
            }
        }
        lookup
    }
}

#[derive(Default)]
pub(super) struct Lookup {
    /// The login to pull with.
    pub(super) login: Option<Account>,
    /// The source of the login, unless it is our own settings. Such a login may be outdated or for another account.
    pub(super) origin: Option<String>,
    /// The first problem that was found, without any secret. Most images need no login, so the problem stops nothing; it is
    /// reported if the registry asks for a login.
    pub(super) problem: Option<String>,
}

impl Lookup {
    /// Records a problem and continues without the affected part.
    fn note<T>(&mut self, outcome: Result<Option<T>, String>) -> Option<T> {
        outcome.unwrap_or_else(|problem| {
            self.problem.get_or_insert(problem);
            None
        })
    }

    /// Whether a call failed because of this login, which may be outdated or for another account.
    pub(super) fn may_be_stale<T>(&self, outcome: &Result<T, EngineError>) -> bool {
        self.origin.is_some() && outcome.as_ref().is_err_and(EngineError::is_auth_error)
    }

    /// Returns the outcome of the call without the login if that call succeeded.
    pub(super) fn better_of<T>(
        &self,
        image: &ImageReference,
        with: Result<T, EngineError>,
        without: Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let (Err(error), Some(origin), Ok(_)) = (&with, &self.origin, &without) else {
            return with;
        };
        let (registry, problem) = (image.registry(), error.message());
        warn!(
            registry,
            problem,
            "the registry refuses the login in {origin}, and needs none for {image}; remove or renew it"
        );
        without
    }

    /// Adds the problem to the outcome of a call that failed because it lacked a valid login.
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

/// Reads the file in its own thread, since a hanging file system never answers.
async fn read(file: &ConfigFile) -> Result<Option<DockerConfig>, String> {
    let path = file.path.clone();
    let reading = tokio::task::spawn_blocking(move || fs::read(path));
    let read = match timeout(READ_TIMEOUT, reading).await {
        Ok(read) => read.unwrap_or_else(|panicked| Err(io::Error::other(panicked))),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    };
    let path = file.path.display();
    let text = match read {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound || !file.named => return Ok(None),
        Err(error) => return Err(format!("cannot read the registry logins in {path}: {error}")),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("{path} is not what `docker login` writes: line {line}, column {column}")
    })
}
