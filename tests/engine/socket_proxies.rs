//! Runs behind the rules of popular socket proxies, set up as the documentation says, with all other calls refused.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use delegate_upgrader::engine::{API_CALLS, Purpose};

use crate::permissions::one_of_each_kind;
use crate::proxy::{Proxy, without_services};
use kit::lab::engine::engine_socket;
use kit::lab::{Lab, PATIENCE, V2, eventually, image, image_of, inspect, project};

const PAGE: &str = "docs/usage/permissions.md";

#[derive(Clone, Copy)]
enum For {
    HealthChecks,
    Upgrades,
}

fn page() -> String {
    fs::read_to_string(project().join(PAGE)).expect(PAGE)
}

// --- sections, switched by variables: Tecnativa's and linuxserver's ------------------------------------------------

/// The sections that are closed unless the variable of the same name is set, and the sections that are always open.
const CLOSED: [&str; 17] = [
    "auth",
    "build",
    "commit",
    "configs",
    "containers",
    "distribution",
    "exec",
    "images",
    "info",
    "networks",
    "nodes",
    "plugins",
    "secrets",
    "services",
    "swarm",
    "system",
    "volumes",
];
const OPEN: [&str; 3] = ["events", "_ping", "version"];
/// The paths below a container that linuxserver's proxy closes unless the variable allows them.
const BY_NAME: [(&str, &str); 5] = [
    ("ALLOW_ARCHIVE", "archive"),
    ("ALLOW_CHANGES", "change"),
    ("ALLOW_EXPORT", "export"),
    ("ALLOW_LOGS", "logs"),
    ("ALLOW_TOP", "top"),
];

struct Sections {
    variables: Vec<String>,
    /// The paths below a container that are refused.
    refused: Vec<&'static str>,
}

impl Sections {
    /// The sections that the page sets for the proxy of that name.
    fn documented(proxy: &str, purpose: For) -> Self {
        let page = page();
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("| {proxy} |")))
            .expect("a row");
        let column = match purpose {
            For::HealthChecks => 2,
            For::Upgrades => 3,
        };
        let cell = row.split('|').nth(column).expect("a column");
        let variables: Vec<String> = cell
            .split('`')
            .filter_map(|word| word.strip_suffix("=1"))
            .map(str::to_owned)
            .collect();
        assert!(!variables.is_empty(), "{row}");
        let is_set = |name: &str| variables.iter().any(|variable| variable == name);
        let refused = BY_NAME
            .iter()
            .filter(|(variable, _)| proxy == "linuxserver" && !is_set(variable));
        let refused = refused.map(|(_, word)| *word).collect();
        Self { variables, refused }
    }

    fn is_set(&self, name: &str) -> bool {
        self.variables.iter().any(|variable| variable == name)
    }

    fn sections(&self) -> impl Iterator<Item = &'static str> {
        let closed = CLOSED.into_iter();
        OPEN.into_iter()
            .chain(closed.filter(|section| self.is_set(&section.to_uppercase())))
    }

    fn allows(&self, method: &str, path: &str) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        let path = match path.split_once('/') {
            Some((version, rest)) if version.starts_with("v1.") => rest,
            _ => path,
        };
        let below = path
            .strip_prefix("containers/")
            .and_then(|rest| Some(rest.split_once('/')?.1));
        let is_refused = below.is_some_and(|below| self.refused.iter().any(|word| below.starts_with(word)));
        !is_refused
            && (matches!(method, "GET" | "HEAD") || self.is_set("POST"))
            && self.sections().any(|section| path.starts_with(section))
    }

    /// The same rules for haproxy, on which both proxies are based.
    fn for_haproxy(&self, socket: &Path) -> String {
        let mut rules = String::new();
        for word in &self.refused {
            let _ = writeln!(
                rules,
                r"    http-request deny if {{ path,url_dec -m reg -i ^(/v[\d\.]+)?/containers/[a-zA-Z0-9_.-]+/{word} }}"
            );
        }
        if !self.is_set("POST") {
            rules += "    http-request deny unless METH_GET\n";
        }
        for section in self.sections() {
            let _ = writeln!(
                rules,
                r"    http-request allow if {{ path,url_dec -m reg -i ^(/v[\d\.]+)?/{section} }}"
            );
        }
        let engine = engine_socket();
        format!(
            "global\n    log stdout format raw local0\n    maxconn 100\ndefaults\n    mode http\n    log global\n    \
             log-format \"%ts %HM %HP\"\n    option http-server-close\n    timeout connect 10s\n    timeout client 10m\n    \
             timeout server 10m\nfrontend proxy\n    bind {}\n{rules}    http-request deny\n    \
             default_backend engine\nbackend engine\n    server engine {engine}\n",
            socket.display()
        )
    }
}

