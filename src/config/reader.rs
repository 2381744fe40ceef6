//! Reads one variable after another, and collects the problems and the effective values.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use super::parse;
use super::problems::{ConfigErrors, Problems, hidden};
use super::variables::{Environment, Preset, Variable, documented};
use crate::net::certificates;
use crate::text::duration;
use crate::text::secret::Secret;

/// Every documented variable with its effective value.
type Effective = Vec<(&'static str, String)>;

pub(super) struct Reader {
    pub(super) problems: Problems,
    effective: BTreeMap<&'static str, String>,
    /// The directory in which systemd puts credentials.
    credentials: Option<PathBuf>,
}

impl Reader {
    pub(super) fn new(env: &Environment, problems: Problems) -> Self {
        Self {
            problems,
            effective: BTreeMap::new(),
            credentials: env.credentials_directory.get().map(PathBuf::from),
        }
    }

    /// Notes the effective value, for `config`.
    pub(super) fn note(&mut self, variable: &Variable, value: impl Display) {
        self.effective.insert(variable.row.name, value.to_string());
    }

    /// Warns about each of these variables that is set, since it is not used.
    pub(super) fn unused(&mut self, variables: &[&Variable], why: &str) {
        for variable in variables.iter().filter(|variable| variable.is_set()) {
            self.problems.warn(variable, format_args!("not used{why}"));
        }
    }

    /// Reads a variable, or its default if it is unset. `None` if there is no default, or if the value is wrong, which
    /// adds a problem.
    pub(super) fn read_as<T>(
        &mut self,
        variable: &Variable,
        parse: impl FnOnce(&str) -> Result<T, String>,
        show: impl FnOnce(&T) -> String,
    ) -> Option<T> {
        let default = match variable.row.default {
            Preset::Value(text) => Some(text),
            Preset::Required | Preset::Unset | Preset::Derived(_) => None,
        };
        let Some(text) = variable.get().or(default) else {
            if matches!(variable.row.default, Preset::Required) {
                self.problems.missing(variable.row);
            }
            return None;
        };
        let parsed = match variable.row.default {
            Preset::Required => own(text).and_then(parse),
            _ => parse(text),
        };
        match parsed {
            Ok(value) => {
                self.note(variable, show(&value));
                Some(value)
            }
            Err(why) => {
                self.problems.wrong_value(variable.row, text, &why);
                None
            }
        }
    }

    /// Like [`Self::read_as`], but shows the value with `Display`.
    pub(super) fn read<T: Display>(
        &mut self,
        variable: &Variable,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.read_as(variable, parse, ToString::to_string)
    }

    /// Reads a variable with a default. A wrong value yields the type's default, used only if the problem is tolerated.
    pub(super) fn value<T: Display + Default>(
        &mut self,
        variable: &Variable,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> T {
        self.read(variable, parse).unwrap_or_default()
    }

    /// Reads a boolean with a default.
    pub(super) fn flag(&mut self, variable: &Variable) -> bool {
        self.value(variable, parse::boolean)
    }

    /// Reads one of a few words, with a default.
    pub(super) fn word<T: FromStr + Display + Default>(&mut self, variable: &Variable) -> T {
        self.value(variable, |text| text.parse().map_err(|_| String::new()))
    }

    /// Reads a duration of at least `least`, with a default.
    pub(super) fn duration(&mut self, variable: &Variable, least: Duration) -> Duration {
        self.optional_duration(variable, least).unwrap_or_default()
    }

    /// Reads a duration of at least `least`.
    pub(super) fn optional_duration(&mut self, variable: &Variable, least: Duration) -> Option<Duration> {
        let parse = |text: &str| parse::duration(text, least);
        self.read_as(variable, parse, |value| duration::text(*value))
    }

    /// Reads any text.
    pub(super) fn text(&mut self, variable: &Variable) -> Option<String> {
        self.read(variable, |text| Ok(text.to_owned()))
    }

    /// Reads what a variable names, such as a file: its path and its parsed content.
    pub(super) fn file<T>(
        &mut self,
        variable: &Variable,
        read: impl FnOnce(&Path) -> io::Result<Vec<u8>>,
        parse: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Option<(PathBuf, T)> {
        let path = PathBuf::from(variable.get()?);
        match certificates::parsed(&path, read, parse) {
            Ok(value) => {
                self.note(variable, path.display());
                Some((path, value))
            }
            Err(given) => {
                self.problems.wrong(variable.row, given);
                None
            }
        }
    }

    /// Reads a secret from its variable or its file (setting both is an error), otherwise from systemd's credentials. `None` if
    /// there is none, or if it is wrong, which adds a problem. The reason that `parse` gives must not show the secret.
    pub(super) fn secret<T>(
        &mut self,
        variable: &Variable,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let row = variable.row;
        if self.problems.names(row) {
            return None;
        }
        let secret = match (&variable.text, &variable.file) {
            (Some(_), Some(_)) => {
                let given = format!("set together with {}", row.name);
                self.problems.wrong_file(row, given);
                return None;
            }
            (Some(value), None) => {
                self.note(variable, "(set)");
                Secret::new(value)
            }
            (None, file) => {
                // The credential for UPGRADER_TOKEN is called `upgrader-token`.
                let name = row.name.to_ascii_lowercase().replace('_', "-");
                let credential = self.credentials.as_ref().map(|directory| directory.join(name));
                let path = match file {
                    Some(path) => PathBuf::from(path.trim()),
                    None => credential.filter(|path| path.exists())?,
                };
                let read = secret_file(&path).map_err(|why| self.problems.wrong_file(row, why));
                let secret = read.ok()?;
                self.note(variable, format_args!("(in {})", path.display()));
                secret
            }
        };
        let wrong = |why| self.problems.push(variable.name(), why, row.accepted);
        parse(secret.expose()).map_err(wrong).ok()
    }

    /// The warnings and the effective settings, or all problems.
    pub(super) fn finish(self, env: &Environment) -> Result<(Vec<String>, Effective), ConfigErrors> {
        let secrets = env.secrets();
        let warnings = self.problems.finish(&secrets)?;
        let mut effective = self.effective;
        let set = |name| {
            env.variables()
                .any(|variable| variable.row.name == name && variable.is_set())
        };
        let effective = documented().map(|row| {
            let unread = if set(row.name) { "(not used)" } else { "(unset)" };
            let value = effective.remove(row.name).unwrap_or_else(|| unread.to_owned());
            (row.name, hidden(value, &secrets))
        });
        Ok((warnings, effective.collect()))
    }
}

/// The names that pages, Harness's and ours, show instead of a value.
const NAMES: &str = "ACCOUNT_ID MANAGER_HOST_AND_PORT UPGRADER_TOKEN UPGRADER_WORKLOAD_NAME DELEGATE_NAME DELEGATE_TOKEN \
                     HARNESS_MANAGE_ENDPOINT_URL DELEGATE_TO_AUTO_UPGRADE PROXY_HOST";

/// Returns a text unless it stands for a value: `<account_ID>`, `ACCOUNT_ID`, `your-account-id`, `${ACCOUNT_ID}`, `…`.
pub(super) fn own(text: &str) -> Result<&str, String> {
    let upper = text.to_ascii_uppercase().replace('-', "_");
    // A delegate may be called `delegate-name`, but not `your-delegate-name`.
    let name = upper
        .strip_prefix("YOUR_")
        .unwrap_or(text.trim_start_matches("https://"));
    let is_placeholder = text.contains(['<', '>', '…', '$']) || text == "...";
    if is_placeholder || NAMES.split(' ').any(|known| known == name) {
        return Err("a placeholder: put your own value in its place".to_owned());
    }
    Ok(text)
}

/// Reads a file that may not be a directory.
pub(super) fn one_file(path: &Path) -> io::Result<Vec<u8>> {
    if path.is_dir() {
        return Err(io::Error::other("is a directory"));
    }
    fs::read(path)
}

fn secret_file(path: &Path) -> Result<Secret, String> {
    const LARGEST: u64 = 64 * 1024;
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST).read_to_string(&mut text));
    read.map_err(|error| format!("{}: {error}", path.display()))?;
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    let secret = secret.strip_suffix('\r').unwrap_or(secret);
    if secret.trim().is_empty() {
        return Err(format!("{}: the file is empty", path.display()));
    }
    Ok(Secret::new(secret))
}
