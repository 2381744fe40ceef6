//! The exit codes of the commands.

/// The result of a command. Its exit code is that of sysexits, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub enum Exit {
    /// Success, or nothing to do.
    Ok,
    /// A delegate could not be served.
    NotServed,
    /// The command line is wrong.
    Usage,
    /// The engine, or the daemon, is unreachable.
    Unavailable,
    /// The configuration is wrong.
    Config,
}

impl Exit {
    /// The process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::NotServed => 1,
            Self::Usage => 2,
            Self::Unavailable => 69,
            Self::Config => 78,
        }
    }
}
