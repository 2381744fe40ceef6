//! The daemon as a process, beside an engine without containers.

use std::process::{Child, Command, Stdio};

use kit::manager::{RawServer, Reply, answer_text};

pub(crate) fn engine(head: &str) -> String {
    let body = if head.starts_with("GET /version ") {
        r#"{"ApiVersion":"1.41","Version":"26.1.5","Os":"linux","Arch":"amd64"}"#
    } else {
        "[]"
    };
    answer_text(200, "Content-Type: application/json\r\n", body)
}

/// A running daemon; ended with the test.
pub(crate) struct Daemon {
    pub(crate) process: Child,
    /// Where it listens.
    pub(crate) address: String,
    _engine: RawServer,
}

impl Daemon {
    /// Starts one that may open 64 files. Its output goes nowhere unless `change` says otherwise.
    pub(crate) async fn start(change: impl FnOnce(&mut Command)) -> Self {
        Self::beside(engine, change).await
    }

    /// The same beside an engine that answers in this way.
    pub(crate) async fn beside(engine: fn(&str) -> String, change: impl FnOnce(&mut Command)) -> Self {
        let engine = RawServer::start(vec![Reply::From(engine)]).await;
        // Nobody listens there any more once it is known.
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
            _engine: engine,
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The status of the answer, and its text.
pub(crate) async fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let client = delegate_upgrader::health::http::plain_client().unwrap();
    let answer = client.get(format!("http://{address}{path}")).send().await.ok()?;
    Some((answer.status().as_u16(), answer.text().await.ok()?))
}
