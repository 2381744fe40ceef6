//! The container document, from outside: rules one by one, documents of real engines, random documents.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are tests, which clippy sees in functions marked as such only"
)]

mod engine;
mod golden;
mod properties;
mod rules;
