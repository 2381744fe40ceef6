//! What needs sockets or the real clock. The Manager client: its questions, responses and errors; servers, proxies and
//! certificates that are bad in every way. The client of health endpoints, and the schedule's alarm clock.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

mod ask_all;
mod delegate_token;
mod errors;
mod faults;
mod fixed;
mod health_endpoint;
mod requests;
mod response;
mod tls;
mod trigger;
mod wrong_configuration;
