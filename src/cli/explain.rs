//! `explain`: shows the reference entry for a word in the output: a reason, a cause, or an event.

use serde_json::{Value, json};

use super::{Exit, fail, print, print_json};
use crate::rollout::reason::REFERENCE;

/// The page with a row for each cause of a reason: `| reason | cause | the line says |`.
const CAUSES: &str = include_str!("../../docs/reference/causes.md");
/// The page with a row for each event: `| action | when it is recorded | reason |`.
const EVENTS: &str = include_str!("../../docs/reference/events.md");

/// The kind of a word, the word, and its text.
type Entry = (&'static str, &'static str, String);

pub(super) fn explain(word: Option<&str>, json: bool) -> Exit {
    let given = word.unwrap_or_default();
    let word = given.to_ascii_lowercase().replace(['-', ' '], "_");
    let all: Vec<Entry> = entries().collect();
    let found: Vec<&Entry> = all
        .iter()
        .filter(|entry| given.is_empty() || entry.1 == word)
        .collect();
    if found.is_empty() {
        let meant = meant(&word).map_or_else(String::new, |meant| format!("did you mean {meant}? "));
        let problem = format!("no word is called {given:?}; {meant}`explain` alone lists all");
        return fail(problem, Exit::Usage);
    }
    if json {
        let entry = |(kind, word, text): &&Entry| json!({ "kind": kind, "word": word, "text": text });
        return print_json(&found.iter().map(entry).collect::<Vec<Value>>());
    }
    let text = |(kind, word, text): &&Entry| match given {
        "" => format!("{kind:8}{word}"),
        _ => format!("{word} ({kind})\n\n{text}"),
    };
    let texts: Vec<String> = found.iter().map(text).collect();
    print(&texts.join(if given.is_empty() { "\n" } else { "\n\n" }))
}

/// The word that this one probably misspells.
fn meant(word: &str) -> Option<&'static str> {
    let slips = entries().map(|entry| (strsim::osa_distance(entry.1, word), entry.1));
    let (slips, meant) = slips.min()?;
    (slips <= word.len() / 3).then_some(meant)
}

fn entries() -> impl Iterator<Item = Entry> {
    let reasons = REFERENCE.split("\n### `").skip(1).filter_map(|entry| {
        let (word, text) = entry.split_once("`\n")?;
        // An operator has no page to see.
        let text = text.split("\n## ").next()?.split(" See [").next()?;
        Some(("reason", word, plain(text).trim().to_owned()))
    });
    let causes = rows(CAUSES, "causes").map(|[of, word, text]| {
        let text = format!("A cause of the reason {of}; the line says, for example: {text}");
        ("cause", word, text)
    });
    let events = rows(EVENTS, "actions").map(|[word, when, _]| {
        let next = match word {
            "health_lost" | "rejected" | "skipped" => {
                "\n\nDo: `status NAME` has the reason and the next step."
            }
            _ => "",
        };
        ("event", word, format!("Recorded when {}.{next}", plain(when)))
    });
    reasons.chain(causes).chain(events)
}

/// The rows of the table between the markers of this name, without the marks of code around a cell.
fn rows(page: &'static str, table: &str) -> impl Iterator<Item = [&'static str; 3]> {
    let marker = format!("<!-- {table} -->");
    let table = page.split_once(&marker).map_or("", |(_, table)| table);
    let lines = table.lines().skip(3).take_while(|line| line.starts_with('|'));
    lines.filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.trim_end_matches('|').splitn(3, " | ");
        let mut cell = || {
            let cell = cells.next()?.trim();
            let code = cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`'));
            Some(code.filter(|code| !code.contains('`')).unwrap_or(cell))
        };
        Some([cell()?, cell()?, cell()?])
    })
}

/// Turns Markdown into plain text: a link becomes its label; comments and emphasis are removed.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((label, after)) = link.split_once("](") else {
            break;
        };
        plain.push_str(before);
        plain.push_str(label);
        rest = after.split_once(')').unwrap_or_default().1;
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
    fn explains_reasons_causes_and_events_in_any_spelling() {
        // Other tests check that the pages have every word.
        for word in ["up_to_date", "Recreated-By-Another", "health_lost", "managed", ""] {
            assert_eq!(explain(Some(word), false), Exit::Ok, "{word}");
        }
        assert_eq!(explain(Some("quarantine"), true), Exit::Usage);
        assert_eq!([meant("quarantin"), meant("foo")], [Some("quarantined"), None]);
        let kinds = entries()
            .filter(|entry| entry.1 == "rejected")
            .map(|entry| entry.0);
        assert_eq!(kinds.collect::<Vec<_>>(), ["reason", "event"]);
        let text = plain("a [b](../c.md#d), **e:** [`f`](#g)\n<!-- h -->\n");
        assert_eq!(text, "a b, e: `f`");
    }
}
