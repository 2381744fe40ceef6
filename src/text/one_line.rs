//! Text from outside (an engine, a registry, a Manager, a container, a credential helper), made fit to be shown: it
//! stays on its line, it cannot steer a terminal, and it has an end.

use std::str::Chars;

/// The longest command that a terminal is given by `ESC ]`, in characters: a title or a link.
const LONGEST_COMMAND: usize = 2000;

/// The text as one line of at most `max` characters, with an ellipsis if cut. White space becomes one blank.
pub fn one_line(text: &str, max: usize) -> String {
    let printable = printable(text);
    let words: Vec<&str> = printable.split_whitespace().collect();
    shortened(&words.join(" "), max)
}

/// The text in quotes, at most `max` characters of it, with escapes for what a terminal would not show. For what a user
/// wrote, where a blank or a line break too many may be the mistake.
pub fn quoted(text: &str, max: usize) -> String {
    format!("{:?}", shortened(text, max))
}

/// The text without escape sequences, and with blanks for line breaks and tabs. Characters that move a cursor, turn the
/// direction of writing or are not seen become U+FFFD.
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

/// Whether a character steers a terminal, starts a line, turns the direction of writing or is not seen.
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

/// Skips the rest of an escape sequence: `[` with its parameters and its letter, `]` up to a bell or another escape, one
/// character otherwise. What has no end is text: it must not hide the words after it.
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
