//! The only way to write JSON. It shows the texts in the JSON as [`super::Foreign`] does.

use std::fmt::Write as _;

use serde::Serialize;

use super::one_line::is_unsafe;

/// How many characters of one text are written: more than [`super::foreign::LONGEST`], since programs may read them.
const LONGEST: usize = 16_000;

/// Writes a value as JSON, shortens its long texts, and escapes characters that would control a terminal.
pub fn text(value: &impl Serialize) -> String {
    written(value, false)
}

/// Like [`text()`], with one value per line. serde_json's own pretty printer would be compiled for each type separately.
pub fn indented(value: &impl Serialize) -> String {
    written(value, true)
}

#[expect(clippy::disallowed_methods, reason = "this is the one place for it")]
fn written(value: &impl Serialize, is_indented: bool) -> String {
    // Only a map with keys other than texts, or a type that refuses to be written, would fail. There is neither.
    safe(&serde_json::to_string(value).unwrap_or_default(), is_indented)
}

/// A text as a JSON string, in quotes.
pub fn string(text: &str) -> String {
    let value = serde_json::Value::from(super::shortened(text, super::foreign::LONGEST));
    safe(&value.to_string(), false)
}

/// Escapes what serde_json leaves as it is, cuts texts that are too long, and indents if asked to.
fn safe(json: &str, is_indented: bool) -> String {
    let mut safe = String::with_capacity(json.len());
    let (mut in_string, mut length, mut depth) = (false, 0_usize, 0_usize);
    let line = |safe: &mut String, depth| {
        safe.push('\n');
        safe.extend(std::iter::repeat_n("  ", depth));
    };
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
        } else if in_string || !is_indented {
            safe.push_str(unit);
        } else {
            let is_empty = safe.ends_with(['{', '[']);
            if matches!(c, '}' | ']') && !is_empty {
                depth -= 1;
                line(&mut safe, depth);
            }
            safe.push_str(unit);
            match c {
                '{' | '[' if !rest.starts_with(['}', ']']) => {
                    depth += 1;
                    line(&mut safe, depth);
                }
                ',' => line(&mut safe, depth),
                ':' => safe.push(' '),
                _ => {}
            }
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_free_of_terminal_controls_and_keeps_its_value() {
        let value = json!({ "a\u{7f}": "\u{1b}[2J\u{9b}\u{202e}\n\"\\é", "b": [1, true, null] });
        let shown = text(&value);
        assert!(!shown.contains(is_unsafe), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        for long in ["\u{1b}", "\\", "é", "x"] {
            let shown = text(&[long.repeat(20_000).as_str(), "end"]);
            let read: Vec<String> = serde_json::from_str(&shown).unwrap();
            assert_eq!(read, [long.repeat(LONGEST) + "…", "end".to_owned()]);
        }
    }

    #[test]
    fn indents_json_as_serde_json_does() {
        let value = json!({ "a": [1, {}, [], "x,{\"\\"], "b": { "c": null, "d": [[true]] }, "e": "" });
        assert_eq!(indented(&value), serde_json::to_string_pretty(&value).unwrap());
    }
}
