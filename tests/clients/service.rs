//! The daemon as a service: its messages to systemd, and settings that are read again.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kit::lab::Signal;

use crate::daemon::{Daemon, get, metric};

/// The socket on which systemd listens.
struct Systemd {
    directory: tempfile::TempDir,
    socket: UnixDatagram,
}

impl Systemd {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(directory.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        Self { directory, socket }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("notify")
    }

    /// The words up to the first one with this beginning, including it.
    async fn until(&self, begin: &str) -> Vec<String> {
        let end = Instant::now() + Duration::from_secs(20);
        let mut words = Vec::new();
        while Instant::now() < end {
            let mut buffer = [0; 4096];
            let Ok(length) = self.socket.recv(&mut buffer) else {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
            words.extend(message.lines().map(str::to_owned));
            if words.iter().any(|word| word.starts_with(begin)) {
                return words;
            }
        }
        panic!("no {begin} among {words:?}");
    }
}

fn signal(daemon: &Daemon, signal: Signal) {
    kit::lab::send(signal, &daemon.process.id().to_string());
}

async fn config_hash(daemon: &Daemon) -> u64 {
    let hash = metric(&daemon.address, "delegate_upgrader_config_hash", 0.0).await;
    hash.to_bits()
}

fn write(path: &Path, health_interval: &str) {
    fs::write(
        path,
        format!("# a comment\nHEALTH_INTERVAL=\"{health_interval}\"\n"),
    )
    .unwrap();
}

#[tokio::test]
async fn notifies_systemd_of_readiness_status_liveness_and_shutdown() {
    let systemd = Systemd::new();
    let daemon = Daemon::start(|command| {
        command
            .env("NOTIFY_SOCKET", systemd.path())
            .env("WATCHDOG_USEC", "300000");
    })
    .await;
    let words = systemd.until("READY=1").await;
    let observed = words
        .iter()
        .position(|word| word.starts_with("STATUS=No delegate was found; next run 20"));
    assert!(
        observed < words.iter().position(|word| word == "READY=1"),
        "{words:?}"
    );
    for _ in 0..3 {
        systemd.until("WATCHDOG=1").await;
    }
    signal(&daemon, Signal::TERM);
    systemd.until("STOPPING=1").await;
}

#[tokio::test]
async fn it_is_not_ready_before_it_has_observed_the_engine() {
    let systemd = Systemd::new();
    let _daemon = Daemon::start(|command| {
        command
            .env("NOTIFY_SOCKET", systemd.path())
            .env("WATCHDOG_USEC", "300000")
            .env("DOCKER_HOST", "tcp://127.0.0.1:9");
    })
    .await;
    let words = systemd.until("STATUS=The Docker engine cannot be reached").await;
    assert!(!words.contains(&"READY=1".to_owned()), "{words:?}");
    // The daemon is still alive.
    for _ in 0..3 {
        let words = systemd.until("WATCHDOG=1").await;
        assert!(!words.contains(&"READY=1".to_owned()), "{words:?}");
    }
}

#[tokio::test]
async fn a_hangup_reloads_settings_and_invalid_ones_change_nothing() {
    let systemd = Systemd::new();
    let file = systemd.directory.path().join("environment");
    write(&file, "2s");
    let daemon = Daemon::start(|command| {
        command
            .env("NOTIFY_SOCKET", systemd.path())
            .env("ENVIRONMENT_FILE", &file);
    })
    .await;
    systemd.until("READY=1").await;
    let first = config_hash(&daemon).await;

    write(&file, "3s");
    signal(&daemon, Signal::HUP);
    systemd.until("RELOADING=1").await;
    systemd.until("READY=1").await;
    let second = config_hash(&daemon).await;
    assert_ne!(first, second);

    for wrong in [
        "HEALTH_INTERVAL=soon\n",
        "HEALTH_INTERVAL\n",
        "HEALTH_INTERVAL=4s\nLISTEN_ADDR=203.0.113.1:1\n",
    ] {
        fs::write(&file, wrong).unwrap();
        signal(&daemon, Signal::HUP);
        systemd.until("RELOADING=1").await;
        systemd.until("READY=1").await;
        assert_eq!(config_hash(&daemon).await, second, "{wrong}");
    }

    // Its address may also change.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    fs::write(&file, format!("HEALTH_INTERVAL=2s\nLISTEN_ADDR={address}\n")).unwrap();
    signal(&daemon, Signal::HUP);
    systemd.until("READY=1").await;
    assert!(get(&address, "/livez").await.is_some());
    assert!(get(&daemon.address, "/livez").await.is_none());
}
