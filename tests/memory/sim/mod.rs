//! Whole lives of a host, drawn from seeds: delegates, images good and bad, and everything that goes wrong; what must
//! hold at every moment, and at the end.
//!
//! `make sim SEEDS=1000` plays as many, `SEEDS=a..b` those, and `SEED=n` tells the whole story of one.

mod book;
mod director;
mod ending;
mod excuses;
mod faults;
mod judge;
mod moments;
mod random;
mod run;
mod scenario;
mod upgraders;
mod world;
