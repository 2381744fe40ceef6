//! The man page: what clap knows of the commands, and what only the documentation has.

use std::io;

use clap::{Arg, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use delegate_upgrader::cli::Exit;
use delegate_upgrader::config;

/// The page as roff.
pub(crate) fn text(command: Command) -> io::Result<Vec<u8>> {
    let (description, commands) = (description(&command), commands(&command));
    let man = Man::new(command).date("").manual("User Commands");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    description.to_writer(&mut page)?;
    commands.to_writer(&mut page)?;
    man.render_options_section(&mut page)?;
    exit_status().to_writer(&mut page)?;
    environment().to_writer(&mut page)?;
    files().to_writer(&mut page)?;
    Ok(page)
}

/// An entry of a list: what it is about in bold, and a text.
fn entry(roff: &mut Roff, about: &str, text: &str) {
    roff.control("TP", []);
    roff.text([bold(about)]);
    roff.text(inline(text));
}

fn description(command: &Command) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["DESCRIPTION"]);
    let about = command.get_long_about().map(ToString::to_string);
    for paragraph in about.unwrap_or_default().split("\n\n") {
        roff.control("PP", []);
        roff.text(inline(paragraph));
    }
    roff
}

fn commands(command: &Command) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["COMMANDS"]);
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        let mut usage = command.get_name().to_owned();
        for argument in command
            .get_arguments()
            .filter(|argument| argument.get_id() != "help")
        {
            match argument.get_long() {
                Some(long) => usage.extend([" [--", long, "]"]),
                None => usage.extend([" ", &argument.get_id().as_str().to_uppercase()]),
            }
        }
        let about = command.get_about().map(ToString::to_string);
        entry(&mut roff, &usage, &format!("{}.", about.unwrap_or_default()));
        let options = command.get_arguments().filter_map(option);
        for text in options {
            roff.control("IP", []);
            roff.text(inline(&text));
        }
    }
    roff
}

/// An option with its help.
fn option(argument: &Arg) -> Option<String> {
    let (long, help) = (argument.get_long()?, argument.get_help()?);
    (long != "help").then(|| format!("`--{long}`: {help}."))
}

fn exit_status() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (exit, meaning) in [
        (Exit::Ok, "Done, or nothing to do. `run`: stopped by a signal."),
        (
            Exit::NotServed,
            "A delegate could not be served (`once`, `plan`, `retry`, `rollback`); a check fails (`doctor`); the daemon is \
             not alive (`healthcheck`).",
        ),
        (
            Exit::Usage,
            "The command line is wrong, or there is no such delegate (`retry`, `rollback`).",
        ),
        (
            Exit::Unavailable,
            "The engine, or the daemon (`status`), is unreachable.",
        ),
        (
            Exit::Config,
            "The configuration is wrong, or `LISTEN_ADDR` is in use (`run`).",
        ),
    ] {
        entry(&mut roff, &exit.code().to_string(), meaning);
    }
    roff
}

fn environment() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["ENVIRONMENT"]);
    for variable in config::variables() {
        let default = match variable.default.text().as_str() {
            "" => String::new(),
            "required" => " Required.".to_owned(),
            default => format!(" Default: {default}."),
        };
        let text = format!("{} Accepted: {}.{default}", variable.help, variable.accepted);
        let name = match variable.file {
            Some(file) => format!("{}, {file}", variable.name),
            None => variable.name.to_owned(),
        };
        entry(&mut roff, &name, &text);
    }
    roff
}

fn files() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["FILES"]);
    for (file, text) in [
        (
            "/var/run/docker.sock",
            "The engine, unless `DOCKER_HOST` names another one.",
        ),
        (
            "$HOME/.docker/config.json",
            "Registry logins, unless `DOCKER_CONFIG` names another directory.",
        ),
    ] {
        entry(&mut roff, file, text);
    }
    roff
}

/// Markdown as roff has it: code is bold, and a link is its text.
fn inline(markdown: &str) -> Vec<Inline> {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once("](") {
        let begin = before.rfind('[').unwrap_or(before.len());
        text.push_str(&before[..begin]);
        text.push_str(before.get(begin + 1..).unwrap_or_default());
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    let parts = text.split('`').enumerate();
    parts
        .map(|(place, part)| if place % 2 == 1 { bold(part) } else { roman(part) })
        .collect()
}
