//! `doctor --from`: the settings found in a delegate's own environment.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use serde_json::{Map, json};

use super::run::made;
use super::{Exit, fail, no_engine, print, print_json};
use crate::app;
use crate::config::Settings;
use crate::container::{ContainerId, Inspected};
use crate::engine::{Engine as _, EngineError};

/// A delegate's variables and the upgrader's names for them. Every delegate must have the first four.
const VARIABLES: [(&str, &str); 10] = [
    ("DELEGATE_NAME", "UPGRADER_WORKLOAD_NAME"),
    ("ACCOUNT_ID", "ACCOUNT_ID"),
    ("MANAGER_HOST_AND_PORT", "MANAGER_HOST_AND_PORT"),
    ("DELEGATE_TOKEN", "UPGRADER_TOKEN"),
    ("PROXY_HOST", "PROXY_HOST"),
    ("PROXY_SCHEME", "PROXY_SCHEME"),
    ("PROXY_PORT", "PROXY_PORT"),
    ("PROXY_USER", "PROXY_USER"),
    ("PROXY_PASSWORD", "PROXY_PASSWORD"),
    ("NO_PROXY", "NO_PROXY"),
];
const NEEDED: usize = 4;

/// Prints the settings of this delegate without secrets, or writes them to a file, including the secrets.
pub(super) async fn from_delegate(
    settings: &Settings,
    container: &str,
    file: Option<&Path>,
    json: bool,
) -> Result<Exit, Exit> {
    let engine = made(app::engine(settings))?;
    let inspected = engine.inspect(&ContainerId::new(container)).await;
    let inspected = inspected.map_err(|error| match error {
        EngineError::NotFound(_) => fail(format!("no container {container:?} on this host"), Exit::Usage),
        error => no_engine(&error),
    })?;
    let found =
        found(&inspected).map_err(|problem| fail(format!("{container}: {problem}"), Exit::NotServed))?;
    let Some(file) = file else {
        if json {
            let shown = found
                .iter()
                .map(|(name, value)| ((*name).to_owned(), json!(shown(name, value))));
            return Ok(print_json(&shown.collect::<Map<_, _>>()));
        }
        return Ok(print(&text(&found, true)));
    };
    let path = file.display();
    write(file, &found)
        .map_err(|problem| fail(format!("{path}: {problem}; nothing was written"), Exit::Usage))?;
    let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    if json {
        return Ok(print_json(
            &json!({ "file": path.to_string(), "settings": names }),
        ));
    }
    let names = names.join(", ");
    Ok(print(&format!("{path} has {names}; others cannot read it")))
}

/// Replaces these settings in the file and keeps its other lines, which the package's file has. If anything fails, the file stays
/// unchanged.
fn write(path: &Path, found: &[(&str, &str)]) -> Result<(), String> {
    let present = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.and_then(|mut file| {
            let mut lines = String::new();
            file.read_to_string(&mut lines)?;
            Ok(Some((lines, file.metadata()?)))
        }),
    };
    let (lines, owner) = present.map_err(|error| error.to_string())?.unzip();
    if owner.as_ref().is_some_and(|file| file.mode() & 0o007 != 0) {
        return Err("others may use it, and it would hold a token: run chmod o= on it first".to_owned());
    }
    let is_other = |line: &&str| {
        line.split_once('=').is_none_or(|(name, _)| {
            found
                .iter()
                .all(|(ours, _)| *ours != name.trim().trim_end_matches("_FILE"))
        })
    };
    let lines = lines.unwrap_or_default();
    let others = lines.lines().filter(is_other).map(|line| format!("{line}\n"));
    let whole = others.collect::<String>() + &text(found, false) + "\n";
    // A link stays a link.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let new = PathBuf::from(format!("{}.new", path.display()));
    let replaced = || {
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        if let Some(owner) = owner {
            fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
            file.set_permissions(owner.permissions())?;
        }
        file.write_all(whole.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)
    };
    replaced().map_err(|error| {
        let _ = fs::remove_file(&new);
        error.to_string()
    })
}

