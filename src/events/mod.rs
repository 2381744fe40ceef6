//! Outcomes, for people and programs elsewhere: one [`Event`] for each outcome, the same in the audit log, in
//! webhooks and in `history`.
//!
//! [`outcome`] derives it from what the containers show, and is pure. [`ledger`] sees to it that each outcome is recorded
//! before the next step and reported once. [`audit`] writes it to a file, and reads it back.

pub mod audit;
mod deadman;
pub mod event;
pub mod histograms;
pub mod history;
pub mod ledger;
mod listeners;
mod managed;
pub mod note;
pub mod outcome;
mod receiver;
pub mod webhook;

pub use deadman::{DeadMan, DeadManCounts};
pub use event::{Action, Actor, Event, EventId, Seconds};
pub use listeners::Listeners;
