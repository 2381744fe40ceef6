//! Tests that need sockets or the real clock, but no engine: the clients of Docker, of the Manager, of health endpoints and
//! of receivers of events, the schedule's alarm clock, and the daemon's server and log.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

mod alerts;
mod audit;
mod daemon;
mod deadman;
mod docker;
mod health_endpoint;
mod hostile;
mod log;
mod manager;
mod names;
mod service;
mod status_server;
mod trigger;
mod webhook;
