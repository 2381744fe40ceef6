//! Keeps Harness Docker delegates healthy and current without ever losing one.
//!
//! This is the map. `main.rs` calls [`cli`], and everything else is here:
//!
//! ```text
//! environment ─► config ─► setup ─► daemon ◄── trigger ◄── schedule
//!                                     │
//!                                     ▼
//!   Manager ─► manager ─► campaign ─► pass ─► report ─► status ─► serve, metrics
//!                         (a wish)    │  ▲
//!                            ▲        ▼  │            look, decide, take one step, look again
//!                          image   observe ─► rollout::next ─► rollout::execute ◄── document
//!                                     │         (pure)                │
//!                                     └────────► engine ◄─────────────┘
//!                                                  │
//!                                                Docker
//! ```
//!
//! Dependencies go one way: `daemon → pass → {manager, engine, rollout} → {document, image, delegate}`.
//!
//! There is no state file. What an interrupted upgrade needs is in the names and labels of the containers, so the first
//! start and the start after a crash are the same: [`observe`] reads the [`rollout`] of each delegate from the
//! engine, [`rollout::next()`] decides the one step to take, [`rollout::execute()`] takes it, and then everything is looked
//! at again. A [`pass`] never waits: it says when to come back.
//!
//! | to do with | modules |
//! |---|---|
//! | the program | [`cli`], [`telemetry`], `setup` |
//! | settings | [`config`], [`secret`], [`duration`] |
//! | when | [`schedule`] (pure), [`trigger`], [`daemon`] |
//! | which image | [`manager`] asks, [`image`] (pure) finds the target, [`upgrade_run`] keeps the answers of one pass |
//! | what is there | [`engine`] (the port to Docker), [`delegate`] (names), [`observe`] (the look), [`host`] (our place), [`disk`] (its room) |
//! | how it is | [`health`] judges, [`endpoint`] asks over HTTP |
//! | what to do | [`pass`], [`rollout`], [`document`] (pure): the same container with a new image |
//! | what not to blame an image for | `disturbance`: others that are ill too, a Manager out of reach |
//! | at an operator's word | [`demand`]: `retry`, `rollback` |
//! | telling | [`reason`], [`evidence`] (shown through a [`mask`]), [`report`], [`status`], [`metrics`], [`serve`] |
//!
//! `docs/development` has the decisions, and the rollout's states as a table.
#![warn(missing_docs)]

mod app;
pub mod cli;
pub mod config;
pub mod container;
pub mod daemon;
mod doctor;
pub mod document;
pub mod engine;
pub mod health;
pub mod host;
pub mod image;
pub mod manager;
mod net;
pub mod observe;
#[cfg(test)]
mod page;
pub mod reconcile;
pub mod rollout;
pub mod schedule;
pub mod status;
pub mod telemetry;
pub mod text;
