//! A proxy in front of an engine's socket that writes down what is asked.
//!
//! ```text
//! cargo run --example socket_proxy -- /tmp/recorded.sock /var/run/docker.sock >calls
//! DOCKER_HOST=unix:///tmp/recorded.sock delegate-upgrader plan
//! ```
//!
//! One line per request, and one when its answer begins to arrive; times are microseconds since the epoch:
//!
//! ```text
//! 1795238444732559 GET /v1.41/containers/json
//! 1795238444733871 answered 200
//! ```
//!
//! Queries are left out. Bytes pass through as they are. A body needs a Content-Length; after a request without
//! one, the next line on the same connection is taken for a request, so uploads in chunks are not for this proxy.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what it writes down goes to standard output"
)]

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, io};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

/// Anything longer is not a head.
const HEAD_LIMIT: usize = 64 * 1024;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [listen, engine] = arguments.as_slice() else {
        eprintln!("usage: socket_proxy LISTEN ENGINE, both paths of unix sockets");
        return ExitCode::from(2);
    };
    match serve(listen, engine).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("socket_proxy: {listen}: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(listen: &str, engine: &str) -> io::Result<()> {
    match fs::remove_file(listen) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(listen)?;
    loop {
        let (client, _) = listener.accept().await?;
        let engine = engine.to_owned();
        tokio::spawn(async move {
            if let Err(error) = pass(client, &engine).await {
                eprintln!("socket_proxy: {error}");
            }
        });
    }
}

/// Both directions of a connection, until both have ended.
async fn pass(client: UnixStream, engine: &str) -> io::Result<()> {
    let server = UnixStream::connect(engine).await?;
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    let requests = copy(client_reads, server_writes, |line| {
        let mut words = line.split([' ', '?']);
        if let (Some(method), Some(path)) = (words.next(), words.next()) {
            println!("{} {method} {path}", now());
        }
    });
    let answers = copy(server_reads, client_writes, |line| {
        println!("{} answered {}", now(), line.split(' ').nth(1).unwrap_or("?"));
    });
    tokio::try_join!(requests, answers).map(drop)
}

fn now() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_micros()
}

/// Copies a stream of HTTP messages and tells the first line of each, before it is passed on.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut tell: impl FnMut(&str),
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    let mut messages = Messages::default();
    loop {
        let count = match from.read(&mut buffer).await {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        for line in messages.feed(bytes) {
            tell(&line);
        }
        if to.write_all(bytes).await.is_err() {
            // The reader has gone, and with it the interest in the rest.
            break;
        }
    }
    let _ = to.shutdown().await;
    Ok(())
}

/// Finds the heads in a stream of HTTP messages.
#[derive(Default)]
struct Messages {
    head: Vec<u8>,
    body_left: usize,
}

impl Messages {
    /// The first lines of the messages whose heads end in these bytes.
    fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for &byte in bytes {
            if self.body_left > 0 {
                self.body_left -= 1;
                continue;
            }
            self.head.push(byte);
            if self.head.ends_with(b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.head).into_owned();
                self.head.clear();
                self.body_left = content_length(&head);
                let line = head.lines().next().unwrap_or_default();
                // After an answer's head, a body in chunks may follow, which has no first line.
                if line.contains("HTTP/1.") {
                    lines.push(line.to_owned());
                }
            } else if self.head.len() > HEAD_LIMIT {
                self.head.clear();
            }
        }
        lines
    }
}

fn content_length(head: &str) -> usize {
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_of_a_connection_is_told_wherever_the_bytes_are_cut() {
        let stream =
            b"POST /a?x=1 HTTP/1.1\r\ncontent-LENGTH: 10\r\n\r\nGET / \r\n\r\nGET /b HTTP/1.1\r\n\r\n";
        for size in 1..=stream.len() {
            let mut messages = Messages::default();
            let lines: Vec<String> = stream
                .chunks(size)
                .flat_map(|chunk| messages.feed(chunk))
                .collect();
            assert_eq!(lines.len(), 2, "in pieces of {size}: {lines:?}");
            assert!(
                lines[0].starts_with("POST /a") && lines[1].starts_with("GET /b"),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn a_body_in_chunks_is_no_message() {
        let mut messages = Messages::default();
        let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
        assert_eq!(messages.feed(answer), ["HTTP/1.1 200 OK"]);
    }
}
