//! Deployments: reading and writing without a cluster, and a real cluster if `tests/lab/kubernetes run` provides one.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod cluster;
mod file;
mod patch;
mod pods;
mod read;
mod released;
mod settings;
mod stand_in;
