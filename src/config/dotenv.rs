//! A file of variables, in the format of systemd's `EnvironmentFile=`. Unlike the environment, it can be read again
//! while the program runs.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::iter::{self, Peekable};
use std::path::Path;
use std::str::Chars;

/// The size limit of a file, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// Reads the variables of a file, in its order.
///
/// # Errors
/// The reason why it cannot be read. It quotes no values.
pub(crate) fn read(path: &Path) -> Result<Vec<(String, String)>, String> {
    let text = whole_text(path, File::open(path))?;
    parse(&text).map_err(|(line, why)| format!("{}: line {line}: {why}", path.display()))
}

/// Reads a text that was opened under this name.
///
/// # Errors
/// The reason why it cannot be read, after its name.
pub(crate) fn whole_text(path: &Path, opened: io::Result<impl Read>) -> Result<String, String> {
    let mut text = String::new();
    let read = opened.and_then(|source| source.take(LARGEST).read_to_string(&mut text));
    let length = read.map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::PermissionDenied => "; run the command with sudo",
            _ => "",
        };
        format!("{}: {error}{advice}", path.display())
    })?;
    if u64::try_from(length).is_ok_and(|length| length >= LARGEST) {
        return Err(format!("{}: larger than 1 MiB", path.display()));
    }
    Ok(text)
}

/// Names and values, or the number of the first wrong line and the reason.
fn parse(text: &str) -> Result<Vec<(String, String)>, (usize, &'static str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut variables = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let begin = line.trim_start();
        if begin.is_empty() || begin.starts_with(['#', ';']) {
            continue;
        }
        let mut whole = line.to_owned();
        // A backslash at the end of a line joins the next line to it.
        while whole.ends_with('\\') && !whole.ends_with("\\\\") {
            whole.pop();
            whole.push_str(lines.next().map(|(_, next)| next).unwrap_or_default());
        }
        let wrong = |why| (number + 1, why);
        let (name, value) = whole.split_once('=').ok_or_else(|| wrong("no NAME=value"))?;
        let name = name.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.starts_with("export ") {
            return Err(wrong("the file is not a shell script; remove `export`"));
        }
        if name.is_empty() || !name.chars().all(is_name) || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(wrong(
                "no NAME=value: the name has other characters than letters, digits and _",
            ));
        }
        let value = unquoted(value.trim()).ok_or_else(|| wrong("unterminated quote"))?;
        variables.push((name.to_owned(), value));
    }
    Ok(variables)
}

/// Removes the quotes, and the backslashes that escape a character; `None` if a quote is not closed. After a character
/// outside quotes, a quote is a character like any other.
fn unquoted(value: &str) -> Option<String> {
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars().peekable();
    let mut is_bare = false;
    while let Some(c) = chars.next() {
        match c {
            '\'' if !is_bare => until_quote(&mut chars, &mut text)?,
            '"' if !is_bare => until_double_quote(&mut chars, &mut text)?,
            '\\' => text.extend(chars.next()),
            _ => text.push(c),
        }
        is_bare |= !matches!(c, '\'' | '"');
    }
    Some(text)
}

fn until_quote(chars: &mut Peekable<Chars<'_>>, text: &mut String) -> Option<()> {
    text.extend(iter::from_fn(|| chars.next_if(|c| *c != '\'')));
    chars.next().map(drop)
}

fn until_double_quote(chars: &mut Peekable<Chars<'_>>, text: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            '"' => return Some(()),
            '\\' => {
                // In double quotes, a backslash escapes only these characters.
                let protects = chars.next_if(|c| matches!(c, '"' | '\\' | '`' | '$'));
                text.push(protects.unwrap_or('\\'));
            }
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_systemd_reads_them() {
        for (text, expected) in [
            ("A=b", "b"),
            ("A =  b c  ", "b c"),
            ("A=", ""),
            ("A=b#c", "b#c"),
            ("A=\"b  c\"", "b  c"),
            ("A='b \"c\" \\d'", "b \"c\" \\d"),
            ("A=\"b \\\"c\\\" \\d $e\"", "b \"c\" \\d $e"),
            ("A=b\\ c\\\\d", "b c\\d"),
            ("A=\"b\"'c'd\"e\"", "bcd\"e\""),
            ("A={\"b\": 'c'}", "{\"b\": 'c'}"),
            ("A=b\\\nc", "bc"),
            ("A=b=c", "b=c"),
            ("# no\n; no\n\n  A=b", "b"),
        ] {
            let expected = vec![("A".to_owned(), expected.to_owned())];
            assert_eq!(parse(text), Ok(expected), "{text:?}");
        }
        assert_eq!(parse("A=b\nA=c\n").unwrap().len(), 2);
    }

    #[test]
    fn errors_name_the_line_but_do_not_repeat_its_text() {
        for (text, line) in [
            ("A=b\n\nhunter2", 3),
            ("A B=hunter2", 1),
            ("=hunter2", 1),
            ("1A=hunter2", 1),
            ("export A=hunter2", 1),
            ("A=\"hunter2", 1),
            ("#\nA='hunter2\n'", 2),
        ] {
            let (found, why) = parse(text).unwrap_err();
            assert_eq!(found, line, "{text:?}");
            assert!(!why.contains("hunter2"));
        }
    }
}
