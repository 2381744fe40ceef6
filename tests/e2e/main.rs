//! The program itself on a real engine, with real containers, a real registry and a Manager that speaks the real
//! protocol. Run with `make test`, which brings up what is missing.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod air_gapped;
mod compose;
mod daemon;
mod doctor;
mod documented;
mod drains;
mod failures;
mod fleeting;
mod front;
mod lab;
mod local_manager;
mod manager_faults;
mod operator;
mod originals;
mod pins;
mod private_registry;
mod proxy;
mod pulls;
mod relative;
mod replacements;
mod rights;
mod servers;
mod socket_proxies;
mod watching;
mod way_out;
