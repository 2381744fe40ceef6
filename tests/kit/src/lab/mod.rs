//! Delegates, images and the upgrader as tests see them. Everything made here starts with its test's name, or has its
//! label, and is removed at the test's end.

pub mod diff;
pub mod engine;
pub mod front;
pub mod looks;
pub mod servers;
pub mod wire;

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
pub use looks::{end_of, image_of, inspect, life, running};
use rustix::net::sockopt::socket_peercred;
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

/// The label on every container and network of a test.
pub const LABEL: &str = "io.delegate-upgrader.test";
/// The versions for which there are images, and the behaviour of each.
const IMAGES: [&str; 5] = [
    "26.01.10001",
    "26.02.10002",
    "26.03.10003 CRASH_AFTER_SECONDS=1",
    "26.04.10004 HEALTH=never",
    "26.05.10005 HEALTHCHECK=true",
];
pub const V1: &str = "26.01.10001";
pub const V2: &str = "26.02.10002";
pub const CRASHES: &str = "26.03.10003";
pub const NEVER_HEALTHY: &str = "26.04.10004";
pub const WITH_HEALTHCHECK: &str = "26.05.10005";

/// The part of the engine that belongs to one test.
pub struct Lab {
    /// The test's `DELEGATE_NAME`, and the beginning of all its names.
    pub name: String,
}

/// The exit code and the whole output of an upgrader's command.
pub struct Run {
    pub code: Option<i32>,
    pub text: String,
}

impl Run {
    /// Asserts its exit code.
    #[track_caller]
    #[expect(
        clippy::return_self_not_must_use,
        reason = "the code may be all that a test asks for"
    )]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.text);
        self
    }

    #[track_caller]
    pub fn says(&self, words: &str) {
        assert!(self.text.contains(words), "{words:?} is not in:\n{}", self.text);
    }

    #[track_caller]
    pub fn never_says(&self, words: &str) {
        assert!(!self.text.contains(words), "{words:?} is in:\n{}", self.text);
    }
}

pub fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: these tests need an engine and a registry; run them with `make test`")
    })
}

pub fn project() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The directory of Cargo's build output: above the directory of the running test.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own file");
    test.ancestors().nth(2).expect("target/debug/deps").to_owned()
}

/// The program as Cargo built it for this test.
pub fn program() -> PathBuf {
    built().join("delegate-upgrader")
}

/// Sends a signal to the process with this id. A bare Debian has no program for that.
pub fn send(signal: Signal, id: &str) {
    let process = id
        .trim()
        .parse()
        .ok()
        .and_then(Pid::from_raw)
        .expect("the id of a process");
    kill_process(process, signal).unwrap_or_else(|error| panic!("{signal:?} to {id}: {error}"));
}

/// Kills the process at the other end of a socket, in any container.
pub fn kill_peer(socket: &UnixStream) {
    let peer = socket_peercred(socket).expect("whose socket it is");
    let _ = kill_process(peer.pid, Signal::KILL);
}

/// A static binary, as `make static` left it.
pub fn static_binary(name: &str) -> PathBuf {
    let directory = std::env::var_os("DELEGATE_UPGRADER_STATIC");
    let binary = directory
        .map_or_else(|| built().join("../static"), PathBuf::from)
        .join(name);
    assert!(binary.exists(), "there is no {}: make static", binary.display());
    binary
}

pub fn image(version: &str) -> String {
    format!("{}/harness/delegate:{version}", env("LAB_REGISTRY"))
}

pub fn build_images() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut command = Command::new(project().join("tests/lab/images"));
        command.arg(static_binary("delegate")).args(IMAGES);
        expect(&mut command);
    });
}

