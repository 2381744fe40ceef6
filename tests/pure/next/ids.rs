//! The rows of docs/development/rollout.md are the rows of the code.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use delegate_upgrader::rollout::Row;

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_page_has_the_same_rows_in_the_same_order() {
    let page = fs::read_to_string(project().join("docs/development/rollout.md")).unwrap();
    let known: Vec<String> = Row::ALL.iter().map(Row::to_string).collect();
    // The paths before name rows, too.
    let (_, tables) = page.split_once("## The tables").unwrap();
    let first_cells = tables
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let is_id = |cell: &&str| {
        let (table, number) = cell.split_at_checked(1).unwrap_or_default();
        table.chars().all(|c| c.is_ascii_uppercase()) && number.parse::<u8>().is_ok()
    };
    let listed: Vec<&str> = first_cells.filter(is_id).collect();
    assert_eq!(listed, known);
}

/// A mutant, a log line or a page that names a row means one place in the code.
#[test]
fn each_row_stands_once_in_the_code() {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for entry in fs::read_dir(project().join("src/rollout/next")).unwrap() {
        let code = fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut imports = false;
        let rules = code.lines().filter(|line| {
            imports |= line.starts_with("use ");
            let is_rule = !imports && !line.trim_start().starts_with("//");
            imports &= !line.ends_with(';');
            is_rule
        });
        for word in rules.flat_map(|line| line.split(|c: char| !c.is_ascii_alphanumeric())) {
            *places.entry(word.to_owned()).or_default() += 1;
        }
    }
    for row in Row::ALL {
        let count = places.get(&row.to_string()).copied().unwrap_or_default();
        assert_eq!(count, 1, "{row}");
    }
}

#[test]
fn the_mutants_name_rows_that_exist() {
    let rules = fs::read_to_string(project().join("tests/mutants/rules.txt")).unwrap();
    let titles = rules.lines().filter_map(|line| line.strip_prefix("== "));
    let named: Vec<&str> = titles
        .filter_map(|title| title.split_once(": "))
        .map(|(row, _)| row)
        .collect();
    let mut known: Vec<String> = Row::ALL.iter().map(Row::to_string).collect();
    known.extend(crate::managed::page::rows());
    for row in &named {
        assert!(known.iter().any(|known| known == row), "{row}");
    }
    assert!(named.len() > 60, "{named:?}");
}

/// A rule whose text is no longer in its file would be found only by the long run over all of them.
#[test]
fn the_text_of_each_mutant_stands_once_in_its_file() {
    let rules = fs::read_to_string(project().join("tests/mutants/rules.txt")).unwrap();
    let mut tried = 0;
    for rule in rules.split("\n== ").skip(1) {
        let (title, rest) = rule.split_once("\nin ").unwrap();
        let (file, rest) = rest.split_once("\n---\n").unwrap();
        let (old, _) = rest.split_once("\n+++\n").unwrap();
        let code = fs::read_to_string(project().join(file)).unwrap();
        assert_eq!(
            code.matches(old.trim_end()).count(),
            1,
            "{title}: {old:?} in {file}"
        );
        tried += 1;
    }
    assert!(tried > 90, "{tried} rules");
}
