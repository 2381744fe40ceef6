//! Writes the man page and the shell completions of `delegate-upgrader`, from what its help and its documentation are made
//! of: `manual DIRECTORY` writes to `DIRECTORY/man` and `DIRECTORY/completions`.

mod page;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::{Shell, generate_to};
use delegate_upgrader::cli::Cli;

const NAME: &str = "delegate-upgrader";

fn main() -> ExitCode {
    let directory = std::env::args_os().nth(1).unwrap_or_else(|| "target".into());
    match write(Path::new(&directory)) {
        Ok(files) => {
            let lines = files.iter().map(|file| format!("{}\n", file.display()));
            let _ = io::Write::write_all(&mut io::stdout(), lines.collect::<String>().as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let problem = format!("cannot write to {}: {error}\n", directory.display());
            let _ = io::Write::write_all(&mut io::stderr(), problem.as_bytes());
            ExitCode::FAILURE
        }
    }
}

/// Writes all files below a directory, and returns their paths.
fn write(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let (man, completions) = (directory.join("man"), directory.join("completions"));
    std::fs::create_dir_all(&man)?;
    std::fs::create_dir_all(&completions)?;
    let mut files = vec![man.join(format!("{NAME}.1"))];
    std::fs::write(&files[0], page::text(Cli::command())?)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        files.push(generate_to(shell, &mut Cli::command(), NAME, &completions)?);
    }
    Ok(files)
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    fn written() -> (tempfile::TempDir, Vec<PathBuf>) {
        let directory = tempfile::tempdir().unwrap();
        let files = write(directory.path()).unwrap();
        (directory, files)
    }

    #[test]
    fn each_shell_completes_each_command_and_its_options() {
        let (_directory, files) = written();
        let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap()).collect();
        assert_eq!(
            names,
            [
                "delegate-upgrader.1",
                "delegate-upgrader.bash",
                "_delegate-upgrader",
                "delegate-upgrader.fish"
            ]
        );
        for file in &files {
            let text = fs::read_to_string(file).unwrap();
            for command in Cli::command()
                .get_subcommands()
                .filter(|command| !command.is_hide_set())
            {
                assert!(
                    text.contains(command.get_name()),
                    "{command} in {}",
                    file.display()
                );
            }
            assert!(text.contains("watch"), "{}", file.display());
        }
    }

    #[test]
    fn bash_completes_commands_and_their_options() {
        let (_directory, files) = written();
        for (words, expected) in [
            ("delegate-upgrader roll", "rollback"),
            ("delegate-upgrader rollback --t", "--to"),
            ("delegate-upgrader status --wa", "--watch"),
        ] {
            let script = r#"source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
                $(complete -p "$1" | sed 's/.*-F \([^ ]*\).*/\1/') "$1" "${@: -1}" "${@: -2:1}"; echo "${COMPREPLY[@]}""#;
            let bash = Command::new("bash")
                .args(["-c", script])
                .arg(&files[1])
                .args(words.split(' '))
                .output();
            let output = bash.unwrap();
            let found = String::from_utf8(output.stdout).unwrap();
            assert_eq!(found.trim(), expected, "{words}");
        }
    }

    /// As a reader sees it, without the marks for bold.
    fn rendered(file: &Path) -> Option<String> {
        let man = Command::new("man")
            .args(["--encoding=utf8", "--warnings", "-l"])
            .arg(file)
            .env("MANWIDTH", "120")
            .env("MAN_KEEP_FORMATTING", "")
            .output()
            .ok()?;
        let problems = String::from_utf8_lossy(&man.stderr);
        assert!(man.status.success() && problems.is_empty(), "{problems}");
        Some(String::from_utf8(man.stdout).unwrap())
    }

    #[test]
    fn the_man_page_has_the_commands_the_exit_codes_and_the_variables() {
        let (_directory, files) = written();
        let source = fs::read_to_string(&files[0]).unwrap();
        let sections: Vec<&str> = source
            .lines()
            .filter_map(|line| line.strip_prefix(".SH "))
            .map(|name| name.trim_matches('"'))
            .collect();
        let expected = [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "COMMANDS",
            "OPTIONS",
            "EXIT STATUS",
            "ENVIRONMENT",
            "FILES",
        ];
        assert_eq!(sections, expected);
        assert!(
            !source.contains("](") && !source.contains('`'),
            "no Markdown: {source}"
        );
        let Some(page) = rendered(&files[0]) else {
            return;
        };
        for variable in delegate_upgrader::config::variables() {
            assert!(page.contains(variable.name), "{}", variable.name);
        }
        for code in ["0", "1", "2", "69", "78"] {
            let begins = |line: &str| line.split_whitespace().next() == Some(code);
            assert!(page.lines().any(begins), "{code}: {page}");
        }
        for words in [
            "rollback CONTAINER",
            "status CONTAINER [--watch] [--check]",
            "Default: 1h",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
    }
}
