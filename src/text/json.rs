//! The only way to write JSON. It shows the texts in the JSON as [`super::Foreign`] does.

use std::fmt::Write as _;

use serde::Serialize;

use super::one_line::is_unsafe;

/// How many characters of one text are written: more than [`super::foreign::LONGEST`], since programs may read them.
const LONGEST: usize = 16_000;

/// Writes a value as JSON, shortens its long texts, and escapes characters that would control a terminal.
///
/// # Errors
/// The value cannot be written as JSON.
#[expect(clippy::disallowed_methods, reason = "this is the one place for it")]
pub fn text(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(safe(&serde_json::to_string(value)?))
}

/// A text as a JSON string, in quotes.
pub fn string(text: &str) -> String {
    safe(&serde_json::Value::from(super::shortened(text, super::foreign::LONGEST)).to_string())
}

/// Escapes what serde_json leaves as it is, and cuts texts that are too long.
fn safe(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    let (mut in_string, mut length) = (false, 0_usize);
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        // An escape counts as one character of the text.
        let end = match rest.as_bytes() {
            [b'\\', b'u', ..] => 6,
            [b'\\', ..] => 2,
            _ => c.len_utf8(),
        };
        let (unit, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        rest = after;
        length = length.saturating_add(1);
        if c == '"' {
            (in_string, length) = (!in_string, 0);
        }
        if in_string && length > LONGEST {
            if length == LONGEST + 1 {
                safe.push('…');
            }
        } else if is_unsafe(c) {
            // All unsafe characters have a code point of at most four hex digits.
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push_str(unit);
        }
    }
    safe
}

/// Indents JSON, with one value per line. serde_json's own pretty printer would be compiled for each type separately.
pub fn indented(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let (mut depth, mut is_string, mut is_escaped) = (0, false, false);
    let mut chars = json.chars().peekable();
    let line = |text: &mut String, depth| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(c) = chars.next() {
        if is_string {
            is_string = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            text.push(c);
            continue;
        }
        match c {
            '{' | '[' => {
                text.push(c);
                let closing = chars.next_if(|next| matches!(next, '}' | ']'));
                if let Some(closing) = closing {
                    text.push(closing);
                } else {
                    depth += 1;
                    line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth -= 1;
                line(&mut text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            _ => {
                is_string = c == '"';
                text.push(c);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_free_of_terminal_controls_and_keeps_its_value() {
        let value = json!({ "a\u{7f}": "\u{1b}[2J\u{9b}\u{202e}\n\"\\é", "b": [1, true, null] });
        let shown = text(&value).unwrap();
        assert!(!shown.contains(is_unsafe), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        for long in ["\u{1b}", "\\", "é", "x"] {
            let shown = text(&[long.repeat(20_000).as_str(), "end"]).unwrap();
            let read: Vec<String> = serde_json::from_str(&shown).unwrap();
            assert_eq!(read, [long.repeat(LONGEST) + "…", "end".to_owned()]);
        }
    }

    #[test]
    fn indents_json_as_serde_json_does() {
        let value = json!({ "a": [1, {}, [], "x,{\"\\"], "b": { "c": null, "d": [[true]] }, "e": "" });
        assert_eq!(
            indented(&value.to_string()),
            serde_json::to_string_pretty(&value).unwrap()
        );
    }
}
