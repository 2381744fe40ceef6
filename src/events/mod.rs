//! What came of things, for people and programs elsewhere: one [`Event`] for each outcome, the same in the audit log, in
//! webhooks and in `history`.

mod event;

pub use event::{Action, Actor, Event, EventId, Seconds};
