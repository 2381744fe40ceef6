//! Runs the fuzz targets' checks over the corpus in the repository, without a fuzzer.

mod seeds;

use std::fs;
use std::path::{Path, PathBuf};

use kit::checks::{border, document, image_reference, manager_answer};

fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(target)
}

/// Feeds every file of a corpus to its target's check. If a file fails, its name is the last one printed.
fn replay(target: &str, check: fn(&[u8])) {
    let mut files: Vec<_> = fs::read_dir(corpus(target))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 10, "only {} files in {target}", files.len());
    for file in files {
        println!("{}", file.display());
        check(&fs::read(&file).unwrap());
    }
}

#[test]
fn the_document_invariants_hold_for_the_corpus() {
    replay("document", document::check);
}

#[test]
fn the_manager_response_parser_handles_the_corpus() {
    replay("manager_answer", manager_answer::check);
}

#[test]
fn the_image_reference_invariants_hold_for_the_corpus() {
    replay("image_reference", image_reference::check);
}

/// Every output shows every hostile value on one line, shortened and without terminal control codes.
#[test]
fn untrusted_text_is_sanitised_at_every_output() {
    replay("border", border::check);
    border::check("\u{1b}[31m".repeat(30_000).as_bytes());
}
