//! Whole lives of a host, drawn from seeds: delegates, good and bad images, and all kinds of faults; and the invariants
//! that hold at every moment and at the end.
//!
//! `make sim SEEDS=1000` plays that many seeds, `SEEDS=a..b` a range, and `SEED=n` prints the whole story of one.

mod answers;
pub mod book;
pub mod director;
mod ending;
mod faults;
pub mod hardships;
mod invariants;
pub mod people;
pub mod random;
mod reports;
pub mod run;
pub mod scenario;
mod serves;
mod timeline;
pub mod upgraders;
pub mod world;
