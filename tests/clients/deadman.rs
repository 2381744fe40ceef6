//! The dead man's switch of a running daemon, which is reached like every receiver of events.

use std::io::{BufRead as _, BufReader, Read as _, Write as _, pipe};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use kit::manager::answer_text;
use kit::twin::{Behaviour, Twin, delegate_body};
use serde_json::{Value, json};

use super::daemon::{Daemon, engine, get, metric};
use super::manager::tls::{SERVER, answering, tls};
use super::webhook::{KEY_OF_URL, Receiver, Then, status};

/// A delegate's document.
fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let image = "harness/delegate:26.03.1";
        let twin = Twin::default();
        twin.add_image(image, twin.image(Behaviour::drains(Duration::from_secs(1))));
        twin.run("delegate-1", &delegate_body("docker-delegate", image));
        twin.document("delegate-1").unwrap()
    })
}

/// An engine with one delegate that is left alone.
fn one_delegate(head: &str) -> String {
    let (id, labels) = (&document()["Id"], &document()["Config"]["Labels"]);
    let row = json!([{ "Id": id, "Names": ["/delegate-1"], "State": "running", "Labels": labels }]);
    if head.contains("/containers/json") {
        answer_text(200, "Content-Type: application/json\r\n", &row.to_string())
    } else if head.contains("/containers/") && head.contains("/json") {
        answer_text(200, "Content-Type: application/json\r\n", &document().to_string())
    } else {
        engine(head)
    }
}

/// A daemon that only checks health, each second.
async fn daemon(engine: fn(&str) -> String, url: &str, change: impl FnOnce(&mut Command)) -> Daemon {
    Daemon::beside(engine, |command| {
        command
            .env_remove("PUBLISHED_IMAGE")
            .env("DISABLE_AUTO_UPGRADE", "true")
            .env("HEALTH_PROBE", "running")
            .env("SCHEDULE", "* * * * * *")
            .env("DEADMAN_URL", url);
        change(command);
    })
    .await
}

const SUCCEEDED: &str = r#"delegate_upgrader_deadman_requests_total{result="succeeded"}"#;
const FAILED: &str = r#"delegate_upgrader_deadman_requests_total{result="failed"}"#;

#[tokio::test]
async fn pings_after_each_good_run_and_logs_failures_once_without_the_url() {
    let receiver = Receiver::start(|number, request| match number {
        0 | 3.. => status(200),
        _ => Then::Answer(404, String::new(), request.head.clone()),
    })
    .await;
    let (reader, writer) = pipe().unwrap();
    let daemon = daemon(one_delegate, &receiver.url, |command| {
        command.stdout(writer);
    })
    .await;
    metric(&daemon.address, SUCCEEDED, 3.0).await;
    metric(&daemon.address, FAILED, 2.0).await;
    let requests = receiver.requests();
    assert!(
        requests[0]
            .head
            .starts_with(&format!("GET /services/{KEY_OF_URL} ")),
        "{requests:?}"
    );
    let (_, shown) = get(&daemon.address, "/status").await.unwrap();
    assert!(!shown.contains("delivery_problems"), "it answers again: {shown}");
    drop(daemon);
    let log: Vec<String> = BufReader::new(reader).lines().map(Result::unwrap).collect();
    let lines: Vec<&String> = log.iter().filter(|line| line.contains("DEADMAN_URL")).collect();
    assert_eq!(lines.len(), 2, "{log:#?}");
    assert!(
        lines[0].contains("WARN") && lines[0].contains("HTTP 404"),
        "{lines:#?}"
    );
    assert!(lines[1].contains("INFO DEADMAN_URL answers again"), "{lines:#?}");
    assert!(
        !format!("{shown} {log:?}").contains(KEY_OF_URL),
        "{shown} {log:#?}"
    );
}

#[tokio::test]
async fn doctor_and_status_fail_while_the_service_is_dead() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let daemon = daemon(one_delegate, &format!("http://{free}/{KEY_OF_URL}"), |_| ()).await;
    metric(&daemon.address, FAILED, 1.0).await;
    let ask = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_delegate-upgrader"))
            .args(arguments)
            .env_clear()
            .env("DOCKER_HOST", daemon.engine.url.replace("http://", "tcp://"))
            .env("UPGRADER_WORKLOAD_NAME", "docker-delegate")
            .env("DISABLE_AUTO_UPGRADE", "true")
            .env("LISTEN_ADDR", &daemon.address)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, status) = ask(&["status", "--check"]);
    assert_eq!(code, Some(1), "{status}");
    assert!(status.starts_with("! "), "{status}");
    for word in [
        "; failing: DEADMAN_URL",
        "  DEADMAN_URL: nothing was accepted for ",
        ": Connection refused; `delegate-upgrader notify --test` tries it",
    ] {
        assert!(status.contains(word), "no {word:?} in {status}");
    }
    let (code, doctor) = ask(&["doctor"]);
    assert_eq!(code, Some(1), "{doctor}");
    let line = "FAIL  daemon         DEADMAN_URL: nothing was accepted for ";
    assert!(doctor.contains(line), "{doctor}");
    assert!(!format!("{status}{doctor}").contains(KEY_OF_URL));
}

