//! What needs sockets or the real clock, and no engine: the clients of Docker, of the Manager and of health endpoints, and
//! the schedule's alarm clock.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

mod docker;
mod health_endpoint;
mod manager;
mod trigger;
