//! Everything that is wrong with an environment, reported at once.

use std::fmt;
use std::mem;

use super::variables::{Row, TABLE, Variable};
use crate::text::quoted;

const NOT_SET: &str = "not set";
/// Where the settings are that every upgrader needs.
const FROM_DELEGATE: &str = "hint: `delegate-upgrader doctor --from CONTAINER` prints these settings from a delegate's own environment";

/// One wrong variable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {given}; expected {accepted}")]
pub struct Problem {
    /// The variable's name.
    pub variable: &'static str,
    /// The value, never a secret.
    pub given: String,
    /// The accepted values.
    pub accepted: &'static str,
}

/// Everything that is wrong with the environment, and everything that looks odd in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors {
    /// Settings to correct, in the order of the documentation.
    pub problems: Vec<Problem>,
    /// Warnings that may explain the problems, such as a misspelt name. Each line starts with the variable.
    pub warnings: Vec<String>,
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = self.problems.iter().map(ToString::to_string);
        // Only a variable that is needed is missing without another one.
        let is_missing = self.problems.iter().any(|problem| problem.given == NOT_SET);
        let hint = is_missing.then(|| FROM_DELEGATE.to_owned());
        let warnings = self.warnings.iter().map(|warning| format!("warning: {warning}"));
        let lines: Vec<String> = problems.chain(hint).chain(warnings).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// The problems found while the environment is read.
#[derive(Debug, Default)]
pub(super) struct Problems(ConfigErrors);

impl Problems {
    /// Adds a wrong value. `given` describes it without showing a secret.
    pub(super) fn wrong(&mut self, row: &'static Row, given: impl Into<String>) {
        self.push(row.name, given.into(), row.accepted);
    }

    /// Adds a wrong value of a variable that names a file with a secret.
    pub(super) fn wrong_file(&mut self, row: &'static Row, given: impl Into<String>) {
        const ACCEPTED: &str =
            "the path of a readable file that holds only the value, instead of the variable without _FILE";
        self.push(row.file.unwrap_or(row.name), given.into(), ACCEPTED);
    }

    /// Adds a wrong value that may be shown. `why` is empty if the value speaks for itself.
    pub(super) fn wrong_value(&mut self, row: &'static Row, value: &str, why: &str) {
        let shown = quoted(&without_userinfo(value), 100);
        let given = match why {
            "" => shown,
            why => format!("{shown} ({why})"),
        };
        self.wrong(row, given);
    }

    /// Adds a required variable that is not set, unless it is among the problems already.
    pub(super) fn missing(&mut self, row: &'static Row) {
        if !self.names(row) {
            self.wrong(row, NOT_SET);
        }
    }

    /// Adds a variable that is not set, although another variable requires it.
    pub(super) fn missing_beside(&mut self, row: &'static Row, other: &Variable) {
        if !self.names(row) {
            self.wrong(row, format!("not set, although {} is", other.name()));
        }
    }

    /// Adds a problem with a variable, of which other values than in the table are accepted.
    pub(super) fn push(&mut self, variable: &'static str, given: String, accepted: &'static str) {
        self.0.problems.push(Problem {
            variable,
            given,
            accepted,
        });
    }

    pub(super) fn warn(&mut self, variable: &Variable, text: impl fmt::Display) {
        self.0.warnings.push(format!("{}: {text}", variable.name()));
    }

    /// Turns the problems with these variables into warnings.
    pub(super) fn tolerate(&mut self, is_tolerable: impl Fn(&str) -> bool) {
        let problems = std::mem::take(&mut self.0.problems);
        let (tolerable, others): (Vec<_>, Vec<_>) = problems
            .into_iter()
            .partition(|problem| is_tolerable(problem.variable));
        self.0.problems = others;
        self.0.warnings.extend(tolerable.iter().map(ToString::to_string));
    }

    /// Adds a warning about a name that is not in the table, unless another one says the same.
    pub(super) fn hint(&mut self, line: String) {
        let is_said = |right| self.0.warnings.iter().any(|warning| warning.ends_with(right));
        let right = line.split_once(" variable; ").map(|(_, right)| right);
        if !right.is_some_and(is_said) {
            self.0.warnings.push(line);
        }
    }

    /// Whether the variable is among the problems.
    pub(super) fn names(&self, row: &Row) -> bool {
        let names = [Some(row.name), row.file];
        let mut problems = self.0.problems.iter();
        problems.any(|problem| names.contains(&Some(problem.variable)))
    }

    /// The warnings if nothing is wrong, otherwise all problems and warnings. Masks secrets pasted into other variables.
    pub(super) fn finish(self, secrets: &[&str]) -> Result<Vec<String>, ConfigErrors> {
        let Self(mut errors) = self;
        let given = errors.problems.iter_mut().map(|problem| &mut problem.given);
        for text in given.chain(&mut errors.warnings) {
            *text = hidden(mem::take(text), secrets);
        }
        if errors.problems.is_empty() {
            return Ok(errors.warnings);
        }
        // If the file could not be read, its variables seem missing: report only the file.
        let is_of_file = |problem: &Problem| problem.variable == "ENVIRONMENT_FILE";
        if errors.problems.iter().any(is_of_file) {
            errors.problems.retain(is_of_file);
            errors.warnings.clear();
        }
        let place = |name| {
            let mut rows = TABLE.iter().flat_map(|(_, rows)| *rows);
            rows.position(|row| row.name == name || row.file == Some(name))
                .unwrap_or(usize::MAX)
        };
        errors.problems.sort_by_key(|problem| place(problem.variable));
        Err(errors)
    }
}

/// Masks these secrets in a text: they may have been pasted into the wrong variable.
pub(super) fn hidden(text: String, secrets: &[&str]) -> String {
    secrets
        .iter()
        .fold(text, |text, secret| text.replace(secret, "***"))
}

/// Masks what may be a user and a password: everything between `://` (or the start) and the last `@`.
fn without_userinfo(value: &str) -> String {
    let (scheme, rest) = match value.find("://") {
        Some(end) => value.split_at(end + 3),
        None => ("", value),
    };
    match rest.rsplit_once('@') {
        // `@hourly` and `name@sha256:…` hold no password.
        Some((user, host)) if !scheme.is_empty() || user.contains(':') => format!("{scheme}***@{host}"),
        _ => value.to_owned(),
    }
}