/// A haproxy that ends with the test.
struct Haproxy {
    server: Child,
    directory: tempfile::TempDir,
}

impl Haproxy {
    /// `None` if haproxy is not installed.
    fn start(sections: &Sections) -> Option<Self> {
        Command::new("haproxy").arg("-v").output().ok()?;
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("docker.sock");
        let config = directory.path().join("haproxy.cfg");
        fs::write(&config, sections.for_haproxy(&socket)).expect("haproxy.cfg");
        let log = fs::File::create(directory.path().join("log")).expect("a log");
        let server = Command::new("haproxy")
            .args(["-db", "-f"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn()
            .expect("haproxy starts");
        let proxy = Self { server, directory };
        eventually("haproxy listens", PATIENCE, || socket.exists());
        Some(proxy)
    }

    fn host(&self) -> String {
        format!("unix://{}", self.directory.path().join("docker.sock").display())
    }

    /// The requests that the proxy itself refused.
    fn refused(&self) -> Vec<String> {
        let log = fs::read_to_string(self.directory.path().join("log")).expect("its log");
        let refused = log.lines().filter_map(|line| line.strip_prefix("PR "));
        refused.map(str::to_owned).collect()
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

// --- patterns for methods: wollomatic's ----------------------------------------------------------------------------

/// The patterns on the page, by method.
fn patterns(purpose: For) -> Vec<(String, String)> {
    let mark = match purpose {
        For::HealthChecks => "watch",
        For::Upgrades => "upgrade",
    };
    let page = page();
    let begun = page.split_once(&format!("<!-- {mark} -->")).expect("a mark").1;
    let lines = begun.split_once("<!-- /").expect("its end").0.lines();
    let flags = lines.filter_map(|line| line.trim().strip_prefix("- '-allow")?.strip_suffix('\''));
    let patterns: Vec<(String, String)> = flags
        .filter_map(|flag| flag.split_once('='))
        .map(|(method, pattern)| (method.to_owned(), pattern.to_owned()))
        .collect();
    assert!(!patterns.is_empty(), "{begun}");
    patterns
}

/// The proxy anchors a pattern with `^` and `$` and matches it against the path. grep reads these patterns the same way.
fn matches(pattern: &str, path: &str) -> bool {
    let mut grep = Command::new("grep")
        .args(["-E", "-q", &format!("^{pattern}$")])
        .stdin(Stdio::piped())
        .spawn()
        .expect("grep");
    let mut input = grep.stdin.take().expect("its input");
    writeln!(input, "{path}").expect("a path");
    drop(input);
    grep.wait().expect("grep").success()
}

// --- the requirements behind each proxy ------------------------------------------------------------------------------

/// A proxy of any kind.
struct Front {
    host: String,
    refused: Box<dyn Fn() -> Vec<String>>,
}

fn ours(allows: impl Fn(&str, &str) -> bool + Send + 'static) -> Front {
    let proxy = Proxy::with_rules(allows);
    Front {
        host: proxy.host(),
        refused: Box::new(move || without_services(proxy.refused())),
    }
}

fn holds(test: &str, front: impl Fn(For) -> Front) {
    let lab = Lab::new(test);
    let delegates = one_of_each_kind(&lab);
    let look = || (delegates.clone().map(|name| inspect(&name)), lab.names());
    let before = look();

    let watching = front(For::HealthChecks);
    let upgrader = lab.upgrader(V2).with("DOCKER_HOST", &watching.host);
    let watcher = upgrader.clone().with("DISABLE_AUTO_UPGRADE", "true");
    for command in ["plan", "once", "doctor"] {
        watcher.run(&[command]).ended(0);
    }
    assert_eq!((watching.refused)(), Vec::<String>::new());

    let begun = Instant::now();
    let run = upgrader.run(&["once"]).ended(1);
    run.says("the engine refused (403): 403 Forbidden");
    let took = begun.elapsed();
    assert!(
        took < Duration::from_secs(120),
        "a refusal was tried for {took:?}:\n{}",
        run.text
    );
    let by_now = (watching.refused)().len();
    let run = upgrader.run(&["doctor"]).ended(1);
    for call in API_CALLS
        .iter()
        .filter(|call| call.purpose == Purpose::Upgrades && call.method != "GET")
    {
        let line = format!(
            "FAIL  permissions    {} {} is refused (403",
            call.method, call.path
        );
        run.says(&line);
    }
    let refused = (watching.refused)().split_off(by_now);
    // Doctor also asks what a plan asks about the delegates and their image, and looks for the new one in the registry.
    let ids = delegates.clone().map(|name| kit::lab::life(&name).0);
    let is_probe = |call: &&String| {
        !call.contains("sha256:") && !call.contains("harness/") && !ids.iter().any(|id| call.contains(id))
    };
    let tried = refused.iter().filter(is_probe);
    let lines = run.text.matches("is refused (403").count();
    assert_eq!(
        lines,
        tried.collect::<std::collections::BTreeSet<_>>().len(),
        "{}",
        run.text
    );
    run.never_says("<");
    assert_eq!(look(), before);

    assert!(
        run.text.contains("warn  registry       cannot look up ")
            && run.text.contains("without GET /distribution/"),
        "{}",
        run.text
    );

    let upgrading = front(For::Upgrades);
    let upgrader = upgrader.with("DOCKER_HOST", &upgrading.host);
    let run = upgrader.run(&["doctor"]).ended(0);
    assert!(
        run.text
            .lines()
            .all(|line| line.starts_with("ok ") || line.starts_with("warn  support ")),
        "{}",
        run.text
    );
    let run = upgrader.run(&["once"]);
    assert_eq!((upgrading.refused)(), Vec::<String>::new(), "{}", run.text);
    assert_eq!(run.code, Some(0), "{}", run.text);
    for name in delegates {
        assert_eq!(image_of(&name), image(V2), "{name}");
    }
}

#[test]
fn the_documented_variables_are_enough_behind_tecnativas_rules() {
    holds("tecnativa", |purpose| {
        let sections = Sections::documented("Tecnativa", purpose);
        ours(move |method, path| sections.allows(method, path))
    });
}

#[test]
fn the_documented_variables_are_enough_behind_linuxservers_rules() {
    holds("linuxserver", |purpose| {
        let sections = Sections::documented("linuxserver", purpose);
        ours(move |method, path| sections.allows(method, path))
    });
}

#[test]
fn the_upgrader_works_behind_haproxy_with_the_documented_rules() {
    if Command::new("haproxy").arg("-v").output().is_err() {
        println!("haproxy is not installed: skipped");
        return;
    }
    holds("haproxy", |purpose| {
        let proxy = Haproxy::start(&Sections::documented("linuxserver", purpose)).expect("haproxy");
        Front {
            host: proxy.host(),
            refused: Box::new(move || without_services(proxy.refused())),
        }
    });
}

#[test]
fn the_documented_patterns_are_enough_behind_wollomatics_rules() {
    holds("wollomatic", |purpose| {
        let patterns = patterns(purpose);
        ours(move |method, path| {
            let of_method = patterns.iter().filter(|(of, _)| of == method);
            of_method
                .map(|(_, pattern)| pattern)
                .any(|pattern| matches(pattern, path))
        })
    });
}

#[test]
fn the_documented_patterns_allow_no_other_calls() {
    let patterns = patterns(For::Upgrades);
    let allows = |method: &str, path: &str| {
        patterns
            .iter()
            .any(|(of, pattern)| of == method && matches(pattern, path))
    };
    for (method, path) in [
        ("POST", "/v1.41/containers/x/exec"),
        ("POST", "/exec/x/start"),
        ("GET", "/v1.41/containers/x/archive"),
        ("PUT", "/v1.41/containers/x/archive"),
        ("GET", "/v1.41/volumes/x"),
        ("DELETE", "/v1.41/volumes/x"),
        ("POST", "/v1.41/build"),
        ("GET", "/v1.41/secrets"),
        ("POST", "/v1.41/containers/prune"),
        ("GET", "/other/containers/json"),
        ("GET", "/v1.41/containers/json/and/more"),
    ] {
        assert!(!allows(method, path), "{method} {path}");
    }
    for (method, path) in [
        ("GET", "/version"),
        ("GET", "/v1.41/containers/json"),
        ("GET", "/v1.52/images/r.example:5000/a/b:1/json"),
    ] {
        assert!(allows(method, path), "{method} {path}");
    }
}
