//! The version of the API: one for all calls.

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::engine::{Engine as _, EngineError};
use serde_json::json;

use super::scripted::{ScriptedEngine, answer, answer_json};

#[tokio::test]
async fn all_calls_use_one_api_version_that_still_shows_owner_settings() {
    for (engine, spoken) in [
        ("1.24..1.41", "1.41"),
        ("1.24..1.51", "1.51"),
        // Docker 29.0, 29.7 and a future engine: since 1.52, inspect hides the owner's MAC address.
        ("1.44..1.52", "1.51"),
        ("1.44..1.55", "1.51"),
        ("1.51..1.99", "1.51"),
    ] {
        let engine = ScriptedEngine::of(engine, "29.7.2", |line| match line.split(' ').next() {
            Some("GET") => answer_json(
                200,
                &json!({ "Id": "f00", "Config": { "MacAddress": "02:00:00:00:00:01" } }),
            ),
            _ => answer(204, ""),
        })
        .await;
        let id = ContainerId::new("f00");
        let shown = engine.docker.inspect(&id).await.unwrap();
        assert_eq!(shown.document()["Config"]["MacAddress"], "02:00:00:00:00:01");
        engine.docker.start(&id).await.unwrap();
        let lines: Vec<String> = engine.calls().into_iter().map(|call| call.line).collect();
        let expected = [
            "GET /version".to_owned(),
            format!("GET /v{spoken}/containers/f00/json"),
            format!("POST /v{spoken}/containers/f00/start"),
        ];
        assert_eq!(lines, expected);
    }
}

#[tokio::test]
async fn refuses_a_too_new_engine_with_a_clear_message() {
    let engine = ScriptedEngine::of("1.52..1.60", "31.0.1", |_| answer(200, "[]")).await;
    let refused = engine.docker.containers().await.unwrap_err();
    assert!(matches!(refused, EngineError::Unsupported(_)), "{refused:?}");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        refused.to_string(),
        format!("Docker 31.0.1 understands API 1.52 and newer, delegate-upgrader {version} only up to 1.51")
    );
    assert_eq!(engine.calls().len(), 1, "nothing is tried with another version");
}
