//! Pages name only tests that exist, and a reader can follow the walks through the code.

use std::fs;
use std::path::{Path, PathBuf};

use crate::links::{root, texts};
/// The test binaries that pages name, and the paths of their modules; a test's path comes after its binary.
const BINARIES: [(&str, &str); 5] = [
    ("pure", "tests/pure"),
    ("clients", "tests/clients"),
    ("memory", "tests/memory"),
    ("engine", "tests/engine"),
    ("local-manager", "examples/manager/src"),
];

fn module_file(directory: &str, path: &[&str]) -> Option<PathBuf> {
    let module = path.iter().fold(root().join(directory), |at, name| at.join(name));
    [module.with_extension("rs"), module.join("mod.rs")]
        .into_iter()
        .find(|file| file.exists())
}

/// Whether this module exists, or this test in a module.
fn exists(directory: &str, path: &str) -> bool {
    let path: Vec<&str> = path.split("::").filter(|name| !name.is_empty()).collect();
    if module_file(directory, &path).is_some() {
        return true;
    }
    let Some((test, modules)) = path.split_last() else {
        return false;
    };
    // The rules of the contract are written once, for both engines.
    let file = if modules == ["contract"] {
        Some(root().join("tests/kit/src/contract/mod.rs"))
    } else {
        module_file(directory, modules)
    };
    // Some names are a macro's arguments.
    file.is_some_and(|file| fs::read_to_string(file).unwrap().contains(test))
}

#[test]
fn every_test_that_a_page_names_exists() {
    let (mut named, mut missing) = (0, Vec::new());
    for page in ["fidelity.md", "reliability.md", "testing.md"] {
        let page = Path::new("docs/development").join(page);
        for line in fs::read_to_string(root().join(&page)).unwrap().lines() {
            let mut directory = None;
            for word in line.split('`').skip(1).step_by(2) {
                if let Some((_, found)) = BINARIES.iter().find(|(binary, _)| *binary == word) {
                    directory = Some(*found);
                } else if let Some(directory) = directory
                    && word.contains("::")
                    && !word.contains('…')
                {
                    named += 1;
                    if !exists(directory, word) {
                        missing.push(format!("{}: {directory} {word}", page.display()));
                    }
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(named > 100, "only {named} tests are named");
}

/// A sentence without a test gives the reason in its place.
#[test]
fn each_claim_about_orchestrators_has_a_test_or_says_why_not() {
    let page = fs::read_to_string(root().join("docs/development/managed.md")).unwrap();
    let (_, table) = page.split_once("\n## What others suffered from\n").unwrap();
    let rows = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows: Vec<&str> = rows.skip(1).collect();
    assert!(rows.len() > 30, "{}", rows.len());
    let code = ["src", "tests"].map(|folder| {
        texts(&root().join(folder), "rs")
            .into_values()
            .collect::<String>()
    });
    for row in rows {
        let (_, tests) = row.split_once(" | ").unwrap();
        let names = tests.split('`').skip(1).step_by(2);
        for name in names.clone() {
            let is_test = code.iter().any(|code| {
                let definition = format!("fn {name}(");
                let mut found = code.match_indices(&definition);
                found.any(|(at, _)| {
                    code[..at]
                        .lines()
                        .rev()
                        .take(4)
                        .any(|line| line.contains("test]"))
                })
            });
            assert!(is_test, "there is no test {name}");
        }
        assert!(names.count() > 0 || tests.len() > 20, "{row}");
    }
}
/// The most functions and files from a row of the decision on the page to the engine call.
const MOST_FUNCTIONS: usize = 15;
const MOST_FILES: usize = 8;

#[test]
fn each_walkthrough_is_short_and_names_existing_functions() {
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let (_, section) = page.split_once("## From page to engine call").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let (mut files, mut functions, mut walks) = (0, 0, 0);
    for line in section
        .lines()
        .filter(|line| line.starts_with("| `") || line.starts_with("| |"))
    {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (file, names) = (cells[2].trim_matches('`'), cells[3]);
        if file.starts_with("**") {
            assert_eq!(file, format!("**{files} files**"), "{line}");
            assert_eq!(names, format!("**{functions} functions**"), "{line}");
            assert!(functions <= MOST_FUNCTIONS && files <= MOST_FILES, "{line}");
            (files, functions, walks) = (0, 0, walks + 1);
            continue;
        }
        files += 1;
        let code = fs::read_to_string(root().join("src").join(file)).unwrap();
        for path in names.split('`').skip(1).step_by(2) {
            let name = path.rsplit("::").next().unwrap();
            // A sentence, or an engine call, is not a function of the file.
            let (call, is_function) = match path.split_once("::") {
                Some(("Engine", call)) => (format!("engine.{call}("), false),
                _ if name.starts_with(char::is_uppercase) => (name.to_owned(), false),
                _ => (format!("fn {name}"), true),
            };
            assert!(code.contains(&call), "{file}: {path}");
            functions += usize::from(is_function);
        }
    }
    assert_eq!(walks, 3);
}
