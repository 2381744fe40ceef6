//! Hides the values of a container's environment in the output of the container.

use super::one_line::{printable, shortened};

/// The text that replaces a value.
const HIDDEN: &str = "***";
/// The shortest value to hide everywhere. Shorter ones occur by chance, so they are hidden only after their name.
const SHORTEST: usize = 6;
/// The longest line that is shown, in characters.
const LONGEST: usize = 400;
/// The variables whose values are shown, except for passwords in them: a delegate's address and names, which this
/// program shows itself, and the variables that images set. Without them, few lines of a log would make sense.
const PUBLIC: &str = "ACCOUNT_ID DELEGATE_NAME DELEGATE_TYPE HOME JAVA_HOME MANAGER_HOST_AND_PORT PATH";
/// Words that mark the name of an option as secret. The name is compared in upper case.
const SECRET: &str = "TOKEN SECRET PASS KEY CREDENTIAL AUTH PRIVATE COOKIE SIGNATURE JWT _PWD";

/// The values of one container's environment.
#[derive(Default)]
pub struct Redactor {
    /// Values to hide everywhere, the longest first.
    anywhere: Vec<String>,
    /// Shorter values, to hide only in context: `NAME=value`, and its replacement `NAME=***`.
    assigned: Vec<(String, String)>,
}

impl Redactor {
    /// Takes the variables of a container as pairs of name and value.
    pub fn new<'a>(environment: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut redactor = Self::default();
        for (name, value) in environment {
            if PUBLIC.split(' ').all(|public| public != name) {
                redactor.hide(name, value);
            }
            redactor.hide_within(value);
        }
        redactor
            .anywhere
            .sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        redactor.anywhere.dedup();
        redactor
    }

    /// Hides each line of a value separately: a private key has several, and only one is seen at a time.
    fn hide(&mut self, name: &str, value: &str) {
        for line in value.lines().map(printable) {
            let line = line.trim();
            if line.chars().count() >= SHORTEST {
                self.anywhere.push(line.to_owned());
            } else if !line.is_empty() {
                self.hide_behind(&format!("{name}="), line, "");
            }
        }
    }

    fn hide_behind(&mut self, before: &str, secret: &str, after: &str) {
        let shown = format!("{before}{secret}{after}");
        self.assigned.push((shown, format!("{before}{HIDDEN}{after}")));
    }

    /// Hides the password in a proxy's address, and the secret properties in the options of a Java virtual machine.
    fn hide_within(&mut self, value: &str) {
        if let Some((user, _)) = value
            .split_once("://")
            .and_then(|(_, rest)| rest.split('/').next()?.rsplit_once('@'))
            && let Some((_, password)) = user.split_once(':')
        {
            self.hide_behind(":", password, "@");
        }
        for word in value.split_whitespace() {
            if let Some((name, value)) = word.split_once('=')
                && looks_secret(name)
            {
                self.hide(name, value.trim_matches(['"', '\'']));
            }
        }
    }

    /// A public value, without the secrets within it.
    pub fn within(mut self, value: &str) -> String {
        self.hide_within(value);
        self.line(value)
    }

    /// One line of output without these values, shortened to 400 characters. Its indentation stays.
    pub fn line(&self, text: &str) -> String {
        let mut line = printable(text).trim_end().to_owned();
        for secret in &self.anywhere {
            line = line.replace(secret, HIDDEN);
        }
        for (assigned, hidden) in &self.assigned {
            line = line.replace(assigned, hidden);
        }
        // Shorten last, because half a value would not be recognised.
        shortened(&line, LONGEST)
    }
}

/// Whether a variable or option of this name may hold a secret.
pub fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET.split(' ').any(|word| name.contains(word))
}
