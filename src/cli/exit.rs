//! The exit codes of the commands.

/// The result of a command. Its exit code is that of sysexits, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub enum Exit {
    /// Success, or nothing to do.
    Ok = 0,
    /// A delegate could not be served.
    NotServed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The engine, or the daemon, is unreachable.
    Unavailable = 69,
    /// The configuration is wrong.
    Config = 78,
}

impl Exit {
    /// The process's exit code.
    pub fn code(self) -> u8 {
        self as u8
    }
}
