//! Credential helpers: programs called `docker-credential-NAME` that Docker's clients ask for an account.

use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::auth::{Account, server_address};
use crate::secret::Secret;

/// A helper may have to ask a cloud.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// What a helper prints where it knows no account: the words are part of its protocol.
const NOT_FOUND: &str = "credentials not found in native keychain";
/// As much as is told of what a helper complains of.
const MOST_WORDS: usize = 200;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

/// Asks a helper by the name that `config.json` gives it.
pub(super) async fn ask(name: &str, registry: &str) -> Result<Option<Account>, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !name.chars().all(is_name) {
        return Err(format!(
            "{name:?} in config.json is no name of a credential helper"
        ));
    }
    run(Path::new(&format!("docker-credential-{name}")), registry).await
}

/// Runs a helper; one without a slash in its path is searched for in `PATH`.
pub(super) async fn run(program: &Path, registry: &str) -> Result<Option<Account>, String> {
    let name = program
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let started = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match started {
        Ok(child) => Running(child),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(format!(
                "config.json keeps the login of {registry} in {name}, which is not there: install it beside this \
                 program, or set REGISTRY_USERNAME and REGISTRY_PASSWORD"
            ));
        }
        Err(error) => return Err(format!("{name} cannot be run: {error}")),
    };
    if let Some(mut stdin) = child.0.stdin.take() {
        // One that does not listen will say why.
        let _ = writeln!(stdin, "{}", server_address(registry));
    }
    let begun = Instant::now();
    let status = loop {
        match child.0.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() < PATIENCE => sleep(LOOK_AGAIN).await,
            Ok(None) => return Err(format!("{name} gave no login within {} s", PATIENCE.as_secs())),
            Err(error) => return Err(format!("{name}: {error}")),
        }
    };
    let mut printed = Vec::new();
    if let Some(mut stdout) = child.0.stdout.take() {
        stdout
            .read_to_end(&mut printed)
            .map_err(|error| format!("{name}: {error}"))?;
    }
    let text = String::from_utf8_lossy(&printed);
    if !status.success() {
        if text.trim() == NOT_FOUND {
            return Ok(None);
        }
        let words: String = text
            .trim()
            .chars()
            .filter(|c| !c.is_control())
            .take(MOST_WORDS)
            .collect();
        return Err(format!("{name} has no login for {registry}: {words}"));
    }
    let answer: Answer =
        serde_json::from_slice(&printed).map_err(|_| format!("{name} did not answer with a login"))?;
    let secret = Secret::new(answer.secret);
    Ok(Some(match answer.username.as_str() {
        "<token>" => Account::IdentityToken(secret),
        _ => Account::Password {
            username: answer.username,
            password: secret,
        },
    }))
}

/// Ends with us.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
