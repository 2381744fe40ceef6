//! What the tests share, for this repository only: an engine in memory, the rules that hold it to a real one, a real
//! engine's surroundings, and the checks that fuzzing and the kept corpus have in common.
//!
//! | module | for |
//! |---|---|
//! | [`twin`] | tests on the engine in memory |
//! | [`contract`] | the rules of an engine, checked against the twin and a real one |
//! | [`lab`] | tests of the program on a real engine: images, delegates, the upgrader's process, servers |
//! | [`manager`] | tests of the Manager client: its settings, and a server that sends any bytes |
//! | [`names`] | name servers, good and bad |
//! | [`document`] | what an engine makes of a create body, as a model |
//! | [`commands`] | the commands that pages show |
//! | [`page`] | pages of docs/ that say what the code says |
//! | [`schema`] | the JSON schemas of docs/reference that say what the types say |
//! | [`checks`] | what must hold of each fuzz target's input |

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::missing_panics_doc,
    reason = "a test that cannot go on has failed; only tests use these, and read them here"
)]

pub mod checks;
pub mod commands;
pub mod contract;
pub mod document;
pub mod lab;
pub mod manager;
pub mod names;
pub mod page;
pub mod schema;
pub mod twin;
