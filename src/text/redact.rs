//! Hides a container's own secrets in what it prints.

use super::one_line::{printable, shortened};

/// What stands in a secret's place.
const HIDDEN: &str = "***";
/// A shorter value occurs by chance; it is hidden only where its variable's name stands before it.
const SHORTEST: usize = 6;
/// The longest line, in characters.
const LONGEST: usize = 400;
/// The name of a variable that holds a secret has one of these in it, in upper case.
const SECRET: [&str; 11] = [
    "TOKEN",
    "SECRET",
    "PASS",
    "KEY",
    "CREDENTIAL",
    "AUTH",
    "PRIVATE",
    "COOKIE",
    "SIGNATURE",
    "JWT",
    "_PWD",
];

/// The secrets of one container, as far as its environment shows them.
pub struct Redactor {
    /// Secrets that are hidden wherever they occur, the longest first.
    anywhere: Vec<String>,
    /// Secrets too short for that are hidden in their context: `NAME=value`, and what replaces it, `NAME=***`.
    assigned: Vec<(String, String)>,
}

impl Redactor {
    /// Knows the secrets among a container's variables, given as (name, value).
    pub fn new<'a>(environment: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut redactor = Self {
            anywhere: Vec::new(),
            assigned: Vec::new(),
        };
        for (name, value) in environment {
            if looks_secret(name) {
                redactor.hide(name, value);
            } else {
                redactor.hide_within(value);
            }
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
                self.assigned
                    .push((format!("{name}={line}"), format!("{name}={HIDDEN}")));
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

    /// One printed line without its secrets, at most 400 characters of it. Its indentation stays.
    pub fn line(&self, text: &str) -> String {
        let mut line = printable(text).trim_end().to_owned();
        for secret in &self.anywhere {
            line = line.replace(secret, HIDDEN);
        }
        for (assigned, hidden) in &self.assigned {
            line = line.replace(assigned, hidden);
        }
        // Shortened last: half a secret would not be recognised.
        shortened(&line, LONGEST)
    }
}

fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor(environment: &[&str]) -> Redactor {
        Redactor::new(environment.iter().filter_map(|entry| entry.split_once('=')))
    }

    #[test]
    fn a_secret_is_hidden_wherever_it_occurs() {
        let redactor = redactor(&[
            "DELEGATE_TOKEN=0123456789abcdef",
            "proxy_password=hunter2",
            "CLIENT_KEY=-----BEGIN-----\nMIIEvQIBADANBg\n-----END-----",
            "DELEGATE_NAME=docker-delegate",
        ]);
        for (printed, shown) in [
            ("token=0123456789abcdef.", "token=***."),
            (
                r#"{"t":"0123456789abcdef","p":"hunter2"}"#,
                r#"{"t":"***","p":"***"}"#,
            ),
            ("MIIEvQIBADANBg", "***"),
            ("docker-delegate starts", "docker-delegate starts"),
        ] {
            assert_eq!(redactor.line(printed), shown);
        }
    }

    #[test]
    fn a_secret_within_another_does_not_save_half_of_it() {
        let redactor = redactor(&["A_TOKEN=abcdef", "B_TOKEN=abcdef-and-more"]);
        assert_eq!(redactor.line("abcdef-and-more abcdef"), "*** ***");
    }

    #[test]
    fn a_short_secret_is_hidden_behind_its_name() {
        let redactor = redactor(&["PIN_SECRET=1234", "EMPTY_TOKEN="]);
        assert_eq!(redactor.line("12345 PIN_SECRET=1234 1"), "12345 PIN_SECRET=*** 1");
        assert_eq!(redactor.line("EMPTY_TOKEN=x"), "EMPTY_TOKEN=x");
    }

    #[test]
    fn passwords_within_other_values_are_hidden() {
        let redactor = redactor(&[
            "HTTPS_PROXY=http://ci:s3cr3t-pw@proxy.example:3128/",
            "JAVA_OPTS=-Xmx1g -Dkeystore.password='changeit'",
        ]);
        assert_eq!(
            redactor.line("via http://ci:s3cr3t-pw@proxy.example:3128/ with -Xmx1g and changeit"),
            "via http://ci:***@proxy.example:3128/ with -Xmx1g and ***"
        );
    }

    #[test]
    fn a_secret_that_a_terminal_coloured_or_a_cut_would_halve_is_hidden_whole() {
        let redactor = redactor(&["X_TOKEN=abc\tdefghij"]);
        assert_eq!(redactor.line("\u{1b}[31mabc\u{1b}[0m\tdefghij"), "***");
        let long = format!("{}abc\tdefghij", "x".repeat(LONGEST - 5));
        assert!(!redactor.line(&long).contains("abc"));
    }

    #[test]
    fn a_line_keeps_its_indentation_and_loses_its_escapes() {
        let redactor = redactor(&[]);
        assert_eq!(
            redactor.line("    at \u{1b}[31mio.harness\u{1b}[0m\r\n"),
            "    at io.harness"
        );
    }

    #[test]
    fn a_long_line_is_cut_between_two_characters() {
        let line = redactor(&[]).line(&"ü".repeat(LONGEST + 1));
        assert_eq!(line, format!("{}…", "ü".repeat(LONGEST)));
        assert_eq!(redactor(&[]).line(&"ü".repeat(LONGEST)), "ü".repeat(LONGEST));
    }
}
