//! Text in and out: durations, secrets, what of foreign text may be shown.

pub mod duration;
pub mod redact;
pub mod secret;
