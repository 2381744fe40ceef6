//! The program behind every command on a page accepts that command.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use clap::Parser as _;
use clap::error::ErrorKind;
use delegate_upgrader::cli::Cli;
use delegate_upgrader::config;
use kit::commands::{assignment, blocks, is_program, is_script, words};

use crate::links::{pages, root};

/// The pages whose commands are checked, by name and text.
fn shown() -> Vec<(String, String)> {
    let is_ours = |page: &Path| {
        ["README.md", "docs/usage", "docs/development"]
            .iter()
            .any(|begin| page.starts_with(begin))
    };
    let pages = pages().into_iter().filter(|(page, _)| is_ours(page));
    pages
        .map(|(page, text)| (page.to_string_lossy().into_owned(), text))
        .collect()
}

/// Every command, with its page.
fn commands() -> Vec<(String, String)> {
    let of_page = |(page, text): (String, String)| {
        let commands = blocks(&text).into_iter().flat_map(|block| block.commands());
        commands
            .map(|command| (page.clone(), command))
            .collect::<Vec<_>>()
    };
    shown().into_iter().flat_map(of_page).collect()
}

/// Every variable, including those that name a secret's file.
fn variables() -> BTreeSet<String> {
    let names = config::variables().flat_map(|row| [Some(row.name), row.file]);
    names.flatten().map(str::to_owned).collect()
}

/// Checks everything about a command that needs no run.
struct Checks {
    variables: BTreeSet<String>,
    makefile: String,
    has_docker: bool,
}

impl Checks {
    fn command(&self, words: &[String]) -> Result<(), String> {
        let (settings, rest) =
            words.split_at(words.iter().take_while(|word| assignment(word).is_some()).count());
        // A line that only sets variables of the shell.
        let Some(program) = rest.first() else {
            return Ok(());
        };
        let words: Vec<&str> = rest.iter().map(String::as_str).collect();
        match program.trim_start_matches('/') {
            "delegate-upgrader" => {
                self.settings(settings)?;
                Self::upgrader(&words)
            }
            "make" => self.make(&words[1..]),
            "cargo" => cargo(&words[1..]),
            "docker" => self.docker(&words[1..]),
            script if is_script(script) => self.script(&words),
            program if is_program(program) => Ok(()),
            other => Err(format!("{other} is not known")),
        }
    }

    /// Variables of the upgrader. One is misspelt on purpose, to show the hint.
    fn settings(&self, words: &[String]) -> Result<(), String> {
        let names = words.iter().filter_map(|word| assignment(word));
        let mut unknown = names.filter(|(name, _)| !self.variables.contains(*name));
        match unknown.find(|(name, _)| *name != "UPGRADER_WORKLOADNAME") {
            Some((name, _)) => Err(format!("the variable {name} is not known")),
            None => Ok(()),
        }
    }

