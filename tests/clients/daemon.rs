//! The daemon as a process, with an engine that answers from a script.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kit::manager::{RawServer, Reply, answer_text};

pub(crate) const VERSION: &str = r#"{"ApiVersion":"1.41","Version":"26.1.5","Os":"linux","Arch":"amd64"}"#;

/// An engine without containers.
pub(crate) fn engine(head: &str) -> String {
    let is_version = head.starts_with("GET /version ");
    json(if is_version { VERSION } else { "[]" })
}

/// An engine with one healthy delegate that runs the published image.
pub(crate) fn with_delegate(head: &str) -> String {
    let path = head.split(' ').nth(1).unwrap_or_default();
    if path.starts_with("/v1.41/services") {
        let why = r#"{"message":"This node is not a swarm manager."}"#;
        return answer_text(503, "Content-Type: application/json\r\n", why);
    }
    json(match path {
        "/version" => VERSION,
        "/v1.41/containers/json?all=1" => r#"[{"Id":"f00","Names":["/dd"],"State":"running","Labels":{}}]"#,
        "/v1.41/containers/f00/json" => {
            r#"{"Id":"f00","Name":"/dd","Image":"sha256:1","Created":"2026-11-01T00:00:00Z",
                "State":{"Status":"running","Running":true,"Health":{"Status":"healthy"}},
                "Config":{"Image":"harness/delegate:26.03.1","Env":["DELEGATE_NAME=docker-delegate"]},
                "HostConfig":{"RestartPolicy":{"Name":"always"}}}"#
        }
        _ => "[]",
    })
}

fn json(body: &str) -> String {
    answer_text(200, "Content-Type: application/json\r\n", body)
}

/// A running daemon, which ends with the test.
pub(crate) struct Daemon {
    pub(crate) process: Child,
    /// The address on which it listens.
    pub(crate) address: String,
    pub(crate) engine: RawServer,
}

impl Daemon {
    /// Starts a daemon that may open 64 files. Its output is discarded unless `change` says otherwise.
    pub(crate) async fn start(change: impl FnOnce(&mut Command)) -> Self {
        Self::beside(engine, change).await
    }

    /// The same with an engine that answers in this way.
    pub(crate) async fn beside(engine: fn(&str) -> String, change: impl FnOnce(&mut Command)) -> Self {
        let engine = RawServer::start(vec![Reply::made_by(engine)]).await;
        // Nothing listens there any longer once the address is known.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                r#"ulimit -n 64; exec "$0""#,
                env!("CARGO_BIN_EXE_delegate-upgrader"),
            ])
            .env_clear()
            .env("DOCKER_HOST", engine.url.replace("http://", "tcp://"))
            .env("UPGRADER_WORKLOAD_NAME", "docker-delegate")
            .env("PUBLISHED_IMAGE", "harness/delegate:26.03.1")
            .env("HEALTH_INTERVAL", "1s")
            .env("LISTEN_ADDR", &address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        change(&mut command);
        Self {
            process: command.spawn().unwrap(),
            address,
            engine,
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The status and the text of the answer.
pub(crate) async fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let client = delegate_upgrader::health::http::plain_client().unwrap();
    let answer = client.get(format!("http://{address}{path}")).send().await.ok()?;
    Some((answer.status().as_u16(), answer.text().await.ok()?))
}

/// The value of a metric, by its exact name and labels.
fn sample(metrics: &str, series: &str) -> Option<f64> {
    let mut lines = metrics.lines();
    lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

/// The value of a metric, once it is at least `least`.
pub(crate) async fn metric(address: &str, series: &str, least: f64) -> f64 {
    let begun = Instant::now();
    loop {
        let (_, text) = get(address, "/metrics").await.unwrap_or_default();
        if let Some(value) = sample(&text, series).filter(|value| *value >= least) {
            return value;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{series}: {text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Each call to the engine counts, since it is made for every delegate of every host.
#[tokio::test]
async fn an_idle_run_makes_one_call_plus_one_per_delegate() {
    let daemon = Daemon::beside(with_delegate, |command| {
        command
            .env("SCHEDULE", "* * * * * *")
            .env("HEALTH_INTERVAL", "1h");
    })
    .await;
    let count = |path: &str| {
        let requests = daemon.engine.requests().into_iter();
        requests
            .filter(|head| head.starts_with(&format!("GET {path} ")))
            .count()
    };
    let lists = || count("/v1.41/containers/json?all=1");
    for _ in 0..1000 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if lists() >= 5 {
            break;
        }
    }
    let (lists, inspects) = (lists(), count("/v1.41/containers/f00/json"));
    let paths: Vec<String> = daemon
        .engine
        .requests()
        .iter()
        .map(|head| head.lines().next().unwrap().to_owned())
        .collect();
    assert!(lists >= 5 && inspects.abs_diff(lists) <= 1, "{paths:#?}");
    assert_eq!(
        count("/v1.41/services?status=true"),
        1,
        "a host without Swarm is asked once: {paths:#?}"
    );
}

#[tokio::test]
async fn a_successful_scheduled_run_updates_the_last_success_metric() {
    for (engine, succeeds) in [(with_delegate as fn(&str) -> String, true), (engine, false)] {
        let daemon = Daemon::beside(engine, |command| {
            command.env("SCHEDULE", "* * * * * *");
        })
        .await;
        if succeeds {
            metric(
                &daemon.address,
                "delegate_upgrader_last_success_timestamp_seconds",
                1.0,
            )
            .await;
        } else {
            let lists = r#"delegate_upgrader_engine_requests_total{operation="list",result="ok"}"#;
            metric(&daemon.address, lists, 7.0).await;
        }
        let (_, text) = get(&daemon.address, "/metrics").await.unwrap();
        let value = |name: &str| sample(&text, &format!("delegate_upgrader_{name}")).unwrap();
        let (start, success) = (
            value("start_timestamp_seconds"),
            value("last_success_timestamp_seconds"),
        );
        let due = value("success_due_timestamp_seconds");
        if succeeds {
            assert!(success >= start && due > success, "{text}");
            assert!(due <= success + 2.0, "the second run after it: {text}");
        } else {
            assert!(success == 0.0 && due > start, "{text}");
        }
        assert!(value("config_hash") > 0.0, "{text}");
    }
}

#[tokio::test]
async fn check_of_one_delegate_fails_without_an_engine() {
    static IS_AWAY: AtomicBool = AtomicBool::new(false);
    let engine = |head: &str| {
        if IS_AWAY.load(Ordering::Relaxed) {
            return answer_text(503, "Content-Type: application/json\r\n", r#"{"message":"away"}"#);
        }
        with_delegate(head)
    };
    let daemon = Daemon::beside(engine, |_| ()).await;
    let check = async |expected: i32| {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let mut program = Command::new(env!("CARGO_BIN_EXE_delegate-upgrader"));
            program.args(["status", "dd", "--check"]).env_clear();
            program.env("LISTEN_ADDR", &daemon.address);
            let output = tokio::task::spawn_blocking(move || program.output().unwrap());
            let output = output.await.unwrap();
            if output.status.code() == Some(expected) && !output.stdout.is_empty() {
                return String::from_utf8(output.stdout).unwrap();
            }
            assert!(Instant::now() < deadline, "{output:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let there = check(0).await;
    assert!(!there.contains("engine_error"), "{there}");
    IS_AWAY.store(true, Ordering::Relaxed);
    let away = check(1).await;
    for line in [
        "engine_error            ",
        "observed_at             2",
        "health                  healthy",
    ] {
        assert!(away.contains(line), "no {line:?} in {away}");
    }
}
