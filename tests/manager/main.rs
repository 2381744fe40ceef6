//! The Manager client against servers, proxies and certificates that are bad in every way.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

mod faults;
mod response;
mod tls;
