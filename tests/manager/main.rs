//! The Manager client: its questions, responses and errors; servers, proxies and certificates that are bad in every way.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

mod ask_all;
mod delegate_token;
mod errors;
mod faults;
mod response;
mod tls;
mod wrong_configuration;
