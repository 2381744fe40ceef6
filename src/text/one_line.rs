//! Makes text from outside (an engine, a registry, a Manager, a container, a credential helper) safe to show: it stays
//! on its line, it cannot control a terminal, and its length is limited.

use std::str::Chars;

/// The longest command after `ESC ]`, such as a window title or a link, in characters.
const LONGEST_COMMAND: usize = 2000;

/// The text on one line of at most `max` characters, with an ellipsis if it was cut. White space becomes single blanks.
pub fn one_line(text: &str, max: usize) -> String {
    let printable = printable(text);
    let words: Vec<&str> = printable.split_whitespace().collect();
    shortened(&words.join(" "), max)
}

/// At most `max` characters of the text, in quotes, with invisible characters escaped. For input from users, in which
/// an extra blank or line break may be the mistake.
pub fn quoted(text: &str, max: usize) -> String {
    format!("{:?}", shortened(text, max))
}

/// The text without escape sequences, and with blanks for line breaks and tabs. Characters that move the cursor, change
/// the writing direction or are invisible become U+FFFD.
pub(crate) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_sequence(&mut rest),
            '\t' | '\r' | '\n' => printable.push(' '),
            c if is_unsafe(c) => printable.push('\u{fffd}'),
            c => printable.push(c),
        }
    }
    printable
}

/// Whether a character controls a terminal, starts a line, changes the writing direction or is invisible.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
        )
}

/// The first `max` characters, with an ellipsis if there are more.
pub(crate) fn shortened(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Skips the rest of an escape sequence: after `[`, its parameters and its letter; after `]`, up to a bell or another
/// escape; otherwise one character. A sequence without an end is kept as text, since it must not hide the words after it.
fn skip_sequence(rest: &mut Chars<'_>) {
    let mut sequence = rest.clone();
    let has_ended = match sequence.next() {
        Some('[') => {
            let end = sequence.find(|c| !('\u{20}'..='\u{3f}').contains(c));
            end.is_some_and(|end| ('\u{40}'..='\u{7e}').contains(&end))
        }
        Some(']') => {
            let is_end = |c: char| c.is_control();
            match sequence.by_ref().take(LONGEST_COMMAND).find(|c| is_end(*c)) {
                Some('\u{1b}') => sequence.next().is_some(),
                end => end == Some('\u{7}'),
            }
        }
        _ => true,
    };
    if has_ended {
        *rest = sequence;
    }
}
