//! Image references and targets.

mod reference;
mod target;
mod versions;
