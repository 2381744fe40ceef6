//! Text in and out: durations, times, secrets, and text from outside.

pub mod duration;
mod one_line;
pub mod redact;
pub mod secret;
pub mod time;

pub(crate) use one_line::{one_line, quoted};
