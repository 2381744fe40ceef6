//! Text in and out: durations, times, secrets, and how much of foreign text may be shown.

pub mod duration;
pub mod redact;
pub mod secret;
pub mod time;
