//! The form of the pages: how long each is, how it starts, and the table that two of them share.

use std::path::Path;

use crate::links::{pages, resolved};

/// The most words of a page for operators.
const MOST: usize = 1500;
/// The pages with another limit: words between blanks, as `wc -w` counts them.
const BUDGETS: [(&str, usize); 16] = [
    ("README.md", 700),
    ("docs/usage/commands.md", 600),
    ("docs/usage/comparison.md", 700),
    ("docs/usage/compose.md", 1000),
    ("docs/usage/configuration.md", 2950),
    ("docs/usage/fleet.md", 1000),
    ("docs/usage/glossary.md", 1000),
    ("docs/usage/install.md", 1000),
    ("docs/usage/lifecycle.md", 700),
    ("docs/usage/production.md", 1000),
    ("docs/reference/reasons.md", 2800),
    ("docs/usage/self-upgrade.md", 400),
    ("docs/usage/run.md", 1000),
    ("docs/usage/notifications.md", 800),
    ("docs/usage/troubleshooting.md", 900),
    ("docs/usage/what-happens-when.md", 1000),
];

#[test]
fn no_page_for_operators_is_longer_than_its_budget() {
    let pages = pages();
    for (page, _) in BUDGETS {
        assert!(pages.contains_key(Path::new(page)), "{page} is gone");
    }
    let mut long = Vec::new();
    for (page, text) in pages {
        let own = BUDGETS.iter().find(|(path, _)| page == Path::new(path));
        let (words, most) = (
            text.split_whitespace().count(),
            own.map_or(MOST, |(_, most)| *most),
        );
        if (own.is_some() || page.starts_with("docs/usage")) && words > most {
            long.push(format!("{}: {words} words of {most}", page.display()));
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

/// The page says whom it is for, and what they get, before it shows anything.
#[test]
fn each_page_for_operators_starts_with_a_sentence() {
    let mut other = Vec::new();
    for (page, text) in pages() {
        let is_ours = page.starts_with("docs/usage") || page.parent() == Some(Path::new(""));
        if !is_ours {
            continue;
        }
        let mut lines = text.lines().filter(|line| !line.is_empty());
        let title = lines.next().unwrap_or_default();
        let first = lines.next().unwrap_or_default();
        let is_text = first
            .trim_start_matches(['*', '[', '`'])
            .starts_with(char::is_uppercase);
        if !title.starts_with("# ") || !is_text {
            other.push(format!("{}: {title}: {first}", page.display()));
        }
    }
    assert!(other.is_empty(), "{other:#?}");
}

/// The table of a page that says how to run the upgrader, with the links as paths from the root.
fn ways(page: &str) -> String {
    let text = &pages()[Path::new(page)];
    let (_, rest) = text.split_once("<!-- ways -->").unwrap();
    let (table, _) = rest.split_once("<!-- /ways -->").unwrap();
    let mut parts = table.split("](");
    let mut found = parts.next().unwrap().to_owned();
    for part in parts {
        let (link, rest) = part.split_once(')').unwrap();
        let target = resolved(Path::new(page), link);
        found.push_str("](");
        found.push_str(&target.to_string_lossy());
        found.push(')');
        found.push_str(rest);
    }
    found
}

#[test]
fn the_readme_and_the_page_of_ways_have_the_same_table() {
    let table = ways("docs/usage/run.md");
    assert_eq!(ways("README.md"), table);
    assert_eq!(table.lines().filter(|line| line.starts_with("| ")).count(), 7);
}
