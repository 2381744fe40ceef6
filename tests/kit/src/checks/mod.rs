//! The rules for each fuzz target's input. The fuzzer runs them, and `cargo test` runs them over the kept corpus.

pub mod border;
pub mod document;
pub mod image_reference;
pub mod manager_answer;
