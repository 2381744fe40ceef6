//! What a container prints, made fit to be shown: its own secrets hidden, control characters harmless, lines short.

use crate::container::Inspected;

/// What stands in a secret's place.
const HIDDEN: &str = "***";
/// A shorter value occurs by chance; it is hidden only where its variable's name stands before it.
const SHORTEST: usize = 6;
/// The longest line, in characters.
const LONGEST: usize = 400;
/// In the name of a variable, in upper case.
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

/// The secrets of one container, as far as its environment tells them.
pub struct Redactor {
    /// Hidden wherever they occur, the longest first.
    anywhere: Vec<String>,
    /// What they are hidden in where they are too short for that, and what is shown then: `NAME=value`.
    assigned: Vec<(String, String)>,
}

impl Redactor {
    /// For what this container prints.
    pub fn of(container: &Inspected) -> Self {
        let mut mask = Self {
            anywhere: Vec::new(),
            assigned: Vec::new(),
        };
        for (name, value) in container.environment() {
            if looks_secret(name) {
                mask.hide(name, value);
            } else {
                mask.hide_within(value);
            }
        }
        mask.anywhere
            .sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        mask.anywhere.dedup();
        mask
    }

    /// A value may have several lines, a private key for one, and a line is all that is seen at once.
    fn hide(&mut self, name: &str, value: &str) {
        for line in value.lines().map(sanitize) {
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

    /// The password of a proxy's address, a property of a virtual machine.
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

    /// One line, fit to be shown.
    pub fn line(&self, text: &str) -> String {
        let mut line = sanitize(text).trim_end().to_owned();
        for secret in &self.anywhere {
            line = line.replace(secret, HIDDEN);
        }
        for (assigned, hidden) in &self.assigned {
            line = line.replace(assigned, hidden);
        }
        // Only now: half a secret is not recognised.
        match line.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }
}

fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET.iter().any(|word| name.contains(word))
}

/// Colours go; what else could move a terminal's cursor or turn its text around is shown as what it is not.
fn sanitize(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.trim_end_matches(['\r', '\n']).chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_sequence(&mut rest),
            '\t' | '\r' | '\n' => plain.push(' '),
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => {
                plain.push('\u{fffd}');
            }
            c if c.is_control() => plain.push('\u{fffd}'),
            c => plain.push(c),
        }
    }
    plain
}

/// The rest of an escape sequence: `[` up to a letter, `]` up to a bell or another escape, one character otherwise.
fn skip_sequence(rest: &mut std::str::Chars<'_>) {
    match rest.next() {
        Some('[') => {
            rest.find(|c| ('\u{40}'..='\u{7e}').contains(c));
        }
        Some(']') => {
            let end = rest.find(|c| matches!(c, '\u{7}' | '\u{1b}'));
            if end == Some('\u{1b}') {
                rest.next();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mask(environment: &[&str]) -> Redactor {
        let document = json!({ "Id": "1", "Config": { "Env": environment } });
        Redactor::of(&Inspected::new(document).unwrap())
    }

    #[test]
    fn a_secret_is_hidden_wherever_it_occurs() {
        let mask = mask(&[
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
            assert_eq!(mask.line(printed), shown);
        }
    }

    #[test]
    fn a_secret_within_another_does_not_save_half_of_it() {
        let mask = mask(&["A_TOKEN=abcdef", "B_TOKEN=abcdef-and-more"]);
        assert_eq!(mask.line("abcdef-and-more abcdef"), "*** ***");
    }

    #[test]
    fn a_short_secret_is_hidden_behind_its_name() {
        let mask = mask(&["PIN_SECRET=1234", "EMPTY_TOKEN="]);
        assert_eq!(mask.line("12345 PIN_SECRET=1234 1"), "12345 PIN_SECRET=*** 1");
        assert_eq!(mask.line("EMPTY_TOKEN=x"), "EMPTY_TOKEN=x");
    }

    #[test]
    fn passwords_within_other_values_are_hidden() {
        let mask = mask(&[
            "HTTPS_PROXY=http://ci:s3cr3t-pw@proxy.example:3128/",
            "JAVA_OPTS=-Xmx1g -Dkeystore.password='changeit'",
        ]);
        assert_eq!(
            mask.line("via http://ci:s3cr3t-pw@proxy.example:3128/ with -Xmx1g and changeit"),
            "via http://ci:***@proxy.example:3128/ with -Xmx1g and ***"
        );
    }

    #[test]
    fn a_secret_that_a_terminal_coloured_or_a_cut_would_halve_is_hidden_whole() {
        let mask = mask(&["X_TOKEN=abc\tdefghij"]);
        assert_eq!(mask.line("\u{1b}[31mabc\u{1b}[0m\tdefghij"), "***");
        let long = format!("{}abc\tdefghij", "x".repeat(LONGEST - 5));
        assert!(!mask.line(&long).contains("abc"));
    }

    #[test]
    fn control_characters_do_nothing_any_more() {
        let mask = mask(&[]);
        for (printed, shown) in [
            ("\u{1b}[1;31mERROR\u{1b}[0m failed\r\n", "ERROR failed"),
            ("\u{1b}]0;title\u{7}text", "text"),
            ("\u{1b}]8;;http://x\u{1b}\\link", "link"),
            ("10%\r20%", "10% 20%"),
            ("a\u{0}b\u{8}c\u{9b}2J", "a\u{fffd}b\u{fffd}c\u{fffd}2J"),
            ("user\u{202e}gpj.exe", "user\u{fffd}gpj.exe"),
            ("ends in \u{1b}", "ends in"),
        ] {
            assert_eq!(mask.line(printed), shown, "{printed:?}");
        }
    }

    #[test]
    fn a_long_line_is_cut_between_two_characters() {
        let line = mask(&[]).line(&"ü".repeat(LONGEST + 1));
        assert_eq!(line, format!("{}…", "ü".repeat(LONGEST)));
        assert_eq!(mask(&[]).line(&"ü".repeat(LONGEST)), "ü".repeat(LONGEST));
    }
}
