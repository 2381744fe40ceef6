//! Outcomes, for people and for programs elsewhere: one [`Event`] for each, the same in the audit log, in webhooks and
//! in `history`.
//!
//! [`outcome`] derives events from the containers, and is pure. [`ledger`] makes sure that each outcome is recorded
//! before the next step and reported once. [`audit`] writes events to a file and reads them back.

pub mod audit;
mod deadman;
pub mod event;
pub mod history;
pub mod ledger;
mod listeners;
mod managed;
pub mod note;
pub mod outcome;
mod pauses;
pub mod tally;
pub mod webhook;

pub use deadman::{DeadMan, DeadManCounts};
pub use event::{Action, Actor, Event, EventId, Seconds};
pub use listeners::Listeners;
