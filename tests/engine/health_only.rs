//! Health-only mode: not one write reaches the engine.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use kit::lab::{Lab, NEVER_HEALTHY, Signal, V1, V2, docker, image, image_of, life};

/// Stands between the upgrader and the engine's socket and writes down every request line.
struct Recorder {
    socket: PathBuf,
    requests: Arc<Mutex<Vec<String>>>,
    _directory: tempfile::TempDir,
}

impl Recorder {
    fn start() -> Self {
        let host = std::env::var("DOCKER_HOST").expect("DOCKER_HOST");
        let engine = PathBuf::from(host.strip_prefix("unix://").expect("a unix socket"));
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("docker.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                relay(client, &engine, &seen);
            }
        });
        Self {
            socket,
            requests,
            _directory: directory,
        }
    }

    fn host(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("the list").clone()
    }
}

fn relay(client: UnixStream, engine: &Path, seen: &Arc<Mutex<Vec<String>>>) {
    let server = UnixStream::connect(engine).expect("the engine");
    let (mut from_engine, mut to_client) = (
        server.try_clone().expect("clone"),
        client.try_clone().expect("clone"),
    );
    let (mut from_client, mut to_engine) = (client, server);
    let seen = Arc::clone(seen);
    thread::spawn(move || {
        let mut bytes = [0; 8192];
        while let Ok(count @ 1..) = from_client.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
            let lines = text
                .lines()
                .filter(|line| line.ends_with(" HTTP/1.1"))
                .map(str::to_owned);
            seen.lock().expect("the list").extend(lines);
            if to_engine.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to_engine.shutdown(std::net::Shutdown::Write);
    });
    thread::spawn(move || {
        let mut bytes = [0; 8192];
        while let Ok(count @ 1..) = from_engine.read(&mut bytes) {
            if to_client.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(std::net::Shutdown::Both);
    });
}

#[test]
fn health_only_mode_sends_the_engine_gets_only() {
    let lab = Lab::new("health-only");
    let good = lab.delegate("1", V1, &[]);
    let bad = lab.delegate("2", NEVER_HEALTHY, &["--restart", "always"]);
    let before = [&good, &bad].map(|name| life(name));
    let recorder = Recorder::start();
    let watcher = lab
        .upgrader(V2)
        .with("DOCKER_HOST", &recorder.host())
        .with("DISABLE_AUTO_UPGRADE", "true")
        .with("SCHEDULE", "* * * * * *")
        .with("RUN_ON_START", "true");
    let mut daemon = watcher.start();
    daemon.says("scheduled run", Duration::from_secs(20));
    daemon.says("delegate is unhealthy", Duration::from_secs(20));
    daemon.says(
        &format!(
            "{} is published; health checks only (DISABLE_AUTO_UPGRADE=true)",
            image(V2)
        ),
        Duration::from_secs(20),
    );
    docker(&["kill", &good]);
    // It may be observed in the moment before its end is known.
    daemon.says_one_of(
        &["exited with code 137", "nothing listens"],
        Duration::from_secs(20),
    );
    daemon.signal(Signal::TERM);
    watcher.run(&["once"]).ended(0);
    let requests = recorder.requests();
    assert!(
        requests
            .iter()
            .filter(|line| line.contains("/containers/json"))
            .count()
            > 3,
        "{requests:?}"
    );
    let writes: Vec<_> = requests.iter().filter(|line| !line.starts_with("GET ")).collect();
    assert!(writes.is_empty(), "{writes:?}");
    assert_eq!(life(&bad), before[1]);
    assert_eq!(lab.names(), ["1", "2"]);
}

#[test]
fn the_recorder_would_see_a_write() {
    let lab = Lab::new("recorder");
    let name = lab.delegate("1", V1, &[]);
    let recorder = Recorder::start();
    lab.upgrader(V2)
        .with("DOCKER_HOST", &recorder.host())
        .run(&["once"])
        .ended(0);
    let requests = recorder.requests();
    for write in [
        "/images/create",
        "/containers/create",
        "/start",
        "/rename",
        "/stop",
        "DELETE",
    ] {
        assert!(
            requests.iter().any(|line| line.contains(write)),
            "{write} is not among {requests:?}"
        );
    }
    assert_eq!(image_of(&name), image(V2));
}

#[test]
fn a_plan_reads_and_says_why() {
    let lab = Lab::new("plan");
    let name = lab.delegate("1", V1, &[]);
    let before = life(&name);
    let recorder = Recorder::start();
    let upgrader = lab.upgrader(V2).with("DOCKER_HOST", &recorder.host());
    let plan = upgrader.run(&["plan", "--json"]).ended(0);
    let rows: serde_json::Value = serde_json::from_str(&plan.text).expect("JSON and nothing else");
    assert_eq!(rows[0]["action"], "replace");
    assert_eq!(rows[0]["update_order"], "start-first");
    assert!(
        recorder.requests().iter().all(|line| line.starts_with("GET ")),
        "{:?}",
        recorder.requests()
    );
    assert_eq!(life(&name), before);
    let current = lab.upgrader(V1).run(&["plan"]);
    current.says("runs the published image");
}
