//! The step function: what it decides in each state of a rollout, told row by row, and what it never decides in any.

mod beyond;
mod companions;
mod facts;
mod ids;
mod rows;
mod scene;
mod walk;
