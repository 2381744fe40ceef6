//! The single form in which the program shows texts from outside: from an engine, a container, an owner or a server.

use std::fmt::{self, Display, Write as _};

pub(crate) use super::one_line::is_unsafe;

/// How many characters of a text are shown. Our own longest text includes a message of an engine, of up to 2,000.
pub const LONGEST: usize = 4_000;

/// A text that leaves the program: it stays on one line, its length is limited, and characters that would control a
/// terminal, start another line or change the writing direction are escaped. Log, page, metrics and the lines of
/// commands show texts only in this form; [`super::json`] does the same for JSON.
#[derive(Clone, Copy, Debug)]
pub struct Foreign<'a>(pub &'a str);

impl Display for Foreign<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, c) in self.0.chars().enumerate() {
            if number == LONGEST {
                return f.write_char('…');
            }
            if is_unsafe(c) {
                write!(f, "{}", c.escape_default())?;
            } else {
                f.write_char(c)?;
            }
        }
        Ok(())
    }
}

/// Lines for a terminal: escapes unsafe characters like [`Foreign`], except line breaks, our own colours and cursor moves.
pub fn lines(text: &str) -> String {
    const OWN: [&str; 8] = [
        "\x1b[0m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[H", "\x1b[K", "\x1b[J",
    ];
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some((own, after)) = OWN.iter().find_map(|own| Some((own, rest.strip_prefix(own)?))) {
            shown.push_str(own);
            rest = after;
            continue;
        }
        if is_unsafe(c) && c != '\n' {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    shown
}
