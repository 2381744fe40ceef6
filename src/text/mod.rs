//! Text in and out: durations, times, sizes, secrets, and text from outside.

pub mod duration;
mod one_line;
pub mod redact;
pub mod secret;
pub mod size;
pub mod time;

pub(crate) use one_line::shortened;
pub use one_line::{one_line, quoted};
