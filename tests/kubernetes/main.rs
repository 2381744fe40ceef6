//! Deployments: what is read and what is written, without a cluster; and, where `tests/lab/kubernetes run` has one, a real one.
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
mod stand_in;
