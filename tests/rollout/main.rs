//! Whole rollouts on an engine in memory: what the host looks like at every moment, whatever goes wrong.
#![allow(unreachable_pub)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unchecked_time_subtraction
)]

mod disk;
mod evidence;
mod failures;
mod faults;
mod fleeting;
mod heartbeat;
mod host;
mod interference;
mod left_alone;
mod obstacles;
mod operator;
mod relative;
mod replicas;
mod review;
mod start_first;
mod stop_first;
#[path = "../support/mod.rs"]
mod support;
mod unread;
mod way_back;
