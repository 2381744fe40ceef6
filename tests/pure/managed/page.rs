//! docs/development/managed.md and the code have the same rows, and the tests that it names are there.

use std::fs;
use std::path::Path;

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page() -> String {
    fs::read_to_string(project().join("docs/development/managed.md")).unwrap()
}

/// The ids of the rows, in the order of the code.
pub(crate) fn rows() -> Vec<String> {
    let code = fs::read_to_string(project().join("src/managed/next.rs")).unwrap();
    let (_, list) = code.split_once("pub enum Row {\n").unwrap();
    let (list, _) = list.split_once('}').unwrap();
    let rows = list.lines().map(|line| line.trim().trim_end_matches(','));
    rows.filter(|row| !row.is_empty()).map(str::to_owned).collect()
}

#[test]
fn the_page_has_the_rows_of_the_code() {
    let page = page();
    let cells = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let listed: Vec<&str> = cells
        .filter(|cell| cell.strip_prefix('I').is_some_and(|id| id.parse::<u8>().is_ok()))
        .collect();
    assert_eq!(listed, rows());
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
    let page = page();
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
