//! What integration tests share: the in-memory engine, the contract that holds it to a real one, and both labs.
//!
//! Every test binary uses a part of it, and none exports any; helpers fail tests by panicking.
#![allow(dead_code, unused_imports, unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod contract;
pub mod lab;
pub mod twin;
