//! Files that were copied into a container before its current life, which their modification times show.

use axum::response::IntoResponse as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use delegate_upgrader::container::ContainerId;
use delegate_upgrader::engine::Engine as _;
use serde_json::{Value, json};

use super::scripted::{ScriptedEngine, answer_json};

const RUNNING: &str = "2026-11-21T10:00:01.2Z";
const RESTARTED: &str = "2026-11-21T12:00:00Z";
const NEVER_STARTED: &str = "0001-01-01T00:00:00Z";

/// An engine with a container created and started at 10:00:00.7, these changes, and this header for each file.
async fn engine(started: &str, changes: Value, stat: String) -> ScriptedEngine {
    let state = json!({ "Status": "running", "StartedAt": started });
    let container = json!({ "Id": "1", "Created": "2026-11-21T10:00:00.7Z", "State": state });
    ScriptedEngine::start(move |line| {
        if line.starts_with("HEAD /v1.41/containers/1/archive") {
            [("X-Docker-Container-Path-Stat", stat.clone())].into_response()
        } else if line.ends_with("/changes") {
            answer_json(200, &changes)
        } else {
            answer_json(200, &container)
        }
    })
    .await
}

fn stat(mode: u32, mtime: &str) -> String {
    STANDARD
        .encode(json!({ "name": "x", "size": 1, "mode": mode, "mtime": mtime, "linkTarget": "" }).to_string())
}

async fn found(engine: &ScriptedEngine) -> Vec<String> {
    engine.docker.copied_files(&ContainerId::new("1")).await.unwrap()
}

async fn was_copied(started: &str, stat: String) -> bool {
    let engine = engine(started, json!([{ "Path": "/config", "Kind": 1 }]), stat).await;
    !found(&engine).await.is_empty()
}

#[tokio::test]
#[rustfmt::skip]
async fn an_older_file_with_a_whole_second_timestamp_was_copied_in() {
    for (started, mode, mtime, expected, why) in [
        (RUNNING, 0o444, "2026-11-21T10:00:01Z", true, "before the start"),
        (RUNNING, 0o444, "2026-11-21T10:00:00Z", true, "rounded down"),
        (RESTARTED, 0o444, "2026-11-21T10:00:40Z", true, "before this life"),
        (RESTARTED, 0o444, "2026-11-21T10:07:00Z", true, "before this life"),
        (RESTARTED, 0o444, "2026-11-21T12:00:01Z", true, "rounded up"),
        (RESTARTED, 0o444, "2026-11-21T12:00:02Z", false, "in this life"),
        (NEVER_STARTED, 0o444, "2026-11-21T10:07:00Z", true, "never started"),
        (RUNNING, 0o644, "2026-11-21T10:00:01.123Z", false, "a process wrote it"),
        (RUNNING, 0o644, "2026-11-21T10:00:40Z", false, "after the start"),
        (RUNNING, 0o644, "2025-01-01T00:00:00Z", false, "from an archive of its own"),
        (RUNNING, 0x8000_01ed, "2026-11-21T10:00:01Z", false, "a directory"),
        (RUNNING, 0x0800_01ff, "2026-11-21T10:00:01Z", false, "a link"),
    ] {
        let copied = was_copied(started, stat(mode, mtime)).await;
        assert_eq!(copied, expected, "{why}: {mtime}");
    }
    assert!(!was_copied(RUNNING, "?".to_owned()).await);
}

#[tokio::test]
async fn lists_changed_files_shortest_path_first_without_directories() {
    let copied = stat(0o444, "2026-11-21T10:00:01Z");
    let changes = json!([
        { "Path": "/opt/a", "Kind": 1 }, { "Path": "/opt/a/b", "Kind": 1 }, { "Path": "/opt", "Kind": 0 },
        { "Path": "/etc", "Kind": 0 }, { "Path": "/etc/of-the-image.yml", "Kind": 0 },
        { "Path": "/gone", "Kind": 2 }, { "Path": "/less", "Kind": 0 }, { "Path": "/less/gone", "Kind": 2 },
        { "Path": "/config", "Kind": 1 },
    ]);
    let changed = engine(RUNNING, changes, copied.clone()).await;
    assert_eq!(
        found(&changed).await,
        ["/config", "/etc/of-the-image.yml", "/opt/a/b"]
    );
    let unchanged = engine(RUNNING, Value::Null, copied).await;
    assert_eq!(found(&unchanged).await, Vec::<String>::new());
}
