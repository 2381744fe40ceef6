//! docs/development/rollout.md has the rows of the code. `UPDATE_DOCS=1 cargo test --test pure next::page` writes them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use delegate_upgrader::rollout::{Row, blocker_table};
use kit::page;

const PAGE: &str = "docs/development/rollout.md";
/// The most rows that one person can keep in mind.
const MOST_ROWS: usize = 80;
const MOST_WORDS: usize = 25;

/// The marks around each table, in the order of the page.
const MARKS: [&str; 8] = [
    "rows-guards",
    "rows-failed-and-withdrawn",
    "rows-old",
    "rows-in-service",
    "rows-unhealthy",
    "rows-side-by-side",
    "rows-name-is-free",
    "rows-restoring",
];

#[test]
fn the_page_has_every_row_with_its_sentence() {
    assert_eq!(MARKS.len(), Row::TABLES.len());
    for (mark, (_, rows)) in MARKS.iter().zip(Row::TABLES) {
        let mut table = String::from("| row | what happens |\n|---|---|\n");
        for (row, sentence) in *rows {
            let _ = writeln!(table, "| `{row}` | {} |", sentence.trim());
        }
        page::has(PAGE, mark, &table);
    }
}

#[test]
fn the_page_of_the_blockers_has_every_row_with_its_sentence() {
    let mut table = String::from("| kind | row | when |\n|---|---|---|\n");
    let mut names = BTreeSet::new();
    for (kind, row, sentence) in blocker_table() {
        let kind: &str = kind.into();
        let _ = writeln!(table, "| {kind} | `{row}` | {sentence} |");
        assert!(names.insert(row), "{row} twice");
        assert!(
            sentence.split_whitespace().count() <= MOST_WORDS,
            "{row}: {sentence}"
        );
    }
    page::has("docs/development/blockers.md", "blockers", &table);
}

#[test]
fn tables_have_few_rows_and_short_sentences() {
    let all: Vec<_> = Row::TABLES.iter().flat_map(|(_, rows)| *rows).collect();
    assert!(all.len() <= MOST_ROWS, "{} rows", all.len());
    let names: BTreeSet<String> = all.iter().map(|(row, _)| row.to_string()).collect();
    assert_eq!(names.len(), all.len());
    for (row, sentence) in all {
        let sentence = sentence.trim();
        let words = sentence.split_whitespace().count();
        assert!(words <= MOST_WORDS, "{row} has {words} words: {sentence}");
        assert!(
            sentence.ends_with('.') && sentence.contains(": "),
            "{row}: {sentence}"
        );
    }
}
