//! The pages that name tests name tests that exist, no page says what the program lacks, and the walks through the code are
//! walks that a reader can take.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::links::pages;

const PAGES: [&str; 3] = [
    "docs/development/fidelity.md",
    "docs/development/reliability.md",
    "docs/development/testing.md",
];
/// The test binaries that pages name, and where their modules are; a test's path comes after its binary.
const BINARIES: [(&str, &str); 5] = [
    ("pure", "tests/pure"),
    ("clients", "tests/clients"),
    ("memory", "tests/memory"),
    ("engine", "tests/engine"),
    ("local-manager", "examples/manager/src"),
];

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn module_file(directory: &str, path: &[&str]) -> Option<PathBuf> {
    let module = path
        .iter()
        .fold(project().join(directory), |at, name| at.join(name));
    [module.with_extension("rs"), module.join("mod.rs")]
        .into_iter()
        .find(|file| file.exists())
}

/// Whether there is this module, or this test in a module.
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
        Some(project().join("tests/kit/src/contract/mod.rs"))
    } else {
        module_file(directory, modules)
    };
    // Some names are a macro's arguments.
    file.is_some_and(|file| fs::read_to_string(file).unwrap().contains(test))
}

#[test]
fn every_test_that_a_page_names_exists() {
    let (mut named, mut missing) = (0, Vec::new());
    for page in PAGES {
        for line in fs::read_to_string(project().join(page)).unwrap().lines() {
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
                        missing.push(format!("{page}: {directory} {word}"));
                    }
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(named > 100, "only {named} tests are named");
}

/// Nothing fails when such a sentence becomes false, so it outlives the day on which the feature comes.
const CLAIMS: [&str; 3] = ["not yet", "never in this version", "not supported yet"];
/// The state of a candidate, which is no claim about the program.
const NOT_A_CLAIM: &str = "not yet proven";

#[test]
fn no_page_claims_that_a_feature_is_missing() {
    let mut found = Vec::new();
    for (page, text) in pages() {
        // A sentence may continue on the next line.
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ").to_lowercase().replace(NOT_A_CLAIM, "");
        for claim in CLAIMS {
            if text.contains(claim) {
                found.push(format!("{}: {claim}", page.display()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// A row of the decision is followed from the page to the engine call in so many functions and files at most.
const MOST_FUNCTIONS: usize = 15;
const MOST_FILES: usize = 8;

#[test]
fn each_walk_names_functions_of_the_code_and_is_short() {
    let page = fs::read_to_string(project().join("CONTRIBUTING.md")).unwrap();
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
        let code = fs::read_to_string(project().join("src").join(file)).unwrap();
        for path in names.split('`').skip(1).step_by(2) {
            let name = path.rsplit("::").next().unwrap();
            // A sentence, or a call of the engine, is not a function of the file.
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

#[test]
fn the_demo_is_a_small_picture_with_few_lines() {
    let picture = fs::read_to_string(project().join("docs/demo.svg")).unwrap();
    assert!(picture.len() <= 60_000, "{} bytes", picture.len());
    let heights = picture.split("<text").skip(1).map(|text| {
        let (_, rest) = text.split_once(" y=\"").unwrap();
        rest.split('"').next().unwrap()
    });
    let lines: BTreeSet<&str> = heights.collect();
    assert!((1..=12).contains(&lines.len()), "{lines:?}");
    assert!(picture.contains("<title") && picture.contains("prefers-reduced-motion"));
}
