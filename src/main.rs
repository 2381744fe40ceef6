//! The `delegate-upgrader` program: see the library for everything.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(delegate_upgrader::cli::main().code())
}
