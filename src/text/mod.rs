//! Reading and writing text: durations, times, sizes, secrets, and text from outside.

pub mod duration;
pub mod foreign;
pub mod json;
mod one_line;
pub mod redact;
pub mod secret;
pub mod size;
pub mod time;

use std::io::{IsTerminal as _, stdout};

/// Whether standard output has colour: it is a terminal, `NO_COLOR` (no-color.org) is not set, and `TERM` is not `dumb`.
pub(crate) fn has_colour() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

pub use foreign::Foreign;
pub(crate) use one_line::shortened;
pub use one_line::{one_line, quoted};
