//! The code that the tests of this repository share: an engine in memory, the rules that hold it to a real one, a real
//! engine's surroundings, and the common checks of fuzzing and of the kept corpus.
//!
//! | module | for |
//! |---|---|
//! | [`twin`] | tests on the engine in memory |
//! | [`contract`] | the rules of an engine, checked against the twin and a real one |
//! | [`lab`] | tests of the program on a real engine: images, delegates, the upgrader's process, servers |
//! | [`manager`] | tests of the Manager client: its settings, and a server that sends any bytes |
//! | [`names`] | name servers, good and bad |
//! | [`document`] | a model of an engine that receives a create body |
//! | [`commands`] | the commands that pages show |
//! | [`page`] | pages of docs/ that must match the code |
//! | [`schema`] | JSON schemas of docs/reference that must match the types |
//! | [`checks`] | the rules for each fuzz target's input |

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
pub mod scope;
pub mod twin;
