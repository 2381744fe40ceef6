//! Decisions that need no engine, network or clock: all tests together take seconds.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "clippy knows tests by their attribute only, and this is all test code"
)]

mod commands;
mod configuration;
mod corpus;
mod document;
mod duration;
mod fleet;
mod health;
mod host;
mod image;
mod layers;
mod links;
mod managed;
mod monitoring;
mod mutants;
mod next;
mod page_form;
mod pages;
mod permissions;
mod redact;
mod reference;
mod rollout;
mod schedule;
mod schemas;
mod status;
mod swarm;
mod text;
mod waves;
mod windows;
mod zones;
