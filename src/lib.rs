//! Keeps Harness Docker delegates healthy and current without ever losing one.
//!
//! One direction of data: `daemon → pass → {manager, engine, rollout} → {document, image, delegate}`.
#![warn(missing_docs)]

pub mod config;
pub mod delegate;
pub mod document;
pub mod duration;
pub mod engine;
pub mod image;
pub mod manager;
pub mod schedule;
pub mod trigger;
