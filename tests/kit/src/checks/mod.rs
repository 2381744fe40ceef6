//! What must hold of each fuzz target's input, whatever it is. The fuzzer runs these, and `cargo test` does over the kept
//! corpus.

pub mod border;
pub mod document;
pub mod image_reference;
pub mod manager_answer;
