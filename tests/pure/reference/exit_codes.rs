//! `docs/reference/exit-codes.md`: the meaning of each exit code for each command.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::CommandFactory as _;
use delegate_upgrader::cli::{Cli, Exit};
use kit::page;
use strum::VariantArray as _;

const PAGE: &str = "docs/reference/exit-codes.md";

/// The meaning of an exit code, and where the pages say what to do.
#[rustfmt::skip]
pub(super) fn words(exit: Exit) -> (&'static str, &'static str) {
    match exit {
        Exit::Ok => ("done, or nothing to do", ""),
        Exit::NotServed => ("a delegate could not be served, or a check fails", "its line has [the reason](reasons.md)"),
        Exit::Usage => ("the command line is wrong, or names an unknown delegate or release", "the message lists what there is; [commands](../usage/commands.md)"),
        Exit::Unavailable => (
            "the engine, or the daemon that was asked, is unreachable",
            "[the engine cannot be reached](../usage/troubleshooting.md#the-engine-cannot-be-reached)",
        ),
        Exit::Config => ("the configuration is wrong", "the message names each problem and what is accepted; [configuration](../usage/configuration.md)"),
    }
}

/// Commands, and the meaning of each of their exit codes, in the order of the codes.
#[rustfmt::skip]
const COMMANDS: &[(&[&str], [&str; 5])] = &[
    (&["run"], ["stopped by a signal", "", "wrong command line", "it cannot start at all", "wrong configuration, or `LISTEN_ADDR` is in use"]),
    (&["once"], ["done, or nothing to do", "a delegate could not be served, or the run was interrupted", "wrong command line", "the engine is unreachable", "wrong configuration"]),
    (&["plan"], ["each delegate could be served", "a delegate could not be served", "wrong command line, or no such delegate", "the engine is unreachable", "wrong configuration"]),
    (&["retry", "rollback"], ["the delegate runs the requested image", "it does not, the request was refused, or it was interrupted; the output says why", "wrong command line, or no such delegate or release", "the engine is unreachable", "wrong configuration, or `DISABLE_AUTO_UPGRADE=true`"]),
    (&["reconfigure"], ["the delegates have the settings", "one has not, the request was refused, or it was interrupted; the output says why", "wrong command line, or no such delegate", "the engine is unreachable", "wrong configuration, or `DISABLE_AUTO_UPGRADE=true`"]),
    (&["pause", "resume"], ["done", "", "wrong command line, or `--until` cannot be read or is in the past, or `--for` cannot be read", "the engine is unreachable or refuses it", "wrong configuration, or `DISABLE_AUTO_UPGRADE=true`"]),
    (&["history"], ["printed", "", "wrong command line, or a delegate that neither the host nor the audit log knows", "the engine is unreachable", "wrong configuration"]),
    (&["status"], ["answered; with `--check`, all are healthy, none failed and all is delivered", "with `--check`, one is not", "wrong command line", "the daemon is unreachable", "wrong `LISTEN_ADDR`"]),
    (&["doctor"], ["no check fails", "a check fails, also if the engine is unreachable", "wrong command line", "the output is closed", "wrong configuration"]),
    (&["config"], ["printed", "", "wrong command line", "the output is closed", "wrong configuration, a file for `AUDIT_LOG` that cannot be written, or `LISTEN_ADDR` is in use"]),
    (&["notify"], ["each receiver accepted the test event", "a receiver did not; the output says why", "wrong command line", "the output is closed", "wrong configuration, or no receiver is set"]),
    (&["explain"], ["printed", "", "wrong command line, or no such word", "the output is closed", ""]),
    (&["version"], ["printed", "", "wrong command line", "the output is closed", ""]),
    (&["healthcheck"], ["alive", "no answer, or a wrong one", "wrong command line", "", ""]),
];

#[test]
fn the_page_has_every_exit_code() {
    let mut table = String::from("| code | meaning | what to do |\n|---|---|---|\n");
    for exit in Exit::VARIANTS {
        let (meaning, action) = words(*exit);
        let _ = writeln!(table, "| {} | {meaning} | {action} |", exit.code());
    }
    page::has(PAGE, "codes", &table);
}

#[test]
fn the_page_has_the_exit_codes_of_every_command() {
    let listed: BTreeSet<&str> = COMMANDS.iter().flat_map(|(names, _)| *names).copied().collect();
    let cli = Cli::command();
    // A hidden command only says where to find the real one.
    let shown = cli.get_subcommands().filter(|command| !command.is_hide_set());
    let known: BTreeSet<&str> = shown.map(clap::Command::get_name).collect();
    assert_eq!(listed, known);
    let codes: Vec<u8> = Exit::VARIANTS.iter().map(|exit| exit.code()).collect();
    let head: Vec<String> = codes.iter().map(u8::to_string).collect();
    let mut table = format!(
        "| command | {} |\n|---{}|\n",
        head.join(" | "),
        "|---".repeat(codes.len())
    );
    for (names, meanings) in COMMANDS {
        let names = super::as_code(names.iter().copied());
        let _ = writeln!(table, "| {names} | {} |", meanings.join(" | "));
    }
    page::has(PAGE, "commands", &table);
}
