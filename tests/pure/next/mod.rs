//! The step function: what it decides in each state of a rollout, row by row, and what it never decides in any.

mod beginning;
mod beyond;
mod boundaries;
mod by_hand;
mod combinations;
mod common_causes;
mod companions;
mod doubt;
mod effects;
mod facts;
mod forbidden;
mod health;
mod helper;
mod holding;
mod ids;
mod operators;
mod people;
mod rows;
pub mod scene;
mod walk;
