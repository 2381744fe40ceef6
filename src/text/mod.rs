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

/// Yes or no, as people and YAML write it.
pub fn yes_or_no(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Whether to colour standard output: it is a terminal, and neither `NO_COLOR` (no-color.org) nor `TERM` rules it out.
pub(crate) fn has_colour() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

pub use foreign::Foreign;
pub(crate) use one_line::shortened;
pub use one_line::{one_line, quoted};