#[tokio::test]
async fn a_silent_service_gets_one_request_and_delays_no_run() {
    let receiver = Receiver::start(|_, _| Then::Hang).await;
    let (reader, writer) = pipe().unwrap();
    let daemon = daemon(one_delegate, &receiver.url, |command| {
        command.stdout(writer);
    })
    .await;
    let counting = tokio::task::spawn_blocking(move || {
        let lines = BufReader::new(reader).lines().map(Result::unwrap);
        lines
            .filter(|line| line.contains("scheduled run: 1 of 1 delegate OK"))
            .take(4)
            .count()
    });
    let counted = tokio::time::timeout(Duration::from_secs(30), counting).await;
    assert_eq!(counted.unwrap().unwrap(), 4);
    assert_eq!(receiver.requests().len(), 1);
    drop(daemon);
}

#[tokio::test]
async fn a_run_without_delegates_or_with_a_failure_sends_no_ping() {
    for engine in [engine as fn(&str) -> String, one_delegate] {
        let receiver = Receiver::start(|_, _| status(200)).await;
        // The published image has no digest, so it is not accepted.
        let daemon = daemon(engine, &receiver.url, |command| {
            command
                .env("DISABLE_AUTO_UPGRADE", "false")
                .env("PUBLISHED_IMAGE", "harness/delegate:26.04.1")
                .env("REQUIRE_DIGEST", "true");
        })
        .await;
        let begun = Instant::now();
        let mut runs = 0;
        let mut last = Value::Null;
        while runs < 4 {
            assert!(begun.elapsed() < Duration::from_secs(30), "{last}");
            tokio::time::sleep(Duration::from_millis(100)).await;
            let Some((200, text)) = get(&daemon.address, "/status").await else {
                continue;
            };
            let now: Value = serde_json::from_str(&text).unwrap();
            runs += u32::from(now["last_run"] != last["last_run"]);
            last = now;
        }
        assert_eq!(receiver.requests().len(), 0, "{last}");
    }
}

/// A service behind TLS with a certificate of the tests' CA, and a proxy that opens tunnels only to it. Returns their
/// addresses, and the requests to the proxy.
fn service_and_proxy() -> (String, String, Arc<Mutex<Vec<String>>>) {
    let address = answering(tls(SERVER, true), |_| answer_text(200, "", ""));
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut stream in proxy.incoming().flatten() {
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap_or_default();
            seen.lock()
                .unwrap()
                .push(String::from_utf8_lossy(&head[..read]).into_owned());
            let mut there = std::net::TcpStream::connect(address).unwrap();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            let (mut back, mut forth) = (stream.try_clone().unwrap(), there.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut stream, &mut forth));
            std::thread::spawn(move || std::io::copy(&mut there, &mut back));
        }
    });
    (
        format!("https://127.0.0.1:{}/{KEY_OF_URL}", address.port()),
        url,
        asked,
    )
}

#[tokio::test]
async fn pings_use_the_managers_proxy_and_certificates() {
    let file = |name: &str| format!("{}/tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let (url, proxy, asked) = service_and_proxy();
    let daemon_with = |url: String, variables: Vec<(&'static str, String)>| async move {
        daemon(one_delegate, &url, |command| {
            command.envs(variables);
        })
        .await
    };
    let trust = vec![
        ("CA_BUNDLE", file("ca.pem")),
        ("CLIENT_CERT", file("client.pem")),
        ("CLIENT_KEY", file("client.key")),
    ];
    let through = vec![("HTTPS_PROXY", proxy)];
    let daemon = daemon_with(url.clone(), [trust.clone(), through].concat()).await;
    metric(&daemon.address, SUCCEEDED, 1.0).await;
    let first = asked.lock().unwrap()[0].clone();
    assert!(
        first.starts_with("CONNECT 127.0.0.1:") && !first.contains(KEY_OF_URL),
        "{first}"
    );
    drop(daemon);

    // Addresses in NO_PROXY are reached directly.
    let (direct, proxy, asked) = service_and_proxy();
    let around = vec![("HTTPS_PROXY", proxy), ("NO_PROXY", "127.0.0.1".to_owned())];
    let daemon = daemon_with(direct, [trust, around].concat()).await;
    metric(&daemon.address, SUCCEEDED, 1.0).await;
    assert_eq!(asked.lock().unwrap().len(), 0);
    drop(daemon);

    let daemon = daemon_with(url, vec![("CA_BUNDLE", file("other-ca.pem"))]).await;
    metric(&daemon.address, FAILED, 1.0).await;
    let (_, text) = get(&daemon.address, "/status").await.unwrap();
    assert!(text.contains("CA_BUNDLE") && !text.contains(KEY_OF_URL), "{text}");
}
