//! The engine as the matrix sees it: past the proxies, and past all code under test.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::wire::Wire;
use super::{PATIENCE, env};

/// An engine that does not answer a call for this long is deadlocked. A busy one does not take as long.
const DEADLOCK: Duration = Duration::from_secs(300);

/// The path of the engine's socket.
pub fn engine_socket() -> String {
    let host = env("DOCKER_HOST");
    let socket = host.strip_prefix("unix://");
    socket
        .unwrap_or_else(|| panic!("{host} is not a unix socket"))
        .to_owned()
}

/// The way to the engine.
#[derive(Clone, Debug)]
pub struct Engine {
    pub socket: PathBuf,
}

/// A row of the list of containers.
#[derive(Clone, Debug)]
pub struct Row {
    pub id: String,
    pub name: String,
    pub state: String,
}

impl Engine {
    /// The engine beside which the tests run.
    pub fn of_the_lab() -> Self {
        let socket = engine_socket().into();
        Self { socket }
    }

    async fn try_call(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<(u16, Value)> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let mut wire = Wire::connect(&self.socket).await?;
        wire.send(request.as_bytes()).await?;
        let answer = wire.answer(method).await?;
        Ok((answer.status(), answer.json()))
    }

    async fn call_within(
        &self,
        limit: Duration,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> io::Result<(u16, Value)> {
        let late = |_| {
            let problem = format!("no answer within {} s", limit.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, problem))
        };
        timeout(limit, self.try_call(method, path, body))
            .await
            .unwrap_or_else(late)
    }

    /// Asks once whether the engine is there.
    ///
    /// # Errors
    /// It cannot be reached, or does not answer within `limit`, or answers with an error.
    pub async fn ping(&self, limit: Duration) -> io::Result<()> {
        let (status, _) = self.call_within(limit, "GET", "/_ping", None).await?;
        if status == 200 {
            Ok(())
        } else {
            Err(io::Error::other(format!("it answers {status}")))
        }
    }

    /// Status and document of the answer.
    pub async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let begin = Instant::now();
        loop {
            match self.call_within(DEADLOCK, method, path, body).await {
                Ok(answer) => return answer,
                Err(error) if begin.elapsed() > PATIENCE => panic!("{method} {path}: {error}"),
                Err(_) => sleep(Duration::from_millis(200)).await,
            }
        }
    }

    /// A call that must succeed.
    pub async fn expect(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, answer) = self.call(method, path, body).await;
        assert!(status < 400, "{method} {path}: {status} {answer}");
        answer
    }

    /// All containers named `name` or `name.…`, including stopped ones.
    pub async fn list(&self, name: &str) -> Vec<Row> {
        let text = |row: &Value, pointer| {
            let text = row.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().trim_start_matches('/').to_owned()
        };
        let listed = self.expect("GET", "/containers/json?all=1", None).await;
        let rows = listed.as_array().cloned().unwrap_or_default();
        let rows = rows.iter().map(|row| Row {
            id: text(row, "/Id"),
            name: text(row, "/Names/0"),
            state: text(row, "/State"),
        });
        rows.filter(|row| row.name.split('.').next() == Some(name))
            .collect()
    }

    /// A container's document; `None` if there is no such container.
    pub async fn inspect(&self, id_or_name: &str) -> Option<Value> {
        let path = format!("/containers/{id_or_name}/json");
        let (status, document) = self.call("GET", &path, None).await;
        (status == 200).then_some(document)
    }

    /// Creates and starts a container.
    pub async fn run(&self, name: &str, body: &Value) -> Value {
        let path = format!("/containers/create?name={name}");
        let created = self.expect("POST", &path, Some(body)).await;
        let id = created["Id"].as_str().unwrap_or_default();
        self.expect("POST", &format!("/containers/{id}/start"), None)
            .await;
        self.inspect(id).await.expect("a container that was just started")
    }

    /// Removes all containers named `name` or `name.…`, including running ones.
    pub async fn clear(&self, name: &str) {
        for row in self.list(name).await {
            self.call("DELETE", &format!("/containers/{}?force=1&v=1", row.id), None)
                .await;
        }
    }
}

/// Sets `live-restore` in the lab engine's configuration, beside its image store; it counts from the next start on.
pub fn set_live_restore(lab: &Path, on: bool) {
    let path = lab.join("daemon.json");
    let text = std::fs::read_to_string(&path).expect("daemon.json");
    let mut configuration: Value = serde_json::from_str(&text).expect("JSON");
    configuration["live-restore"] = on.into();
    std::fs::write(path, configuration.to_string()).expect("daemon.json");
}
