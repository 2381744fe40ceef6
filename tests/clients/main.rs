//! What needs sockets or the real clock, and no engine: the clients of Docker, of the Manager, of health endpoints and of
//! receivers of events, the schedule's alarm clock, and what the daemon serves and logs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

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
