//! The container document from outside: the rules one by one, and documents of real engines.

mod comparison;
pub(crate) mod golden;
mod overrides;
mod rules;
mod spellings;
