//! The commands that the pages show.

/// A block of code on a page.
#[derive(Debug)]
pub struct Block {
    /// The number of its first line on the page, starting at 1.
    pub line: usize,
    /// Its lines, without the indentation.
    pub lines: Vec<String>,
}

/// The programs with which a block of commands begins. Any other block is data: output, JSON, a file.
const PROGRAMS: [&str; 29] = [
    "ansible",
    "ansible-playbook",
    "apt",
    "cargo",
    "cd",
    "cp",
    "delegate-upgrader",
    "diff",
    "dnf",
    "docker",
    "echo",
    "editor",
    "git",
    "grep",
    "install",
    "jq",
    "kill",
    "kubectl",
    "make",
    "nm",
    "openssl",
    "podman",
    "printf",
    "rustup",
    "sed",
    "sha256sum",
    "systemctl",
    "tar",
    "xargs",
];

/// The blocks of a page, indented or fenced. A list item's own lines are not code.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut is_fenced, mut is_open, mut was_blank) = (false, false, true);
    for (number, line) in page.lines().enumerate() {
        let is_fence = line.starts_with("```");
        is_fenced ^= is_fence;
        let code = if is_fenced {
            (!is_fence).then_some(line)
        } else {
            line.strip_prefix("    ")
        };
        match code {
            Some(code) if is_open => blocks.last_mut().unwrap().lines.push(code.to_owned()),
            Some(code) if was_blank || is_fenced => {
                let lines = vec![code.to_owned()];
                blocks.push(Block {
                    line: number + 1,
                    lines,
                });
                is_open = true;
            }
            // A block may contain blank lines.
            None if is_open && line.is_empty() => blocks.last_mut().unwrap().lines.push(String::new()),
            _ => is_open = false,
        }
        was_blank = line.is_empty() || line.starts_with("<!--");
    }
    blocks
}

impl Block {
    /// The commands, with continued lines joined, without output or remarks. Empty if the block is data.
    pub fn commands(&self) -> Vec<String> {
        let is_session = self.lines.iter().any(|line| line.starts_with("$ "));
        // A variable for the commands below may be set first.
        let first = self.lines.iter().find_map(|line| program(line));
        if !is_session && !first.is_some_and(is_program) {
            return Vec::new();
        }
        let mut commands = Vec::new();
        let mut begun = String::new();
        // The content of a file follows a blank line.
        for line in self
            .lines
            .iter()
            .take_while(|line| is_session || !line.is_empty())
        {
            let line = match line.strip_prefix("$ ") {
                Some(command) => command,
                None if is_session && begun.is_empty() => continue,
                None => line,
            };
            let is_whole = begun.is_empty();
            let (part, is_continued) = match line.strip_suffix('\\') {
                Some(part) => (part, true),
                None if is_whole => (without_words(line), false),
                None => (line, false),
            };
            begun.push_str(part);
            if !is_continued {
                commands.push(begun.trim().to_owned());
                begun.clear();
            }
        }
        commands
    }
}

/// The command without the remark beside it, which begins after two blanks outside of quotes.
fn without_words(line: &str) -> &str {
    let mut quote = None;
    let mut blanks = 0;
    for (at, letter) in line.char_indices() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if letter == '\'' || letter == '"' => quote = Some(letter),
            Some(_) | None => {}
        }
        blanks = if letter == ' ' && quote.is_none() {
            blanks + 1
        } else {
            0
        };
        if blanks == 2 {
            return &line[..at - 1];
        }
    }
    line
}

/// The words of a command, without quotes. An operator such as `|` is a word.
pub fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote, mut is_open) = (String::new(), None, false);
    for letter in command.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if letter == '\'' || letter == '"' => (quote, is_open) = (Some(letter), true),
            None if letter == ' ' => {
                if is_open || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                is_open = false;
            }
            Some(_) | None => word.push(letter),
        }
    }
    if is_open || !word.is_empty() {
        words.push(word);
    }
    words
}

/// Whether a word is `NAME=value`.
pub fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = !name.is_empty()
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    is_name.then_some((name, value))
}

/// The program that a line runs.
fn program(line: &str) -> Option<&str> {
    let line = line.strip_prefix("token=$(").unwrap_or(line);
    line.split(' ').find(|word| assignment(word).is_none())
}

/// Whether a word is a program that pages run.
pub fn is_program(word: &str) -> bool {
    let word = word.trim_start_matches('/');
    PROGRAMS.contains(&word) || is_script(word)
}

/// Whether a word is a script of this repository, or a script that the lab makes.
pub fn is_script(word: &str) -> bool {
    ["tests/", "examples/", "fuzz/", ".ci/", "$LAB_DIR/"]
        .iter()
        .any(|folder| word.starts_with(folder))
}
