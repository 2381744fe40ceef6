//! The form of the pages: their length, the length of their sentences, their beginning, and the table that two of them
//! share. Pages for users have short sentences: readers are in a hurry, and many speak other languages.

use std::path::Path;

use crate::links::{pages, prose};

/// The maximum number of words on a page for operators.
const MOST: usize = 1500;
/// The pages with another limit: blank-separated words, as `wc -w` counts them.
const BUDGETS: [(&str, usize); 16] = [
    ("README.md", 700),
    ("docs/usage/commands.md", 600),
    ("docs/usage/comparison.md", 700),
    ("docs/usage/compose.md", 1000),
    ("docs/usage/configuration.md", 1580),
    ("docs/usage/failures.md", 1750),
    ("docs/usage/fleet.md", 1000),
    ("docs/usage/glossary.md", 600),
    ("docs/usage/install.md", 1000),
    ("docs/usage/lifecycle.md", 800),
    ("docs/usage/production.md", 1000),
    ("docs/reference/reasons.md", 2750),
    ("docs/usage/self-upgrade.md", 400),
    ("docs/usage/run.md", 1000),
    ("docs/usage/notifications.md", 800),
    ("docs/usage/troubleshooting.md", 1200),
];

/// A sentence with more words is long.
const LONG: usize = 30;
/// The maximum number of long sentences on a page.
const MOST_LONG: usize = 2;
/// The maximum average number of words in a page's sentences.
const MOST_ON_AVERAGE: usize = 18;
/// An average over fewer sentences says little: such a page is a table.
const ENOUGH: usize = 5;

/// The words of each sentence. A sentence ends with its paragraph or list item, or else at a full stop and a blank.
fn sentences(page: &str) -> Vec<Vec<&str>> {
    let mut found: Vec<Vec<&str>> = Vec::new();
    let mut is_open = false;
    for line in prose(page) {
        let text = line.trim_start();
        let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_item = text.starts_with("- ") || (number.len() < text.len() && number.starts_with(". "));
        if text.is_empty() || is_item || text.starts_with(['|', '#', '<', '!']) {
            is_open = false;
        }
        if text.is_empty() || text.starts_with(['|', '#', '<', '!']) {
            continue;
        }
        let words = text.split_whitespace().skip(usize::from(is_item));
        for word in words {
            if !is_open {
                found.push(Vec::new());
            }
            found.last_mut().unwrap().push(word);
            is_open = !word.trim_end_matches(['*', ')', '"']).ends_with(['.', '?', '!']);
        }
    }
    found
}

#[test]
fn keeps_each_page_for_users_within_its_budget() {
    let pages = pages();
    for (page, _) in BUDGETS {
        assert!(pages.contains_key(Path::new(page)), "{page} is gone");
    }
    let usage = pages.iter().filter(|(page, _)| page.starts_with("docs/usage"));
    let words: usize = usage.map(|(_, text)| text.split_whitespace().count()).sum();
    assert!(words <= 31_000, "docs/usage has {words} words");
    let mut found = Vec::new();
    for (page, text) in pages {
        let (name, is_usage) = (page.display(), page.starts_with("docs/usage"));
        let own = BUDGETS.iter().find(|(path, _)| page == Path::new(path));
        let (words, most) = (
            text.split_whitespace().count(),
            own.map_or(MOST, |(_, most)| *most),
        );
        if (own.is_some() || is_usage) && words > most {
            found.push(format!("{name}: {words} words of {most}"));
        }
        let is_root = page.parent() == Some(Path::new(""));
        let mut lines = text.lines().filter(|line| !line.is_empty());
        let (title, first) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        let is_text = first
            .trim_start_matches(['*', '[', '`'])
            .starts_with(char::is_uppercase);
        // Before it shows anything, it says who its readers are and what they get.
        if (is_usage || is_root) && !(title.starts_with("# ") && is_text) {
            found.push(format!("{name} starts with {title}: {first}"));
        }
        let is_for_users = is_usage
            || ["README.md", "SECURITY.md", "docs/reference"]
                .iter()
                .any(|it| page.starts_with(it));
        let sentences = sentences(&text);
        let long: Vec<String> = sentences
            .iter()
            .filter(|it| it.len() > LONG)
            .map(|it| it.join(" "))
            .collect();
        let words: usize = sentences.iter().map(Vec::len).sum();
        let is_wordy = sentences.len() >= ENOUGH && words > MOST_ON_AVERAGE * sentences.len();
        if is_for_users && (long.len() > MOST_LONG || is_wordy) {
            found.push(format!(
                "{name}: {words} words in {} sentences; {long:#?}",
                sentences.len()
            ));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_sentence_ends_at_a_full_stop_a_paragraph_and_an_item() {
    let page = "# Title\n\nOne two. Three `a.b`\nfour (five).\n\n- six\n- seven\n  eight\n\n1. nine\n\n| no |\n\n    no\n";
    let lengths: Vec<usize> = sentences(page).iter().map(Vec::len).collect();
    assert_eq!(lengths, [2, 4, 1, 2, 1]);
}

/// The table of a page that says how to run the upgrader, without its links.
fn ways(page: &str) -> String {
    let text = &pages()[Path::new(page)];
    let (_, rest) = text.split_once("<!-- ways -->").unwrap();
    let (table, _) = rest.split_once("<!-- /ways -->").unwrap();
    let without_link = |part: &str| part.split_once(')').map_or(part, |(_, rest)| rest).to_owned();
    table.split("](").map(without_link).collect()
}

#[test]
fn the_readme_and_the_run_page_have_the_same_table() {
    let table = ways("docs/usage/run.md");
    assert_eq!(ways("README.md"), table);
    assert_eq!(table.lines().filter(|line| line.starts_with("| ")).count(), 7);
}
