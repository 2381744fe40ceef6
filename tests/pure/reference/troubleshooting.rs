//! `docs/usage/troubleshooting.md` leads from every exit code and every error of the Manager to the remedy.

use std::path::Path;

use delegate_upgrader::cli::Exit;
use delegate_upgrader::manager::ManagerError;
use strum::{VariantArray as _, VariantNames as _};

fn page() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/usage/troubleshooting.md");
    std::fs::read_to_string(file).unwrap()
}

/// The rows of the tables: the first cell, and the rest.
fn rows(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| row.split_once(" | "))
}

#[test]
fn every_manager_error_has_a_troubleshooting_entry() {
    let page = page();
    for word in ManagerError::VARIANTS {
        let word = format!("`{word}`");
        let found = rows(&page).filter(|(first, _)| first.split(", ").any(|cell| cell == word));
        assert_eq!(found.count(), 1, "{word}");
    }
}

#[test]
fn every_exit_code_has_a_troubleshooting_entry() {
    let page = page();
    for exit in Exit::VARIANTS.iter().filter(|exit| **exit != Exit::Ok) {
        let code = exit.code().to_string();
        let row = rows(&page).find(|(first, _)| *first == code);
        let (_, rest) = row.unwrap_or_else(|| panic!("{code} is in no row"));
        assert!(rest.contains("]("), "{code} leads nowhere: {rest}");
    }
}
