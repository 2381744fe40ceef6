//! The walk-through for an air-gapped site: its commands, as the documentation shows them.

use std::process::Command;

use kit::lab::{expect, project};

const SCRIPT: &str = "examples/air-gapped";
const PAGES: [&str; 2] = ["docs/usage/air-gapped.md", "examples/manager/README.md"];

fn read(path: &str) -> String {
    std::fs::read_to_string(project().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Commands, with continued lines joined and blanks collapsed.
fn commands<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut commands = Vec::new();
    let mut begun = String::new();
    for line in lines {
        let line = line.trim();
        if let Some(part) = line.strip_suffix('\\') {
            begun.push_str(part);
            continue;
        }
        begun.push_str(line);
        let words: Vec<&str> = begun.split_whitespace().collect();
        if !words.is_empty() {
            commands.push(words.join(" "));
        }
        begun.clear();
    }
    commands
}

#[test]
fn the_walk_through_ends_as_documented() {
    let said = expect(Command::new(project().join(SCRIPT)).current_dir(project()));
    assert!(said.lines().any(|line| line.starts_with("As promised")), "{said}");
}

#[test]
fn script_runs_every_command_on_the_pages_in_order() {
    let (page, script) = (PAGES.map(read).concat(), read(SCRIPT));
    let run = commands(script.lines());
    let shown = commands(page.lines().filter(|line| line.starts_with("    ")));
    assert!(shown.len() >= 15, "{shown:#?}");
    let mut left = run.iter();
    for command in &shown {
        assert!(
            left.any(|line| line == command),
            "{PAGES:?} show this, and {SCRIPT} does not run it, or not there:\n{command}"
        );
    }
}
