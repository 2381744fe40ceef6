//! Commands and options of other tools that people type out of habit.

use clap::error::{ContextKind, ErrorKind};

/// The command to type instead of one, or of an option, known from another tool.
pub(super) fn habit(error: &clap::Error) -> Option<&'static str> {
    let given = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return None,
    };
    Some(match error.get(given)?.to_string().trim_start_matches('-') {
        "list" | "ls" | "ps" | "inspect" | "show" | "info" => "delegate-upgrader status",
        "check" | "test" | "validate" => "delegate-upgrader doctor",
        "dry-run" | "diff" | "preview" => "delegate-upgrader plan",
        "start" | "up" | "serve" | "daemon" => "delegate-upgrader run",
        "once" | "run-once" => "delegate-upgrader once",
        "update" => "delegate-upgrader retry",
        "revert" | "undo" | "downgrade" => "delegate-upgrader rollback",
        "stop" | "disable" => "delegate-upgrader pause",
        "unpause" | "enable" | "continue" => "delegate-upgrader resume",
        "events" | "audit" | "who" => "delegate-upgrader history",
        "env" | "settings" => "delegate-upgrader config",
        "logs" => "docker logs",
        "v" | "verbose" | "debug" => "LOG_LEVEL=debug",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn a_command_of_another_tool_gets_the_right_one() {
        let of = |words: &str| habit(&Cli::try_parse_from(words.split(' ')).unwrap_err());
        let meant = ["u ps", "u once --dry-run", "u plam", "u status x --watch"].map(of);
        assert_eq!(
            meant,
            [
                Some("delegate-upgrader status"),
                Some("delegate-upgrader plan"),
                None,
                None
            ]
        );
    }
}
