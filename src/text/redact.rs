//! Hides the values of a container's environment in what it prints.

use super::one_line::{printable, shortened};

/// The mask for a value.
const HIDDEN: &str = "***";
/// A shorter value occurs by chance; it is hidden only behind its variable's name.
const SHORTEST: usize = 6;
/// The longest line, in characters.
const LONGEST: usize = 400;
/// The variables whose values are shown, except for passwords in them: a delegate's address and names, which this program shows
/// itself, and what each image sets. Without them, few lines of a log would make sense.
const PUBLIC: &str = "ACCOUNT_ID DELEGATE_NAME DELEGATE_TYPE HOME JAVA_HOME MANAGER_HOST_AND_PORT PATH";
/// The name of an option that holds a secret has one of these in it, in upper case.
const SECRET: &str = "TOKEN SECRET PASS KEY CREDENTIAL AUTH PRIVATE COOKIE SIGNATURE JWT _PWD";

/// The values of one container's environment.
pub struct Redactor {
    /// Values that are hidden wherever they occur, the longest first.
    anywhere: Vec<String>,
    /// Values too short for that are hidden in their context: `NAME=value`, and what replaces it, `NAME=***`.
    assigned: Vec<(String, String)>,
}

impl Redactor {
    /// Takes a container's variables as (name, value).
    pub fn new<'a>(environment: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut redactor = Self {
            anywhere: Vec::new(),
            assigned: Vec::new(),
        };
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

    /// Hides a value line by line: a private key has several, and only one is seen at a time.
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

    /// Hides the password in a proxy's address, and the secret properties in a virtual machine's options.
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

    /// One printed line without these values, at most 400 characters of it. Its indentation stays.
    pub fn line(&self, text: &str) -> String {
        let mut line = printable(text).trim_end().to_owned();
        for secret in &self.anywhere {
            line = line.replace(secret, HIDDEN);
        }
        for (assigned, hidden) in &self.assigned {
            line = line.replace(assigned, hidden);
        }
        // Shortened last: half a value would not be recognised.
        shortened(&line, LONGEST)
    }
}

fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET.split(' ').any(|word| name.contains(word))
}
