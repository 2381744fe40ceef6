//! The `delegate-upgrader` program. All its code is in the library.

use std::process::ExitCode;

#[cfg(all(no_backtrace, panic = "abort"))]
use no_backtrace as _;

fn main() -> ExitCode {
    ExitCode::from(delegate_upgrader::cli::main().code())
}