/// Runs a command that must succeed; returns its output.
pub fn expect(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Runs `docker` with these arguments, which must succeed.
pub fn docker(arguments: &[&str]) -> String {
    expect(Command::new("docker").args(arguments))
}

/// Builds an image from the files of a directory and this Dockerfile, with further options of `docker build`.
pub fn build(tag: &str, dockerfile: &str, context: &Path, options: &[&str]) {
    std::fs::write(context.join("Dockerfile"), dockerfile).expect("a Dockerfile");
    let mut build = Command::new("docker");
    build
        .env("DOCKER_BUILDKIT", "0")
        .args(["build", "--quiet", "--tag", tag]);
    expect(build.args(options).arg(context));
}

/// The limit of a wait for an event. It measures nothing: a machine may be busy, and only a failing test waits this long.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The limit of an end on SIGTERM, which takes milliseconds on an idle machine. What would hold it up takes longer.
pub const STOP_TIME: Duration = Duration::from_secs(6);

/// Waits until something holds.
pub fn eventually(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// Kills in each of these ways at one point after the other, until none is reached; `kill` says whether its point was. Returns
/// the number of kills.
pub fn kill_at_each_point<W: Copy>(ways: [W; 2], mut kill: impl FnMut(usize, W) -> bool) -> usize {
    let mut kills = 0;
    for point in 0.. {
        let reached = ways.into_iter().filter(|way| kill(point, *way)).count();
        if reached == 0 {
            break;
        }
        kills += reached;
    }
    eprintln!("{kills} kills");
    kills
}

impl Lab {
    pub fn new(test: &str) -> Self {
        build_images();
        Self {
            name: format!("e2e-{test}-{}", std::process::id()),
        }
    }

    /// `LABEL=name`, for `docker run --label` and for filters.
    pub fn label(&self) -> String {
        format!("{LABEL}={}", self.name)
    }

    /// Runs a container of this test with these further arguments of `docker run`, including the image.
    pub fn container(&self, suffix: &str, arguments: &[&str]) -> String {
        let name = format!("{}-{suffix}", self.name);
        let label = self.label();
        let mut all = vec!["run", "--detach", "--name", &name, "--label", &label];
        all.extend(arguments);
        docker(&all);
        name
    }

    /// Runs a delegate of this test on `version`, with further arguments of `docker run`. It is up and answers.
    pub fn delegate(&self, suffix: &str, version: &str, arguments: &[&str]) -> String {
        let image = image(version);
        let variable = format!("DELEGATE_NAME={}", self.name);
        let mut all = vec!["--env", &variable];
        all.extend(arguments);
        all.push(&image);
        let name = self.container(suffix, &all);
        eventually("the delegate says it started", PATIENCE, || {
            !logs(&name).is_empty()
        });
        name
    }

    /// Pushes a version of this test's own to the registry: the first one's image with these lines as its behaviour.
    pub fn image_with(&self, version: &str, behaviour: &str) -> String {
        let version = format!("{version}{}", std::process::id());
        let context = tempfile::tempdir().expect("a directory for an image");
        std::fs::write(
            context.path().join("behaviour"),
            format!("VERSION={version}\n{behaviour}\n"),
        )
        .expect("a file");
        let dockerfile = format!("FROM {}\nLABEL of={}\nCOPY behaviour /\n", image(V1), self.name);
        build(&image(&version), &dockerfile, context.path(), &[]);
        docker(&["push", "--quiet", &image(&version)]);
        version
    }

    /// The upgrader, looking after this test's delegates with a fixed published image and short times.
    pub fn upgrader(&self, published: &str) -> Upgrader {
        let mut variables = BTreeMap::new();
        for (name, value) in [
            ("DOCKER_HOST", env("DOCKER_HOST")),
            ("UPGRADER_WORKLOAD_NAME", self.name.clone()),
            ("PUBLISHED_IMAGE", image(published)),
            ("UPGRADE_HEALTHY_TIME", "2s".to_owned()),
            // A busy machine may take long to start a good image. A test that waits for a rejection has a shorter one.
            ("UPGRADE_HEALTHY_DEADLINE", "2m".to_owned()),
            ("HEALTH_INTERVAL", "1s".to_owned()),
            ("LISTEN_ADDR", "127.0.0.1:0".to_owned()),
        ] {
            variables.insert(name.to_owned(), value);
        }
        Upgrader {
            variables,
            wrapper: Vec::new(),
        }
    }

    /// A filter for the names of this test's containers.
    fn named(&self) -> String {
        format!("^/{}-", self.name)
    }

    /// The names of this test's containers, including stopped ones, without the test's name before them.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = looks::listed("all=1&", "name", &self.named())
            .iter()
            .map(|row| {
                looks::name(row)
                    .trim_start_matches(&self.name)
                    .trim_start_matches('-')
                    .to_owned()
            })
            .collect();
        names.sort();
        names
    }
}

pub fn logs(name: &str) -> String {
    let output = Command::new("docker")
        .args(["logs", name])
        .output()
        .expect("docker logs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The contract: a drain ends within 2 s after its deadline, and not before it. A busy machine may need more.
pub fn assert_in_time(told: DateTime<Utc>, timeout: f64, ended: DateTime<Utc>, log: &str) {
    // Two different processes took the times.
    let blur = 0.5;
    let took = (ended - told).as_seconds_f64();
    assert!(
        took >= timeout - blur && took <= timeout + f64::max(6.0, timeout / 3.0),
        "told to stop within {timeout} s, it ended after {took} s, at {ended}:\n{log}"
    );
}

/// Follows a container's log until it is gone.
pub fn follow(name: &str) -> Follow {
    let child = Command::new("docker")
        .args(["logs", "--follow", name])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("docker logs --follow");
    Follow(child)
}

impl Drop for Lab {
    fn drop(&mut self) {
        let listed = |arguments: &[&str], filter: &str| {
            let output = Command::new("docker")
                .args(arguments)
                .args(["--filter", filter])
                .output();
            output
                .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
                .unwrap_or_default()
        };
        for id in listed(&["ps", "--all", "--quiet"], &format!("name={}", self.named())).lines() {
            let _ = Command::new("docker")
                .args(["rm", "--force", "--volumes", id])
                .output();
        }
        for id in listed(&["network", "ls", "--quiet"], &format!("label={}", self.label())).lines() {
            let _ = Command::new("docker").args(["network", "rm", id]).output();
        }
    }
}

/// A log that is being followed.
pub struct Follow(Child);

impl Follow {
    /// All of it, once the container is gone.
    pub fn end(self) -> String {
        let output = self.0.wait_with_output().expect("docker logs ends");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// The upgrader as a process with this environment and no other.
#[derive(Clone)]
pub struct Upgrader {
    variables: BTreeMap<String, String>,
    /// A command that runs the program, with its own arguments.
    wrapper: Vec<String>,
}

impl Upgrader {
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Runs it by this command, to which the program and its arguments are added.
    #[must_use]
    pub fn run_by(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.variables.remove(name);
        self
    }

    /// Its environment, as lines `NAME=value`.
    pub fn settings(&self) -> Vec<String> {
        let variables = self.variables.iter();
        variables.map(|(name, value)| format!("{name}={value}")).collect()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let program = program();
        let mut command = match self.wrapper.split_first() {
            Some((wrapper, arguments)) => {
                let mut command = Command::new(wrapper);
                command.args(arguments).arg(program);
                command
            }
            None => Command::new(program),
        };
        command
            .env_clear()
            .envs(&self.variables)
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Run {
        let output = self.command(arguments).output().expect("the upgrader starts");
        Run {
            code: output.status.code(),
            text: both(&output),
        }
    }

    /// Starts the daemon.
    pub fn start(&self) -> Daemon {
        self.begin("run")
    }

    /// Starts a command that takes a while.
    pub fn begin(&self, command: &str) -> Daemon {
        let log = tempfile::NamedTempFile::new().expect("a file for the log");
        let child = self
            .command(&[command])
            .stdout(log.reopen().expect("the log"))
            .stderr(log.reopen().expect("the log"))
            .spawn()
            .expect("the upgrader starts");
        Daemon { child, log }
    }
}

fn both(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A running daemon, which ends with the test.
pub struct Daemon {
    child: Child,
    log: tempfile::NamedTempFile,
}

impl Daemon {
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap_or_default()
    }

    pub fn says(&self, text: &str, limit: Duration) {
        self.says_one_of(&[text], limit);
    }

    pub fn says_one_of(&self, texts: &[&str], limit: Duration) {
        let start = Instant::now();
        while !texts.iter().any(|text| self.log().contains(text)) {
            assert!(
                start.elapsed() < limit,
                "the daemon did not say one of {texts:?} within {limit:?}:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The time of the first log line that contains the text.
    pub fn time_of(&self, text: &str, limit: Duration) -> DateTime<Utc> {
        self.says(text, limit);
        let log = self.log();
        let line = log.lines().find(|line| line.contains(text)).expect("a line");
        let time = line.split_whitespace().next().expect("a time");
        DateTime::parse_from_rfc3339(time).expect("a time").to_utc()
    }

    /// Waits for a command's end, and returns how it ended.
    pub fn wait(&mut self) -> Run {
        let status = self.child.wait().expect("the command ends");
        Run {
            code: status.code(),
            text: self.log(),
        }
    }

    /// Sends a signal and waits for the end. Returns the exit code, if there was one, and the duration.
    pub fn signal(&mut self, signal: Signal) -> (Option<i32>, Duration) {
        let start = Instant::now();
        send(signal, &self.child.id().to_string());
        let status = self.child.wait().expect("the daemon ends");
        (status.code(), start.elapsed())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
