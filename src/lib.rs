//! Keeps Harness Docker delegates healthy and current without ever losing one.
//!
//! One direction of data: `daemon → pass → {manager, engine, rollout} → {document, image, delegate}`.
#![warn(missing_docs)]

pub mod campaign;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod delegate;
pub mod document;
pub mod duration;
pub mod endpoint;
pub mod engine;
pub mod health;
pub mod host;
pub mod image;
pub mod manager;
pub mod metrics;
pub mod observe;
pub mod pass;
pub mod reason;
pub mod report;
pub mod rollout;
pub mod schedule;
pub mod secret;
pub mod serve;
mod setup;
pub mod status;
pub mod telemetry;
pub mod trigger;