    fn upgrader(words: &[&str]) -> Result<(), String> {
        // Without arguments, the command is the daemon.
        match Cli::try_parse_from(words) {
            Err(error) if error.kind() != ErrorKind::DisplayHelp => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    fn make(&self, words: &[&str]) -> Result<(), String> {
        for word in words.iter().filter(|word| **word != "…") {
            let is_there = match assignment(word) {
                Some((name, _)) => self.makefile.contains(&format!("({name}")),
                None => self.makefile.contains(&format!("\n{word}:")),
            };
            if !is_there {
                return Err(format!("the Makefile has no {word}"));
            }
        }
        Ok(())
    }

    fn docker(&self, words: &[&str]) -> Result<(), String> {
        let (name, rest) = match words {
            ["compose" | "network" | "service" | "volume", second, rest @ ..] => {
                (vec![words[0], *second], rest)
            }
            [first, rest @ ..] => (vec![*first], rest),
            [] => return Err("docker alone".to_owned()),
        };
        if name == ["exec"] {
            let inner: Vec<String> = rest[program_in_container(rest).ok_or("no program")?..]
                .iter()
                .map(|word| (*word).to_owned())
                .collect();
            // The local Manager has tests of its own for its command line.
            return if inner[0] == "/manager" {
                Ok(())
            } else {
                self.command(&inner)
            };
        }
        let image = rest.iter().position(|word| is_upgrader_image(word));
        if name == ["run"] && image.is_some() {
            let settings = rest
                .windows(2)
                .filter(|pair| ["-e", "--env"].contains(&pair[0]))
                .map(|pair| pair[1].to_owned());
            self.settings(&settings.collect::<Vec<_>>())?;
            let arguments = &rest[image.unwrap_or_default() + 1..];
            Self::upgrader(&[&["delegate-upgrader"], arguments].concat())?;
        }
        if self.has_docker && name[0] != "compose" {
            let help = Command::new("docker").args(&name).arg("--help").output();
            let help = String::from_utf8_lossy(&help.map_err(|error| error.to_string())?.stdout).into_owned();
            if !help.contains("Usage:") {
                return Err(format!("docker has no {}", name.join(" ")));
            }
            // Everything after the image is for the container.
            let options = &rest[..image.unwrap_or(rest.len())];
            let flags = options.iter().filter(|word| word.starts_with('-'));
            let flags = flags
                .take_while(|word| **word != "--listen")
                .map(|word| word.split('=').next().unwrap());
            for flag in flags {
                let is_there = help.split([' ', ',', '\n']).any(|word| word == flag);
                if !is_there {
                    return Err(format!("docker {} has no {flag}", name.join(" ")));
                }
            }
        }
        Ok(())
    }

    fn script(&self, words: &[&str]) -> Result<(), String> {
        let script = words[0];
        if script.starts_with("$LAB_DIR") {
            return Ok(());
        }
        let file = fs::metadata(root().join(script)).map_err(|error| format!("{script}: {error}"))?;
        if file.permissions().mode() & 0o100 == 0 {
            return Err(format!("{script} cannot be executed"));
        }
        let inner: Vec<String> = words[1..].iter().map(|word| (*word).to_owned()).collect();
        if script == "tests/lab/run" && inner[0] != "bash" {
            return self.command(&inner);
        }
        Ok(())
    }
}

/// Whether a word of a `docker run` is the upgrader's image.
fn is_upgrader_image(word: &str) -> bool {
    word.starts_with("delegate-upgrader:") || word == "$IMAGE"
}

/// The index of the program in the words of a `docker exec`: the first path, or the upgrader's name after the container's.
fn program_in_container(words: &[&str]) -> Option<usize> {
    let path = words.iter().position(|word| word.starts_with('/'));
    let by_name = || {
        let at = words.iter().rposition(|word| *word == "delegate-upgrader")?;
        let container = words.get(at.checked_sub(1)?)?;
        (!container.starts_with('-') && assignment(container).is_none()).then_some(at)
    };
    path.or_else(by_name)
}

fn cargo(words: &[&str]) -> Result<(), String> {
    if !["test", "run", "fuzz"].contains(&words[0]) {
        return Err(format!("cargo {} is not known", words[0]));
    }
    let mut tests = words.windows(2).filter(|pair| pair[0] == "--test");
    match tests.find(|pair| !root().join("tests").join(pair[1]).is_dir()) {
        Some(pair) => Err(format!("there is no {}", pair[1])),
        None => Ok(()),
    }
}

#[test]
fn every_documented_command_is_valid() {
    let checks = Checks {
        variables: variables(),
        makefile: format!("\n{}", fs::read_to_string(root().join("Makefile")).unwrap()),
        has_docker: Command::new("docker").arg("--version").output().is_ok(),
    };
    assert!(checks.variables.len() > 50, "{:?}", checks.variables);
    if !checks.has_docker {
        println!("docker is not installed: its options are not checked");
    }
    let mut wrong = Vec::new();
    let commands = commands();
    assert!(commands.len() > 120, "{}", commands.len());
    for (page, command) in commands {
        let command = command.trim_start_matches("token=$(").trim_end_matches(')');
        let words = words(command);
        let parts = words.split(|word| ["|", "&&"].contains(&word.as_str()));
        // This prints the exit code of the previous command.
        for part in parts.filter(|part| *part != ["echo", "$?"]) {
            if let Err(problem) = checks.command(part) {
                wrong.push(format!("{page}: {command}\n  {problem}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_production_page_shows_at_most_fifteen_commands() {
    let mut commands = commands();
    commands.retain(|(page, _)| page == "docs/usage/production.md");
    assert!((8..=15).contains(&commands.len()), "{commands:?}");
}

#[test]
#[rustfmt::skip]
fn a_wrong_command_is_noticed() {
    let checks = Checks {
        variables: variables(),
        makefile: "\ntest: $(SEEDS)\n".to_owned(),
        has_docker: false,
    };
    for (command, is_right) in [
        ("delegate-upgrader retry NAME", true),
        ("delegate-upgrader retry", false),
        ("delegate-upgrader upgrades NAME", false),
        ("docker exec delegate-upgrader /delegate-upgrader plan --jsn", false),
        ("docker exec delegate-upgrader delegate-upgrader plan", true),
        ("docker exec delegate-upgrader delegate-upgrader plans", false),
        ("docker exec --env TZ=UTC delegate-upgrader plan", false),
        ("docker run -e SCHEDULE=@hourly delegate-upgrader:latest", true),
        ("docker run -e SHEDULE=@hourly delegate-upgrader:latest", false),
        ("docker run --rm delegate-upgrader:latest plan", true),
        ("docker run --rm delegate-upgrader:latest plans", false),
        ("LOG_LEVEL=debug delegate-upgrader once", true),
        ("LOGLEVEL=debug delegate-upgrader once", false),
        ("make test SEEDS=1", true),
        ("make tests", false),
        ("make test SEDS=1", false),
        ("tests/lab/run cargo test --test engine doctor::", true),
        ("tests/lab/runs cargo test", false),
        ("tests/lab/run cargo test --test machine", false),
        ("frobnicate", false),
    ] {
        assert_eq!(checks.command(&words(command)).is_ok(), is_right, "{command}");
    }
}

#[test]
fn wrong_configuration_prints_the_documented_errors() {
    let page = &pages()[Path::new("docs/usage/configuration.md")];
    let (_, section) = page.split_once("\n## Configuration errors\n").unwrap();
    let block = blocks(section).remove(0);
    let [command] = &block.commands()[..] else {
        panic!("one command: {block:?}")
    };
    let bin = Path::new(env!("CARGO_BIN_EXE_delegate-upgrader"))
        .parent()
        .unwrap();
    let ran = Command::new("/bin/sh")
        .args(["-c", command])
        .env_clear()
        .env("PATH", bin)
        .output()
        .unwrap();
    let shown: Vec<&str> = block.lines.iter().skip(2).map(String::as_str).collect();
    let printed = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(
        printed.trim_end().lines().collect::<Vec<_>>(),
        shown.join("\n").trim_end().lines().collect::<Vec<_>>()
    );
    assert_eq!(ran.status.code(), Some(78));
}
