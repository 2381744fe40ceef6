//! `completion`: scripts that complete the commands and options of the help. They do not complete the names of
//! containers.

use std::fmt::Write as _;

use clap::{CommandFactory as _, ValueEnum};

use super::Cli;

/// A shell with programmable completion.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Shell {
    /// GNU Bash.
    Bash,
    /// Zsh.
    Zsh,
    /// fish.
    Fish,
}

/// The script for a shell to source.
pub fn script(shell: Shell) -> String {
    match shell {
        Shell::Bash => bash(),
        Shell::Zsh => zsh(),
        Shell::Fish => fish(),
    }
}

/// Each command, and each of its synonyms: the name, its line of help, and what may follow.
fn commands() -> Vec<(String, String, Vec<String>)> {
    let mut command = Cli::command();
    // `build` adds the global options to each command.
    command.build();
    let shown = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help");
    let of = |command: &clap::Command| {
        let options = command.get_arguments().filter_map(clap::Arg::get_long);
        let options = options.map(|option| format!("--{option}"));
        let values = command.get_positionals().flat_map(clap::Arg::get_possible_values);
        let words = options.chain(values.map(|value| value.get_name().to_owned()));
        let (words, about) = (words.collect::<Vec<_>>(), command.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        let names = std::iter::once(command.get_name()).chain(command.get_visible_aliases());
        let row = |name: &str| (name.to_owned(), about.clone(), words.clone());
        names.map(row).collect::<Vec<_>>()
    };
    shown.flat_map(of).collect()
}

/// The arms of a `case` on the command, which set `words`.
fn arms(open: &str, close: &str) -> String {
    let mut arms = String::new();
    for (name, _, words) in commands() {
        let _ = writeln!(arms, "{name}) words={open}{}{close} ;;", words.join(" "));
    }
    arms
}

fn bash() -> String {
    let names: Vec<String> = commands().into_iter().map(|(name, ..)| name).collect();
    let (names, arms) = (names.join(" "), arms("\"", "\""));
    format!(
        "_delegate_upgrader() {{\nlocal words=\"{names}\"\nif [ \"$COMP_CWORD\" -gt 1 ]; then\ncase ${{COMP_WORDS[1]}} in\n\
         {arms}esac\nfi\nCOMPREPLY=($(compgen -W \"$words\" -- \"${{COMP_WORDS[COMP_CWORD]}}\"))\n}}\n\
         complete -o default -F _delegate_upgrader delegate-upgrader"
    )
}

/// Zsh can source the script, or autoload it as the function `_delegate-upgrader`.
fn zsh() -> String {
    let mut names = String::new();
    for (name, about, _) in commands() {
        let _ = writeln!(
            names,
            "'{name}:{}'",
            about.replace('\'', "'\\''").replace(':', "\\:")
        );
    }
    let arms = arms("(", ")");
    format!(
        "#compdef delegate-upgrader\n_delegate-upgrader() {{\nlocal -a names words_of\nif (( CURRENT == 2 )); then\n\
         names=(\n{names})\n_describe command names\nelse\ncase ${{words[2]}} in\n{}esac\ncompadd -- $words_of\nfi\n}}\n\
         if [ \"${{funcstack[1]}}\" = _delegate-upgrader ]; then _delegate-upgrader \"$@\"; \
         else compdef _delegate-upgrader delegate-upgrader; fi",
        arms.replace(" words=", " words_of=")
    )
}

fn fish() -> String {
    let name = "complete -c delegate-upgrader";
    let mut script = format!("{name} -f");
    for (command, about, words) in commands() {
        let about = about.replace('\'', "\\'");
        let _ = write!(
            script,
            "\n{name} -n __fish_use_subcommand -a {command} -d '{about}'"
        );
        for word in words {
            let word = word
                .strip_prefix("--")
                .map_or_else(|| format!("-a {word}"), |option| format!("-l {option}"));
            let _ = write!(
                script,
                "\n{name} -n '__fish_seen_subcommand_from {command}' {word}"
            );
        }
    }
    script
}
