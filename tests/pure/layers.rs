//! The layers of `docs/development/architecture.md`: a module imports only lower layers, and no two files each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::links::{root, texts};

const PAGE: &str = "docs/development/architecture.md";

/// The layer of each module, from the table of the page: `| 9 | `reconcile` | … |`.
fn layers() -> BTreeMap<String, u32> {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let table = page
        .split("## Layers")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    let mut layers = BTreeMap::new();
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let Ok(layer) = cells[1].parse::<u32>() else {
            continue;
        };
        for module in cells[2].split(',') {
            let module = module.trim().trim_matches('`').to_owned();
            assert!(
                layers.insert(module.clone(), layer).is_none(),
                "{PAGE} names {module} twice"
            );
        }
    }
    layers
}

/// The files of `src` with their code, each up to its unit tests and without comments.
fn files() -> BTreeMap<PathBuf, String> {
    let code = |text: &str| {
        let code = text.split("#[cfg(test)]").next().unwrap();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let files = texts(&root().join("src"), "rs").into_iter();
    files
        .filter(|(path, _)| !path.ends_with("tests.rs"))
        .map(|(path, text)| (path, code(&text)))
        .collect()
}

/// The first name after each `crate::`.
fn imports(code: &str) -> BTreeSet<String> {
    let name = |rest: &str| {
        rest.chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    code.split("crate::").skip(1).map(name).collect()
}

fn module(path: &Path) -> String {
    let first = path
        .components()
        .next()
        .unwrap()
        .as_os_str()
        .to_string_lossy()
        .into_owned();
    first.trim_end_matches(".rs").to_owned()
}

#[test]
fn a_module_imports_only_lower_layers() {
    let layers = layers();
    let mut seen = BTreeSet::new();
    let mut faults = Vec::new();
    for (path, code) in files() {
        let from = module(&path);
        if ["main", "lib", "page"].contains(&from.as_str()) {
            continue;
        }
        let Some(layer) = layers.get(&from) else {
            faults.push(format!("{PAGE} has no layer for {from}"));
            continue;
        };
        assert!(
            !code.contains("crate::{"),
            "src/{}: name each module in a line of its own",
            path.display()
        );
        for to in imports(&code).into_iter().filter(|to| *to != from) {
            match layers.get(&to) {
                Some(below) if below < layer => {}
                below => faults.push(format!(
                    "src/{} (layer {layer}) imports {to} (layer {below:?})",
                    path.display()
                )),
            }
        }
        seen.insert(from);
    }
    let named: BTreeSet<String> = layers.into_keys().collect();
    for absent in named.difference(&seen) {
        faults.push(format!("{PAGE} names {absent}, which src does not have"));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The files that a file imports by `super::` or `crate::`, at any depth. A `mod.rs` wires its folder, so it does not count.
fn named<'a>(path: &Path, code: &str, files: &'a BTreeMap<PathBuf, String>) -> BTreeSet<&'a PathBuf> {
    let mut named = BTreeSet::new();
    for (at, marker) in code.match_indices("super::").chain(code.match_indices("crate::")) {
        let is_absolute = marker == "crate::";
        let mut folder = if is_absolute {
            PathBuf::new()
        } else {
            path.parent().unwrap().to_owned()
        };
        let mut rest = &code[at + marker.len()..];
        while let Some(after) = rest.strip_prefix("super::") {
            folder.pop();
            rest = after;
        }
        let is_name = |c: char| c.is_alphanumeric() || "_:".contains(c);
        let (first, rest) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
        let several = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
        for last in several.unwrap_or_default().split(',') {
            let mut file = folder.clone();
            for part in format!("{first}{}", last.trim()).split("::") {
                file.push(part);
                named.extend(
                    files
                        .get_key_value(&file.with_extension("rs"))
                        .map(|(file, _)| file),
                );
            }
        }
    }
    named
}

#[test]
fn files_have_no_circular_imports() {
    let files = files();
    let arrows: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = files
        .iter()
        .map(|(path, code)| (path, named(path, code, &files)))
        .collect();
    for start in files.keys() {
        let mut reached = BTreeSet::new();
        let mut next = arrows[start].clone();
        while let Some(path) = next.pop_first() {
            assert!(
                path != start,
                "src/{} imports itself in a circle",
                start.display()
            );
            if reached.insert(path) {
                next.extend(&arrows[path]);
            }
        }
    }
}

#[test]
fn the_page_names_only_existing_files() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    for name in page.split('`').skip(1).step_by(2) {
        if Path::new(name)
            .extension()
            .is_some_and(|extension| extension == "rs")
            && name != "mod.rs"
        {
            assert!(root().join("src").join(name).is_file(), "{PAGE} names {name}");
        }
    }
}
