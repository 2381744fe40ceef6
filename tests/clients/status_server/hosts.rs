//! The host names in requests to the server: a page on the web must not be able to read its answers.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Server;
use crate::daemon::{Daemon, metric};

const PATHS: [&str; 6] = ["/", "/livez", "/metrics", "/readyz", "/status", "/status.txt"];

#[tokio::test]
async fn refuses_host_names_a_web_page_could_have_on_every_path() {
    let server = Server::start().await;
    for host in [
        "attacker.example",
        "attacker.example:9464",
        "attacker.example.",
        "127.0.0.1.attacker.example",
        "127.0.0.1.nip.io:80",
        "localhost.attacker.example",
        "internal.example",
        "x.upgrader.example.com",
        "upgrader.example.com.attacker.example",
        "[attacker.example]",
        "localhost\r\nHost: attacker.example",
        "attacker.example\r\nHost: localhost",
        "\u{fc}",
    ] {
        for path in PATHS {
            let answer = server
                .send(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
                .await;
            assert!(answer.starts_with("HTTP/1.1 421 "), "{host}: {answer}");
            assert!(answer.contains("add the name to STATUS_HOSTS"), "{answer}");
            assert!(!answer.contains("@hourly"), "{answer}");
        }
    }
    for request in [
        "GET http://attacker.example/status HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /status HTTP/1.0\r\nHost: attacker.example\r\n\r\n",
        "POST /status HTTP/1.1\r\nHost: attacker.example\r\n\r\n",
    ] {
        let answer = server.send(request).await;
        assert!(answer.contains(" 421 "), "{request}: {answer}");
    }
}

#[tokio::test]
async fn answers_requests_for_the_hosts_own_names_and_addresses() {
    let server = Server::start().await;
    for host in [
        "127.0.0.1",
        "192.168.1.7:9464",
        "[::1]:9464",
        "[fd00::1]",
        "localhost",
        "LOCALHOST:9464",
        "localhost.",
        "upgrader:8080",
        "delegate-upgrader_1",
        "host.docker.internal:9464",
        "upgrader.localhost",
        "upgrader.example.com",
        "UPGRADER.EXAMPLE.COM.:9464",
        "",
    ] {
        let answer = server
            .send(&format!("GET /status HTTP/1.1\r\nHost: {host}\r\n\r\n"))
            .await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{host}: {answer}");
    }
    for request in [
        "GET /status HTTP/1.0\r\n\r\n",
        "GET http://localhost/status HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        let answer = server.send(request).await;
        assert!(answer.contains(" 200 OK"), "{request}: {answer}");
    }
}

#[tokio::test]
async fn status_server_accepts_its_host_name_and_status_hosts() {
    let daemon = Daemon::start(|command| {
        command.env("STATUS_HOSTS", "prometheus.example,upgrader.example.com");
    })
    .await;
    let own = delegate_upgrader::host::name();
    metric(&daemon.address, "delegate_upgrader_start_timestamp_seconds", 1.0).await;
    for (host, status) in [
        (own.as_str(), "200"),
        ("upgrader.example.com:9464", "200"),
        ("attacker.example", "421"),
    ] {
        let mut stream = TcpStream::connect(&daemon.address).await.unwrap();
        let request = format!("GET /livez HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{host}: {answer}"
        );
    }
}
