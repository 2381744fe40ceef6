//! docs/development/managed.md has the rows of the code, and the tests that it names are there.
//! `UPDATE_DOCS=1 cargo test --test pure managed::page` writes the rows.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use delegate_upgrader::managed::Row;

const PAGE: &str = "docs/development/managed.md";

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_page_has_every_row_with_its_sentence() {
    let mut table = String::from("| row | what happens |\n|---|---|\n");
    for (title, rows) in Row::TABLES {
        let _ = writeln!(table, "| | **{title}** |");
        for (row, sentence) in *rows {
            let sentence = sentence.trim();
            assert!(
                sentence.ends_with('.') && sentence.contains(": "),
                "{row}: {sentence}"
            );
            let _ = writeln!(table, "| `{row}` | {sentence} |");
        }
    }
    kit::page::has(PAGE, "rows", &table);
}

/// All Rust files below a directory, one after the other.
fn sources(directory: &Path, all: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn each_sentence_of_the_page_has_a_test_or_says_why_not() {
    let page = fs::read_to_string(project().join(PAGE)).unwrap();
    let (_, table) = page.split_once("\n## What others suffered from\n").unwrap();
    let rows: Vec<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .skip(1)
        .collect();
    assert!(rows.len() > 30, "{}", rows.len());
    let mut code = String::new();
    for directory in ["src", "tests"] {
        sources(&project().join(directory), &mut code);
    }
    for row in rows {
        let (_, tests) = row.split_once(" | ").unwrap();
        let names = tests.split('`').skip(1).step_by(2);
        for name in names.clone() {
            let is_test = code.match_indices(&format!("fn {name}(")).any(|(at, _)| {
                let before: Vec<&str> = code[..at].lines().rev().take(4).collect();
                before.iter().any(|line| line.contains("test]"))
            });
            assert!(is_test, "there is no test {name}");
        }
        assert!(names.count() > 0 || tests.len() > 20, "{row}");
    }
}
