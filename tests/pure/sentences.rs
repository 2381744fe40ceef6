//! The pages for users have short sentences: they are read in a hurry, and by readers of other languages.

use std::path::Path;

use crate::links::{pages, prose};

/// A sentence of more words is long.
const LONG: usize = 30;
/// The most long sentences of a page.
const MOST_LONG: usize = 2;
/// The most words of a page's sentences on average.
const MOST_ON_AVERAGE: f64 = 18.0;
/// An average of fewer sentences says little: such a page is a table.
const ENOUGH: usize = 5;

/// The words of each sentence. A sentence ends with its paragraph or list item, and otherwise at a full stop and a blank.
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

fn is_for_users(page: &Path) -> bool {
    ["README.md", "SECURITY.md", "docs/usage", "docs/reference"]
        .iter()
        .any(|begin| page.starts_with(begin))
}

#[test]
fn sentences_are_short() {
    let mut found = Vec::new();
    for (page, text) in pages().iter().filter(|(page, _)| is_for_users(page)) {
        let sentences = sentences(text);
        let long: Vec<_> = sentences.iter().filter(|words| words.len() > LONG).collect();
        let words: usize = sentences.iter().map(Vec::len).sum();
        #[expect(clippy::cast_precision_loss, reason = "a page has few words")]
        let average = words as f64 / sentences.len().max(1) as f64;
        if long.len() > MOST_LONG || average > MOST_ON_AVERAGE && sentences.len() >= ENOUGH {
            let long: Vec<String> = long.iter().map(|words| words.join(" ")).collect();
            found.push(format!(
                "{}: {average:.1} words on average; {long:#?}",
                page.display()
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
