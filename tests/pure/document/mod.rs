//! The container document, from outside: rules one by one, documents of real engines, random documents.

mod comparison;
mod daemon;
mod golden;
mod overrides;
mod properties;
mod rules;
mod spellings;
