//! What came of things, for people and programs elsewhere: one [`Event`] for each outcome, the same in the audit log, in
//! webhooks and in `history`.

mod deadman;
mod event;
mod listeners;
mod receiver;
pub mod webhook;

pub use deadman::{DeadMan, DeadManCounts};
pub use event::{Action, Actor, Event, EventId, Seconds};
pub use listeners::Listeners;
