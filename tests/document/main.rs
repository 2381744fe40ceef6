//! The container document, from outside: rules one by one, documents of real engines, random documents.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy knows tests by their attribute only, and this is all test code"
)]

mod daemon;
mod engine;
mod golden;
mod properties;
mod rules;
