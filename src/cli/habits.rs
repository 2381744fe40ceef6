//! Commands and options of other tools that people type out of habit, and words in the wrong place.

use clap::error::{ContextKind, ErrorKind};

/// The words to type instead of a command, an option or a word that this command line has no place for.
pub(super) fn habit(error: &clap::Error) -> Option<String> {
    let kind = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return None,
    };
    let given = error.get(kind)?.to_string();
    let usage = error.get(ContextKind::Usage).map(ToString::to_string);
    let mut words = usage.as_deref().unwrap_or_default().split(' ').skip(2);
    let command = words.next().filter(|_| kind == ContextKind::InvalidArg);
    let is_option = given.starts_with('-');
    Some(
        match (command.unwrap_or_default(), given.trim_start_matches('-')) {
            ("rollback", word) if !is_option => format!("--to {word}"),
            ("pause", word) if !is_option => format!("--for {word}"),
            ("run" | "once", word) if !is_option => format!("delegate-upgrader retry {word}"),
            ("doctor", word) if !is_option => format!("delegate-upgrader plan {word}"),
            ("retry", "all") => "delegate-upgrader once".to_owned(),
            (command @ ("pause" | "resume" | "plan" | "history" | "status"), "all") => {
                format!("delegate-upgrader {command}")
            }
            (_, word) => known(word)?.to_owned(),
        },
    )
}

fn known(word: &str) -> Option<&'static str> {
    Some(match word {
        "list" | "ls" | "ps" | "inspect" | "show" | "info" => "delegate-upgrader status",
        "watch" | "follow" | "f" => "delegate-upgrader status --watch",
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
        "delete" | "remove" | "rm" => "docker rm",
        "kill" => "docker kill",
        "restart" => "docker restart",
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
    fn mistaken_words_get_right_ones() {
        for (given, meant) in [
            ("ps", Some("delegate-upgrader status")),
            ("once --dry-run", Some("delegate-upgrader plan")),
            ("plan --watch", Some("delegate-upgrader status --watch")),
            ("delete d1", Some("docker rm")),
            ("restart d1", Some("docker restart")),
            ("rollback d1 26.02.1", Some("--to 26.02.1")),
            ("pause d1 8h", Some("--for 8h")),
            ("once d1", Some("delegate-upgrader retry d1")),
            ("--json doctor d1", Some("delegate-upgrader plan d1")),
            ("retry --all", Some("delegate-upgrader once")),
            ("resume --all", Some("delegate-upgrader resume")),
            ("retry d1 d2", None),
            ("plam", None),
            ("status x --watch", None),
        ] {
            let line = format!("u {given}");
            let error = Cli::try_parse_from(line.split(' ')).unwrap_err();
            assert_eq!(habit(&error).as_deref(), meant, "{given}");
        }
    }
}
