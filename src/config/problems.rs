//! All that is wrong with an environment, told at once.

use std::fmt;

use super::environment::Variable;
use crate::text::quoted;

/// One wrong variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The variable's name.
    pub variable: &'static str,
    /// What was given, never a secret.
    pub given: String,
    /// What is accepted.
    pub accepted: String,
}

/// Everything that is wrong with the environment, and what else looks odd in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors {
    /// What must be put right, in the order of the documentation.
    pub problems: Vec<Problem>,
    /// What may be the cause: a misspelt name, for instance. Each line begins with its variable.
    pub warnings: Vec<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} — {}", self.variable, self.given, self.accepted)
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems = self.problems.iter().map(ToString::to_string);
        let warnings = self.warnings.iter().map(|warning| format!("warning: {warning}"));
        f.write_str(&problems.chain(warnings).collect::<Vec<_>>().join("\n"))
    }
}

/// What the parsers find on their way through the environment.
#[derive(Debug, Default)]
pub(super) struct Problems(ConfigErrors);

impl Problems {
    /// A variable whose value must not be shown, or that has none.
    pub(super) fn problem(
        &mut self,
        variable: &Variable,
        given: impl Into<String>,
        accepted: impl Into<String>,
    ) {
        self.0.problems.push(Problem {
            variable: variable.name,
            given: given.into(),
            accepted: accepted.into(),
        });
    }

    /// A variable that is needed and not given. One that was given wrong has its line already.
    pub(super) fn missing(&mut self, variable: &Variable, accepted: &str) {
        if !self.names(variable) {
            self.problem(variable, "not given", accepted);
        }
    }

    pub(super) fn warn(&mut self, variable: &Variable, text: impl fmt::Display) {
        self.0.warnings.push(format!("{}: {text}", variable.name));
    }

    /// A warning line that names its variable itself.
    pub(super) fn warn_line(&mut self, line: String) {
        self.0.warnings.push(line);
    }

    pub(super) fn names(&self, variable: &Variable) -> bool {
        self.0
            .problems
            .iter()
            .any(|problem| problem.variable == variable.name)
    }

    /// Reads a variable. `None` when it is unset, and when it is wrong, which is then among the problems; what
    /// `parse` says about it stands behind the value.
    pub(super) fn read<T>(
        &mut self,
        variable: &Variable,
        accepted: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = variable.get()?;
        match parse(value) {
            Ok(parsed) => Some(parsed),
            Err(why) if why.is_empty() => {
                self.problem(variable, shown(value), accepted);
                None
            }
            Err(why) => {
                self.problem(variable, format!("{} ({why})", shown(value)), accepted);
                None
            }
        }
    }

    /// Whether nothing is wrong: the warnings, or else everything. A secret pasted into another variable is
    /// masked wherever it shows.
    pub(super) fn finish(self, secrets: &[&str]) -> (Vec<String>, Option<ConfigErrors>) {
        let Self(mut found) = self;
        let texts = found
            .problems
            .iter_mut()
            .map(|problem| &mut problem.given)
            .chain(&mut found.warnings);
        for text in texts {
            for secret in secrets {
                *text = text.replace(secret, "***");
            }
        }
        if found.problems.is_empty() {
            (found.warnings, None)
        } else {
            (Vec::new(), Some(found))
        }
    }
}

/// A value as a problem shows it: in quotes, bounded, and without the user and password of a URL.
fn shown(value: &str) -> String {
    quoted(&without_userinfo(value), 100)
}

/// Masks what may be a user and a password: all between `://` (or the start) and the last `@`.
pub(super) fn without_userinfo(value: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_and_password_of_a_url_are_masked() {
        for (value, masked) in [
            ("https://user:pass@host/path", "https://***@host/path"),
            ("https://user:p@ss/w@host", "https://***@host"),
            ("user:pass@host:3128", "***@host:3128"),
            ("https://token@host", "https://***@host"),
            ("https://host/path", "https://host/path"),
            ("@hourly", "@hourly"),
            ("harness/delegate@sha256:00", "harness/delegate@sha256:00"),
        ] {
            assert_eq!(without_userinfo(value), masked);
        }
    }

    #[test]
    fn a_value_is_shown_bounded_and_escaped() {
        assert_eq!(shown("a\nb"), r#""a\nb""#);
        assert_eq!(shown(&"x".repeat(5_000)).chars().count(), 103);
    }
}
