//! Credential helpers: programs called `docker-credential-NAME` that Docker's clients ask for an account.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::header::{Account, server_address};
use crate::text::secret::Secret;
use crate::text::{duration, one_line};

/// The time limit for a helper, which may have to contact a cloud service.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long to keep reading after a helper has ended. Its whole output is in the pipe by then.
const LAST_READ: Duration = Duration::from_millis(50);
/// The most bytes that a helper may print. A login is much shorter.
const MAX_OUTPUT: usize = 1 << 20;
/// A helper's answer for an unknown account. The protocol of credential helpers defines this text.
const NOT_FOUND: &str = "credentials not found in native keychain";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

/// Asks the helper with this name from `config.json`. Returns `None` if it has no account for the registry.
pub(super) async fn ask(name: &str, registry: &str) -> Result<Option<Account>, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !name.chars().all(is_name) {
        return Err(format!(
            "{name:?} in config.json is not the name of a credential helper"
        ));
    }
    run(Path::new(&format!("docker-credential-{name}")), registry).await
}

/// Runs a helper, found through `PATH` unless its path contains a slash. Dropping the future kills the helper.
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
        .kill_on_drop(true)
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(format!(
                "config.json keeps the login of {registry} in {name}, which is not installed: install it beside this \
                 program, or set REGISTRY_USERNAME and REGISTRY_PASSWORD"
            ));
        }
        Err(error) => return Err(format!("cannot run {name}: {error}")),
    };
    let conversation = converse(&mut child, server_address(registry));
    let Ok(ended) = timeout(TIMEOUT, conversation).await else {
        let limit = duration::text(TIMEOUT);
        return Err(format!("{name} did not answer within {limit}"));
    };
    let (status, output) = ended.map_err(|error| format!("{name}: {error}"))?;
    if !status.success() {
        let text = String::from_utf8_lossy(&output);
        if text.trim() == NOT_FOUND {
            return Ok(None);
        }
        return Err(format!(
            "{name} has no login for {registry}: {}",
            complaint(&text)
        ));
    }
    let answer: Answer =
        serde_json::from_slice(&output).map_err(|_| format!("{name} did not answer with a login"))?;
    let secret = Secret::new(answer.secret);
    Ok(Some(match answer.username.as_str() {
        "<token>" => Account::IdentityToken(secret),
        _ => Account::Password {
            username: answer.username,
            password: secret,
        },
    }))
}

/// Sends a registry address to a helper. Returns the helper's exit status and its output.
async fn converse(child: &mut Child, address: &str) -> io::Result<(ExitStatus, Vec<u8>)> {
    if let Some(mut stdin) = child.stdin.take() {
        // If a helper does not read the address, its exit status and output explain why.
        let _ = stdin.write_all(format!("{address}\n").as_bytes()).await;
    }
    let mut stdout = child.stdout.take().ok_or(ErrorKind::BrokenPipe)?;
    let mut output = Vec::with_capacity(4096);
    let mut is_open = true;
    // A process that the helper leaves behind may keep the pipe open, so the loop waits for the helper's exit.
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            read = stdout.read_buf(&mut output), if is_open => is_open = read? > 0,
        }
        check_length(&output)?;
    };
    while let Ok(read) = timeout(LAST_READ, stdout.read_buf(&mut output)).await
        && read? > 0
    {
        check_length(&output)?;
    }
    Ok((status, output))
}

fn check_length(output: &[u8]) -> io::Result<()> {
    if output.len() <= MAX_OUTPUT {
        return Ok(());
    }
    let problem = format!("it printed more than {MAX_OUTPUT} bytes, which is not a login");
    Err(io::Error::other(problem))
}

/// Returns the output of a failed helper, unless it may contain a login.
fn complaint(text: &str) -> String {
    let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
    if is_json || text.contains('{') || text.contains("Secret") {
        return "it failed, and its output is not shown, since it may contain a secret".to_owned();
    }
    one_line(text, 200)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Runs a script as a helper. A separate process writes the script: if this process wrote it, a program that another
    /// test starts at the same moment could inherit the open file, and the kernel would refuse to run the script.
    async fn ask(script: &str, registry: &str) -> Result<Option<Account>, String> {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("docker-credential-lab");
        let written = std::process::Command::new("sh")
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
    async fn parses_every_kind_of_helper_output() {
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
        for name in ["u", "<token>"] {
            let account = ask(
                &format!(r#"echo '{{"Username":"{name}","Secret":"hunter2"}}'"#),
                "r.example",
            )
            .await;
            let shown = format!("{account:?}");
            assert!(account.is_ok() && !shown.contains("hunter2"), "{shown}");
        }
        let none = ask(
            "echo 'credentials not found in native keychain'; exit 1",
            "r.example",
        );
        assert!(matches!(none.await, Ok(None)));
        let missing = run(Path::new("/nowhere/docker-credential-missing"), "r.example").await;
        assert!(missing.unwrap_err().contains("is not installed"));
    }

    #[tokio::test]
    async fn a_process_left_behind_by_a_helper_does_not_delay_it() {
        let begun = Instant::now();
        let script = r#"sleep 60 & echo '{"Username":"u","Secret":"s"}'"#;
        assert_eq!(username(script, "r.example").await, "u");
        assert!(begun.elapsed() < TIMEOUT / 2, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn accepts_long_helper_output_but_not_endless_output() {
        let script = r#"printf '%200000s' ''; echo '{"Username":"u","Secret":"s"}'"#;
        assert_eq!(username(script, "r.example").await, "u");
        let begun = Instant::now();
        let error = ask("exec yes", "r.example").await.unwrap_err();
        assert!(error.contains("printed more than"), "{error}");
        assert!(begun.elapsed() < TIMEOUT / 2, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn shows_the_helpers_complaint_unless_it_may_contain_a_secret() {
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
