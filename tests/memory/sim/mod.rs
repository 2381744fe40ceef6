//! Whole lives of a host, drawn from seeds: delegates, images good and bad, and everything that goes wrong; what must
//! hold at every moment, and at the end.
//!
//! `make sim SEEDS=1000` plays that many seeds, `SEEDS=a..b` a range, and `SEED=n` prints the whole story of one.

mod at_once;
mod book;
mod claims;
mod claims_ends;
mod director;
mod ending;
mod excuses;
mod faults;
mod judge;
mod moments;
mod people;
mod random;
mod run;
mod scenario;
mod situation;
mod standing;
mod upgraders;
mod world;
