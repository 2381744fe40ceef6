//! Every command that a page shows is run by a test or a script, or there is a reason why not; and each is one that the
//! program that it runs would take.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use clap::Parser as _;
use clap::error::ErrorKind;
use delegate_upgrader::cli::Cli;
use kit::commands::{assignment, blocks, is_program, is_script, words};
use kit::page;

use crate::links::{pages, root};

/// What becomes of a command.
enum Fate {
    /// It is run as it is shown, by this.
    Run(&'static str),
    /// The same is run, in other words or with other values, by this.
    Like(&'static str),
    /// It is only parsed, for this reason.
    Parsed(&'static str),
}
use Fate::{Like, Parsed, Run};

const BY_TIME: &str = "it takes minutes to hours";
const SCHEDULED: &str = "`.ci/run`";
const RELEASED: &str = "`make test-all`";

/// The pages and how their commands begin; the first rule counts.
#[rustfmt::skip]
const FATES: &[(&str, &str, Fate)] = &[
    ("README.md", "docker run", Run("`engine` `readme_command::`")),
    ("README.md", "docker build", Like("`tests/lab/newcomer`, with a base that it makes instead of pulling it")),
    ("README.md", "delegate-upgrader plan", Like("`engine` `health_only::a_plan_reads_and_says_why`")),
    ("README.md", "make test-all", Run("itself, before a release")),
    ("README.md", "make test", Run(SCHEDULED)),
    ("README.md", "make demo", Run(SCHEDULED)),
    ("air-gapped.md", "", Run("`engine` `air_gapped::every_command_of_the_page_is_one_that_the_script_runs_in_the_same_order`")),
    ("audit-log.md", "docker run", Parsed("a part of a command")),
    ("audit-log.md", "delegate-upgrader", Like("`engine` `operator::`")),
    ("commands.md", "delegate-upgrader --help", Run("`--lib` `cli::tests`")),
    ("commands.md", "delegate-upgrader pause", Like("`engine` `pauses::`")),
    ("commands.md", "delegate-upgrader resume", Like("`engine` `pauses::`")),
    ("commands.md", "", Like("`engine` `operator::`, `engine` `doctor::`; the shown output is an example")),
    ("compose.md", "docker compose up", Like("`engine` `ways::the_compose_file_upgrades_its_delegates_and_leaves_them_alone_afterwards`, with `direct.yml`")),
    ("compose.md", "", Like("`engine` `ways::`, with variables of the environment instead of `.env`")),
    ("configuration.md", "ACCOUNT_ID=…", Run("`pure` `commands::a_wrong_configuration_prints_what_the_page_shows`")),
    ("configuration.md", "openssl req", Run("`clients` `manager::own_certificate::`")),
    ("configuration.md", "openssl s_client", Parsed("it asks a server of yours")),
    ("install.md", "git checkout", Parsed("there is no release yet")),
    ("install.md", "make release", Like("`tests/lab/release`, for amd64 alone")),
    ("install.md", "diff", Parsed("there is no release yet")),
    ("install.md", "sha256sum", Run("`tests/lab/release`")),
    ("install.md", "jq", Run("`tests/lab/release`")),
    ("install.md", "tar", Run("`tests/lab/release`")),
    ("install.md", "cd", Run("`tests/lab/release`")),
    ("install.md", "apt install ./", Like("`tests/lab/packages`, with dpkg, which apt runs")),
    ("install.md", "dnf install", Parsed("there is no dnf on Debian; `tests/lab/packages` installs the .rpm with rpm")),
    ("install.md", "systemctl edit", Parsed("it opens an editor")),
    ("install.md", "editor", Parsed("it opens an editor")),
    ("install.md", "ENVIRONMENT_FILE=", Like("`engine` `systemd::`, whose service reads such a file")),
    ("install.md", "systemctl enable --now", Like("`tests/lab/packages`")),
    ("install.md", "docker build", Like("`tests/lab/newcomer`")),
    ("install.md", "make static", Run(SCHEDULED)),
    ("install.md", "make deb", Run(SCHEDULED)),
    ("install.md", "rustup target add", Parsed("`make release` does it where it is needed")),
    ("install.md", "apt install gcc", Parsed("`make release` does it where it is needed")),
    ("migrate.md", "", Like("`engine` `health_only::a_plan_reads_and_says_why`")),
    ("private-registries.md", "make demo", Like("`engine` `private_registry::`")),
    ("replacement.md", "", Like("`engine` `operator::`")),
    ("run.md", "podman build", Parsed("it pulls its base; `engine` `quadlet::` loads an image that is made of the binary")),
    ("run.md", "podman secret", Like("`engine` `quadlet::`")),
    ("run.md", "systemctl", Like("`engine` `quadlet::`")),
    ("run.md", "install -D", Like("`engine` `quadlet::`")),
    ("run.md", "", Like("`engine` `ways::the_hardened_docker_run_upgrades_a_delegate`, with the same script")),
    ("kubernetes.md", "", Run("`kubernetes` `cluster::page::`, with `make kubernetes`")),
    ("swarm.md", "", Run("`engine` `swarm::page::the_commands_of_the_page_do_what_it_says`")),
    ("systemd.md", "systemctl reload", Like("`engine` `systemd::`")),
    ("systemd.md", "", Like("`tests/lab/systemd`, into the root of another systemd")),
    ("try.md", "", Run("`tests/lab/newcomer`")),
    ("troubleshooting.md", "docker ps", Run("`engine` `readme_command::`")),
    ("troubleshooting.md", "docker", Like("`engine` `failures::`")),
    ("troubleshooting.md", "", Like("`engine` `doctor::`, `engine` `reporting::`")),
    ("footprint.md", "", Like("`.ci/run`, stripped; the sizes are for your eyes")),
    ("fidelity.md", "", Parsed("Podman is not in CI")),
    ("testing.md", "make test-all", Run("itself, before a release")),
    ("testing.md", "make test", Run(SCHEDULED)),
    ("testing.md", "make check", Like("`.ci/run`, in whole")),
    ("testing.md", "make packages", Run(SCHEDULED)),
    ("testing.md", "make book", Run(RELEASED)),
    ("testing.md", "make fidelity", Run(SCHEDULED)),
    ("testing.md", "make newcomer", Run(RELEASED)),
    ("testing.md", "make kubernetes", Run(RELEASED)),
    ("testing.md", ".ci/run", Run("itself")),
    ("testing.md", "make", Parsed(BY_TIME)),
    ("testing.md", "cargo test", Like("`.ci/run`, all tests at once")),
    ("testing.md", "cargo run", Like("`engine` `local_manager::`")),
    ("testing.md", "cargo fuzz", Parsed("it needs a finding")),
    ("testing.md", "tests/lab/images", Like("`make test`, with other versions")),
    ("testing.md", "tests/lab/run", Like("`make test`, all tests at once")),
    ("testing.md", "echo", Like("`engine` `restarts::`")),
    ("testing.md", "kill", Like("`engine` `restarts::`")),
    ("testing.md", "\"$LAB_DIR", Like("`engine` `restarts::`")),
    ("testing.md", "git diff", Parsed("it is for your eyes")),
    ("testing.md", "UPDATE_GOLDEN", Parsed("it rewrites files of the repository")),
    ("testing.md", "LAB_ENGINE", Parsed("CI has one engine, that of its machine")),
    ("testing.md", "", Parsed(BY_TIME)),
];

/// The pages whose commands count: by name and text.
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
    let mut found = Vec::new();
    for (page, text) in shown() {
        for block in blocks(&text) {
            found.extend(
                block
                    .commands()
                    .into_iter()
                    .map(|command| (page.clone(), command)),
            );
        }
    }
    found
}

/// The rule for a command.
fn rule(page: &str, command: &str) -> Option<usize> {
    FATES
        .iter()
        .position(|(of, begin, _)| page.ends_with(of) && command.starts_with(begin))
}

#[test]
fn every_command_of_a_page_is_run_or_there_is_a_reason_why_not() {
    let mut used = BTreeSet::new();
    let commands = commands();
    for (page, command) in &commands {
        let rule = rule(page, command).unwrap_or_else(|| panic!("{page}: who runs this?\n{command}"));
        used.insert(rule);
    }
    for (at, (page, begin, _)) in FATES.iter().enumerate() {
        assert!(
            used.contains(&at),
            "{page} shows no `{begin}…` that this rule is for"
        );
    }
    assert!(commands.len() > 120, "{}", commands.len());
}

/// A script that runs what a page shows has the same lines, in the same order.
#[test]
fn a_script_that_runs_commands_of_a_page_has_them_in_its_lines() {
    let script = fs::read_to_string(root().join("tests/lab/release")).unwrap();
    let mut left = script.lines();
    let mut found = 0;
    for (page, command) in commands() {
        if rule(&page, &command).is_some_and(|at| matches!(FATES[at].2, Run("`tests/lab/release`"))) {
            assert!(left.any(|line| line == command), "{page}: {command}");
            found += 1;
        }
    }
    assert_eq!(found, 5);
}

#[test]
fn the_page_on_testing_says_what_is_run() {
    let mut table = String::from("| page | commands | run | by, or why not |\n|---|---|---|---|\n");
    for (page, begin, fate) in FATES {
        let commands = match *begin {
            "" => "all others".to_owned(),
            begin => format!("`{}`", begin.trim_matches('"')),
        };
        let (run, words) = match fate {
            Run(by) => ("yes", by),
            Like(by) => ("the like", by),
            Parsed(why) => ("no", why),
        };
        let _ = writeln!(table, "| {page} | {commands} | {run} | {words} |");
    }
    page::has("docs/development/testing.md", "commands", &table);
}

/// A block that is neither commands nor known data may be a command that nobody checks.
#[test]
fn whatever_is_no_command_is_known_data() {
    #[rustfmt::skip]
    let begins = [
        "{", "INFO ", "  INFO ", "FAIL ", "  Manager: ", "SCHEDULE: ", "Status: ", "LoadCredential=", "import ", "command:", "",
        "loop {", "(what", "UPGRADER_TOKEN=", "UPGRADE_WINDOW=", "UPGRADE_DELAY=", "[Service]", "--group-add ",
    ];
    for (page, text) in shown() {
        for block in blocks(&text).iter().filter(|block| block.commands().is_empty()) {
            let first = &block.lines[0];
            let is_known = begins.iter().any(|begin| match *begin {
                "" => first.is_empty(),
                begin => first.starts_with(begin),
            });
            assert!(is_known, "{page}:{}: {first}", block.line);
        }
    }
}

/// The variables of docs/usage/configuration.md, which the code writes.
fn variables() -> BTreeSet<String> {
    let page = &pages()[Path::new("docs/usage/configuration.md")];
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split('`').next().unwrap().to_owned())
        .collect()
}

/// Checks of a command what can be checked without running it.
struct Checks {
    variables: BTreeSet<String>,
    makefile: String,
    has_docker: bool,
}

impl Checks {
    fn command(&self, words: &[String]) -> Result<(), String> {
        let (settings, rest) =
            words.split_at(words.iter().take_while(|word| assignment(word).is_some()).count());
        let Some(program) = rest.first() else {
            return Err("it runs nothing".to_owned());
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
        // The command without arguments is the daemon's.
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
            ["compose" | "network" | "service", second, rest @ ..] => (vec![words[0], *second], rest),
            [first, rest @ ..] => (vec![*first], rest),
            [] => return Err("docker alone".to_owned()),
        };
        if name == ["exec"] {
            let at = rest.iter().position(|word| word.starts_with('/'));
            let inner: Vec<String> = rest[at.ok_or("no program")?..]
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
        if name == ["run"] && rest.iter().any(|word| word.starts_with("delegate-upgrader:")) {
            let settings = rest
                .windows(2)
                .filter(|pair| pair[0] == "-e")
                .map(|pair| pair[1].to_owned());
            self.settings(&settings.collect::<Vec<_>>())?;
        }
        if self.has_docker && name[0] != "compose" {
            let help = Command::new("docker").args(&name).arg("--help").output();
            let help = String::from_utf8_lossy(&help.map_err(|error| error.to_string())?.stdout).into_owned();
            if !help.contains("Usage:") {
                return Err(format!("docker has no {}", name.join(" ")));
            }
            let flags = rest.iter().filter(|word| word.starts_with('-'));
            // What comes after the image is for the container.
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

fn cargo(words: &[&str]) -> Result<(), String> {
    if !["test", "run", "fuzz"].contains(&words[0]) {
        return Err(format!("cargo {} is not known", words[0]));
    }
    for pair in words.windows(2) {
        let folders: &[&str] = match pair[0] {
            "--test" => &["tests"],
            _ => continue,
        };
        if !folders
            .iter()
            .any(|folder| root().join(folder).join(pair[1]).is_dir())
        {
            return Err(format!("there is no {}", pair[1]));
        }
    }
    Ok(())
}

#[test]
fn every_command_of_a_page_is_one_that_its_program_takes() {
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
    for (page, command) in commands() {
        let command = command.trim_start_matches("token=$(").trim_end_matches(')');
        let words = words(command);
        let parts = words.split(|word| ["|", "&&"].contains(&word.as_str()));
        // The exit code of the command before.
        for part in parts.filter(|part| *part != ["echo", "$?"]) {
            if let Err(problem) = checks.command(part) {
                wrong.push(format!("{page}: {command}\n  {problem}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wrong_command_is_noticed() {
    let checks = Checks {
        variables: variables(),
        makefile: "\ntest: $(SEEDS)\n".to_owned(),
        has_docker: false,
    };
    for (command, is_right) in [
        ("delegate-upgrader retry NAME", true),
        ("delegate-upgrader retry", false),
        ("delegate-upgrader upgrade NAME", false),
        (
            "docker exec delegate-upgrader /delegate-upgrader plan --jsn",
            false,
        ),
        ("docker run -e SCHEDULE=@hourly delegate-upgrader:latest", true),
        ("docker run -e SHEDULE=@hourly delegate-upgrader:latest", false),
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
fn a_wrong_configuration_prints_what_the_page_shows() {
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
