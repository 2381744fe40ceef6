//! Image references and targets.

mod reference;
mod target;
