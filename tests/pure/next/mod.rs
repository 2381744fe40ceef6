//! The decision: the outcome of each row, the decisions that no state allows, and that every state comes to rest.

mod boundaries;
mod effects;
mod forbidden;
mod page;
mod permission;
mod rows;
pub mod scene;
mod states;
mod walk;
