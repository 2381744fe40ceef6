//! The decision: what each row says, what is never decided in any state, and that every state comes to rest.

mod boundaries;
mod effects;
mod forbidden;
mod page;
mod permission;
mod rows;
pub mod scene;
mod states;
mod walk;
