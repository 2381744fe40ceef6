//! The step function: what it decides in each state of a rollout, told row by row, and what it never decides in any.
#![allow(unreachable_pub)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy knows tests by their attribute only, and this is all test code"
)]

mod companions;
mod rows;
mod scene;
mod walk;
