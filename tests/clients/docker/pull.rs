//! Pulls: a stream whose status is 200 whether the pull succeeds or not.

use delegate_upgrader::engine::{
    Credentials, DockerEngine, Engine as _, EngineError, EngineHost, PullProgress,
};
use kit::manager::{RawServer, Reply, answer_text};
use serde_json::{Value, json};

use super::scripted::{ScriptedEngine, answer};

/// The outcome of a pull from an engine that answers with exactly this body. The image exists all the time.
async fn pull_with(body: &'static str) -> Result<(), EngineError> {
    let server = RawServer::start(vec![Reply::made_by(move |head| {
        if head.starts_with("POST") {
            return format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{body}"
            );
        }
        let document = json!({ "ApiVersion": "1.41", "Id": "sha256:old" }).to_string();
        answer_text(200, "Content-Type: application/json\r\n", &document)
    })]);
    let address = server.await.url.replace("http://", "");
    let host = EngineHost::Tcp { address, tls: None };
    let engine = DockerEngine::connect(&host, Credentials::default()).unwrap();
    engine.pull(&"r.example/x:1".parse().unwrap(), None, |_| {}).await
}

#[tokio::test]
async fn a_pull_with_a_truncated_response_fails() {
    for whole in [
        "15\r\n{\"status\":\"Pulling\"}\n\r\n0\r\n\r\n",
        // Without a line break at the end, and with a line break in a chunk of its own.
        "14\r\n{\"status\":\"Pulling\"}\r\n0\r\n\r\n",
        "14\r\n{\"status\":\"Pulling\"}\r\n2\r\n\r\n\r\n0\r\n\r\n",
    ] {
        assert_eq!(pull_with(whole).await, Ok(()), "{whole:?}");
    }
    for broken in ["15\r\n{\"status\":\"Pulling\"}\n\r\n", "15\r\n{\"status\":", ""] {
        let error = pull_with(broken).await.unwrap_err().to_string();
        assert!(error.contains("broke off"), "{broken:?}: {error}");
    }
}

#[tokio::test]
async fn progress_adds_up_over_layers() {
    let line = |id: &str, status: &str, detail: Value| {
        format!(
            "{}\n",
            json!({ "id": id, "status": status, "progressDetail": detail })
        )
    };
    let stream = [
        line("a", "Downloading", json!({ "current": 10, "total": 100 })),
        line("b", "Downloading", json!({ "current": 5, "total": 50 })),
        line("a", "Extracting", json!({ "current": 1, "total": 900 })),
        line("a", "Download complete", json!({})),
    ]
    .concat();
    let engine = ScriptedEngine::start(move |line| {
        let is_pull = line.starts_with("POST");
        answer(200, if is_pull { stream.clone() } else { "{}".to_owned() })
    })
    .await;
    let mut shown = Vec::new();
    let reference = "r.example/x:1".parse().unwrap();
    let progress = |now: PullProgress| shown.push((now.current, now.total));
    engine.docker.pull(&reference, None, progress).await.unwrap();
    assert_eq!(shown, [(10, 100), (15, 150), (105, 150)]);
}
