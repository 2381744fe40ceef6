//! Connections without a request, and slow ones.

use std::fs;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::Server;
use crate::daemon::{Daemon, get, metric};

const SECOND: Duration = Duration::from_secs(1);

/// The number of a process's open sockets.
fn sockets(process: u32) -> usize {
    let files = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    targets
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .count()
}

#[tokio::test]
async fn idle_connections_do_not_starve_probes_or_the_engine() {
    let daemon = Daemon::start(|_| ()).await;
    let observed = "delegate_upgrader_last_observation_timestamp_seconds";
    metric(&daemon.address, observed, 1.0).await;
    let before = sockets(daemon.process.id());
    // The daemon may open 64 files.
    let mut idle = Vec::new();
    for _ in 0..374 {
        idle.push(TcpStream::connect(&daemon.address).await.unwrap());
    }
    for path in ["/livez", "/metrics", "/readyz"] {
        let begun = Instant::now();
        let answer = get(&daemon.address, path).await;
        assert_eq!(answer.map(|(status, _)| status), Some(200), "{path}");
        assert!(begun.elapsed() < SECOND * 4, "{path}: {:?}", begun.elapsed());
        let open = sockets(daemon.process.id());
        assert!(open <= before + 34, "{before} sockets, then {open}");
    }
    // Until their five seconds are over, it observes the engine every second.
    for second in 0.. {
        sleep(SECOND).await;
        let (status, text) = get(&daemon.address, "/readyz").await.unwrap();
        assert_eq!(status, 200, "{text}");
        let after = sockets(daemon.process.id());
        if second > 5 && after <= before + 2 {
            break;
        }
        assert!(second < 60, "{before} sockets, then {after}");
    }
    drop(idle);
}

/// The time for which the server keeps a connection on which a byte arrives every second.
async fn kept(server: &Server, bytes: &'static [u8]) -> Duration {
    let begun = Instant::now();
    let (mut read, mut write) = TcpStream::connect(server.address).await.unwrap().into_split();
    let writing = tokio::spawn(async move {
        for byte in bytes {
            if write.write_all(&[*byte]).await.is_err() {
                break;
            }
            sleep(SECOND).await;
        }
        // Open until the task is dropped.
        std::future::pending::<()>().await;
    });
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(SECOND * 30, read.read_to_end(&mut answer)).await;
    writing.abort();
    begun.elapsed()
}

#[tokio::test]
async fn a_request_has_five_seconds_to_arrive() {
    let server = Server::start().await;
    let requests: [&[u8]; 3] = [b"", b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /livez"];
    for took in futures_util::future::join_all(requests.map(|request| kept(&server, request))).await {
        assert!(took > SECOND * 4 && took < SECOND * 13, "{took:?}");
    }
}

#[tokio::test]
async fn connection_serves_one_request() {
    let server = Server::start().await;
    let request = "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    let answer = server.send(&request.repeat(2)).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 1, "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    let answer = server
        .send("HEAD /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("\r\n\r\n"),
        "{answer}"
    );
    let answer = server
        .send("POST /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 405 ") && answer.contains("allow: GET, HEAD"),
        "{answer}"
    );
    assert_eq!(server.get("/healthz").await, (200, "ok\n".to_owned()));
    let (status, paths) = server.get("/nothing").await;
    assert_eq!(status, 404);
    for path in [
        "/status",
        "/status.txt",
        "/metrics",
        "/livez",
        "/healthz",
        "/readyz",
    ] {
        assert!(paths.contains(path), "{paths}");
    }
    let long = format!(
        "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX: {}\r\n\r\n",
        "x".repeat(60_000)
    );
    let answer = server.send(&long).await;
    assert!(!answer.contains("200 OK"), "{answer}");
}
