//! The `delegate-upgrader` program. All its code is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(delegate_upgrader::cli::main().code())
}
