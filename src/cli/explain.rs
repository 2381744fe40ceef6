//! `explain`: shows the entry for a reason in the reference.

use serde_json::json;

use super::{Exit, fail, print, print_json};

/// The page with an entry for each reason.
const PAGE: &str = include_str!("../../docs/reference/reasons.md");
const ENTRY: &str = "\n### `";
/// The page with a row for each cause of a reason: `| reason | cause | the line says |`.
const CAUSES: &str = include_str!("../../docs/reference/causes.md");

pub(super) fn explain(reason: &str, json: bool) -> Exit {
    let entries = PAGE
        .split(ENTRY)
        .skip(1)
        .filter_map(|entry| entry.split_once("`\n"));
    if let Some((word, text)) = entries.clone().find(|(word, _)| *word == reason) {
        let text = text.split("\n## ").next().unwrap_or_default();
        let text = plain(text);
        let text = text.trim();
        if json {
            return print_json(&json!({ "reason": word, "text": text }));
        }
        return print(&format!("{word}\n\n{text}"));
    }
    if let Some((of, text)) = cause(reason) {
        if json {
            return print_json(&json!({ "cause": reason, "reason": of, "text": text }));
        }
        return print(&format!(
            "{reason}\n\nA cause of the reason {of}; the line says, for example: {text}"
        ));
    }
    let meant = entries
        .map(|(word, _)| (strsim::osa_distance(word, reason), word))
        .min();
    let meant = meant.filter(|(slips, _)| *slips <= 3).map(|(_, word)| word);
    let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
    fail(format!("no reason is called {reason:?}{meant}"), Exit::Usage)
}

/// The reason to which a cause belongs, and an example of its line.
fn cause(word: &str) -> Option<(&'static str, &'static str)> {
    CAUSES.lines().find_map(|line| {
        let mut cells = line.strip_prefix("| ")?.trim_end_matches(" |").splitn(3, " | ");
        let (of, cause, text) = (cells.next()?, cells.next()?, cells.next()?);
        (cause.trim_matches('`') == word).then_some((of.trim_matches('`'), text))
    })
}

/// Turns Markdown into plain text: a link becomes its label and page; comments and emphasis are removed.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((label, after)) = link.split_once("](") else {
            break;
        };
        let (target, after) = after.split_once(')').unwrap_or_default();
        plain.push_str(before);
        plain.push_str(label);
        if let Some((_, page)) = target.rsplit_once('/') {
            plain.extend([" (", page, ")"]);
        }
        rest = after;
    }
    plain.push_str(rest);
    let lines = plain.lines().filter(|line| !line.starts_with("<!--"));
    let lines: Vec<String> = lines.map(|line| line.replace("**", "")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_entries_in_plain_text() {
        // Another test checks that the page has every reason.
        for word in ["up_to_date", "quarantined", "recreated_by_another"] {
            assert_eq!(explain(word, false), Exit::Ok, "{word}");
        }
        assert_eq!(explain("quarantine", true), Exit::Usage);
        assert_eq!(cause("managed").map(|(of, _)| of), Some("obstacle"));
        let text = plain("a [b](../c.md#d), **e:** [`f`](#g)\n<!-- h -->\n");
        assert_eq!(text, "a b (c.md#d), e: `f`");
    }
}
