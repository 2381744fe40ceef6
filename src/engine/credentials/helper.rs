//! Credential helpers: programs called `docker-credential-NAME` that Docker's clients ask for an account.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::{Instant, sleep};

use super::header::{Account, server_address};
use crate::text::duration;
use crate::text::one_line;
use crate::text::secret::Secret;

/// A helper may have to ask a cloud.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// A login is much shorter.
const MOST_PRINTED: u64 = 1 << 20;
/// What a helper prints where it knows no account: the words are part of its protocol.
const NOT_FOUND: &str = "credentials not found in native keychain";

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
async fn run(program: &Path, registry: &str) -> Result<Option<Account>, String> {
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
    let Some(output) = child.0.stdout.take() else {
        return Err(format!("{name} has no output"));
    };
    let broken = |error: io::Error| format!("{name}: {error}");
    // What it leaves running may hold its output open for ever, so its end is no sign, and nothing waits for it.
    rustix::io::ioctl_fionbio(&output, true).map_err(|error| broken(error.into()))?;
    let mut output = output.take(MOST_PRINTED);
    let mut printed = Vec::new();
    let begun = Instant::now();
    let status = loop {
        // First whether it has ended, then what there is: so nothing that it printed is missed.
        let status = child.0.try_wait().map_err(broken)?;
        match output.read_to_end(&mut printed) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(broken(error)),
            _ if output.limit() == 0 => {
                return Err(format!(
                    "{name} printed more than {MOST_PRINTED} bytes, which is no login"
                ));
            }
            _ => {}
        }
        match status {
            Some(status) => break status,
            None if begun.elapsed() < PATIENCE => sleep(LOOK_AGAIN).await,
            None => {
                let limit = duration::text(PATIENCE);
                return Err(format!("{name} gave no login within {limit}"));
            }
        }
    };
    if !status.success() {
        let text = String::from_utf8_lossy(&printed);
        if text.trim() == NOT_FOUND {
            return Ok(None);
        }
        return Err(format!(
            "{name} has no login for {registry}: {}",
            complaint(&text)
        ));
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

/// What a helper that failed has printed, unless a login may be in it.
fn complaint(text: &str) -> String {
    let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
    if is_json || text.contains('{') || text.contains("Secret") {
        return "it failed, and what it printed is not shown, since it may be a secret".to_owned();
    }
    one_line(text, 200)
}

/// Ends with us.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script as a helper. Another process writes it: what this one has open for writing, a program that another
    /// test starts just then holds open too, and it could not be run.
    async fn ask(script: &str, registry: &str) -> Result<Option<Account>, String> {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("docker-credential-lab");
        let written = Command::new("sh")
            .args([
                "-c",
                r#"printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod +x "$1""#,
                "sh",
            ])
            .arg(&program)
            .arg(script)
            .status()
            .unwrap();
        assert!(written.success());
        run(&program, registry).await
    }

    async fn username(script: &str, registry: &str) -> String {
        match ask(script, registry).await {
            Ok(Some(Account::Password { username, .. })) => username,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn each_kind_of_answer_is_understood() {
        let greeting = r#"read server; echo "{\"Username\":\"for-$server\",\"Secret\":\"s\"}""#;
        assert_eq!(username(greeting, "r.example:5000").await, "for-r.example:5000");
        assert_eq!(
            username(greeting, "docker.io").await,
            "for-https://index.docker.io/v1/"
        );
        assert!(matches!(
            ask(r#"echo '{"Username":"<token>","Secret":"s"}'"#, "r.example").await,
            Ok(Some(Account::IdentityToken(_)))
        ));
        let none = ask(
            "echo 'credentials not found in native keychain'; exit 1",
            "r.example",
        );
        assert!(matches!(none.await, Ok(None)));
        let missing = run(Path::new("/nowhere/docker-credential-missing"), "r.example").await;
        assert!(missing.unwrap_err().contains("is not there"));
    }

    #[tokio::test]
    async fn what_a_helper_leaves_running_holds_nobody_up() {
        let begun = Instant::now();
        let script = r#"sleep 6 & echo '{"Username":"u","Secret":"s"}'"#;
        assert_eq!(username(script, "r.example").await, "u");
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_long_answer_is_taken_and_an_endless_one_is_not() {
        let script = r#"printf '%200000s' ''; echo '{"Username":"u","Secret":"s"}'"#;
        assert_eq!(username(script, "r.example").await, "u");
        let begun = Instant::now();
        let error = ask("exec yes", "r.example").await.unwrap_err();
        assert!(error.contains("printed more than"), "{error}");
        assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_complaint_is_told_and_what_may_be_a_secret_is_not() {
        let error = ask("echo 'no network'; exit 1", "r.example").await.unwrap_err();
        assert!(
            error.contains("docker-credential-lab") && error.contains("no network"),
            "{error}"
        );
        for printed in [
            r#"{"Username":"u","Secret":"hunter2"}"#,
            r#"{"username":"u","secret":"hunt hunter2"#,
            r#"warning: {"ServerURL":"r.example","Secret":"hunter2"}"#,
            r#""hunter2""#,
            "Secret: hunter2",
        ] {
            let error = ask(&format!("cat <<'END'\n{printed}\nEND\nexit 1"), "r.example")
                .await
                .unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains("is not shown"), "{error}");
        }
    }
}
