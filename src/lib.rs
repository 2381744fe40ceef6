//! Keeps Harness Docker delegates healthy and current without ever losing one.
//!
//! An overview: `main.rs` calls [`cli`], and everything else is here:
//!
//! ```text
//! environment ─► config ─► app ─► daemon ◄── schedule
//!                                   │
//!                                   ▼
//!      Manager ─► manager ─►    reconcile    ─► status ─► log, page, metrics, JSON
//!                               │  ▲
//!                               ▼  │             observe, decide, take one step, observe again
//!                            observe ─► rollout::next ─► rollout::execute ◄── document
//!                               │          (pure)              │
//!                               └──────────► engine ◄──────────┘
//!                                              │
//!                                            Docker
//! ```
//!
//! There is no state file. Everything that an interrupted upgrade needs is in the names and labels of the containers,
//! so the first start and the start after a crash are the same: [`observe`] reads the [`rollout`] of each delegate
//! from the engine, [`rollout::next()`] decides on the one step to take, [`rollout::execute()`] takes it, and then
//! everything is observed again. [`reconcile`] never waits: it reports when to come back.
//!
//! `docs/development/architecture.md` has the layers, the glossary and the decisions; `docs/development/rollout.md` has
//! the tables that [`rollout::next()`] implements.
#![warn(missing_docs)]
#![cfg_attr(
    not(feature = "docker"),
    allow(
        dead_code,
        unused_imports,
        reason = "what only a Docker host needs is left to the linker"
    )
)]

pub mod alerts;
mod app;
pub mod cli;
pub mod config;
pub mod container;
pub mod daemon;
mod doctor;
pub mod document;
pub mod engine;
pub mod events;
pub mod health;
pub mod host;
pub mod image;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub mod managed;
pub mod manager;
mod net;
pub mod observe;
pub mod reconcile;
pub mod rollout;
pub mod schedule;
pub mod status;
pub mod swarm;
mod sync;
mod systemd;
pub mod telemetry;
pub mod text;