/// The names and values of the upgrader's settings, as found in the delegate's environment.
fn found(delegate: &Inspected) -> Result<Vec<(&'static str, &str)>, String> {
    let value = |name| delegate.env(name).filter(|value| !value.is_empty());
    let missing = VARIABLES[..NEEDED].iter().map(|(theirs, _)| *theirs);
    let missing: Vec<&str> = missing.filter(|theirs| value(theirs).is_none()).collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        return Err(format!(
            "its environment lacks {missing}, so it is not a Docker delegate"
        ));
    }
    if let Some((name, _)) = VARIABLES
        .iter()
        .find(|(theirs, _)| value(theirs).is_some_and(|value| value.contains(['\n', '\r'])))
    {
        return Err(format!(
            "its {name} has a line break, which a file of settings cannot hold"
        ));
    }
    let found = VARIABLES
        .iter()
        .filter_map(|(theirs, ours)| Some((*ours, value(theirs)?)));
    Ok(found.collect())
}

/// The settings in the format of an environment file.
fn text(found: &[(&str, &str)], is_masked: bool) -> String {
    let line = |(name, value): &(&str, &str)| {
        let value = if is_masked { shown(name, value) } else { value };
        format!("{name}={}", quoted(value))
    };
    let lines: Vec<String> = found.iter().map(line).collect();
    lines.join("\n")
}

/// The value, masked if it is a secret.
fn shown<'a>(name: &str, value: &'a str) -> &'a str {
    let is_secret = matches!(name, "UPGRADER_TOKEN" | "PROXY_PASSWORD");
    if is_secret { "***" } else { value }
}

/// The value, in quotes if reading the file would otherwise change it.
fn quoted(value: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !matches!(c, '\'' | '"' | '\\' | '#');
    if value.chars().all(is_plain) {
        value.to_owned()
    } else {
        format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    fn delegate(env: &[&str]) -> Inspected {
        Inspected::new(json!({ "Id": "0123456789ab", "Config": { "Env": env } })).unwrap()
    }

    #[test]
    fn adopts_a_delegates_settings_and_masks_its_secrets() {
        let delegate = delegate(&[
            "DELEGATE_NAME=docker-delegate",
            "ACCOUNT_ID=account",
            "MANAGER_HOST_AND_PORT=https://app.harness.io",
            "DELEGATE_TOKEN=0123456789abcdef0123456789abcdef",
            "PROXY_HOST=proxy.example",
            "PROXY_PASSWORD=a \"b\" \\ c",
            "PROXY_PORT=",
        ]);
        let found = found(&delegate).unwrap();
        let common = "UPGRADER_WORKLOAD_NAME=docker-delegate\nACCOUNT_ID=account\n\
                      MANAGER_HOST_AND_PORT=https://app.harness.io\n";
        assert_eq!(
            text(&found, true),
            format!("{common}UPGRADER_TOKEN=***\nPROXY_HOST=proxy.example\nPROXY_PASSWORD=***")
        );
        assert_eq!(
            text(&found, false),
            format!(
                "{common}UPGRADER_TOKEN=0123456789abcdef0123456789abcdef\nPROXY_HOST=proxy.example\n\
                 PROXY_PASSWORD=\"a \\\"b\\\" \\\\ c\""
            )
        );
    }

    #[test]
    fn keeps_the_other_lines_of_the_file_that_it_writes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("settings.env");
        let found = [("ACCOUNT_ID", "account")];
        write(&path, &found).unwrap();
        let mode = || std::fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        std::fs::write(&path, "# ours\nACCOUNT_ID=\nSCHEDULE=@daily").unwrap();
        write(&path, &found).unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "# ours\nSCHEDULE=@daily\nACCOUNT_ID=account\n"
        );
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(write(&path, &found).unwrap_err().contains("chmod o="));
    }

    #[test]
    fn names_the_variables_that_a_container_lacks() {
        let delegate = delegate(&["DELEGATE_NAME=docker-delegate", "ACCOUNT_ID="]);
        let problem = found(&delegate).unwrap_err();
        assert!(
            problem.starts_with("its environment lacks ACCOUNT_ID, MANAGER_HOST_AND_PORT, DELEGATE_TOKEN,")
        );
    }
}
