//! Whole rollouts on the engine in memory, with its clock: an hour passes at once.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unchecked_time_subtraction,
    reason = "clippy knows tests by their attribute only, and this is all test code"
)]

mod contract;
mod endpoint;
mod liveness;
mod orchestrators;
mod rollout;
mod settings;
mod sim;
mod twin;
