//! The errors for unsuccessful answers.

use std::path::PathBuf;
use std::time::Duration;

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::engine::{Credentials, DockerEngine, Engine as _, EngineError, EngineHost};

use super::scripted::{ScriptedEngine, answer};

#[tokio::test]
#[rustfmt::skip]
async fn reads_error_message_of_engine_or_proxy() {
    let refused = |message: &str| EngineError::Refused {
        status: 403,
        message: message.to_owned(),
    };
    for (status, body, expected) in [
        (404, r#"{"message":"No such container: x"}"#, EngineError::NotFound("No such container: x".to_owned())),
        (409, "taken\n", EngineError::Conflict("taken".to_owned())),
        (403, "no", refused("no")),
        (403, "no such image: <none>\nat all", refused("no such image: <none> at all")),
        (403, "<html><body><h1>403 Forbidden</h1>\nBy rule.\n</body></html>\n", refused("403 Forbidden By rule.")),
    ] {
        let engine = ScriptedEngine::start(move |_| answer(status, body)).await;
        assert_eq!(engine.docker.inspect_image("x").await, Err(expected));
    }
}

#[tokio::test]
async fn a_missing_engine_is_unreachable_on_every_call() {
    let directory = tempfile::tempdir().unwrap();
    let host = EngineHost::Unix(directory.path().join("docker.sock"));
    let engine = DockerEngine::connect(&host, Credentials::default()).unwrap();
    for _ in 0..2 {
        let error = engine.info().await.unwrap_err();
        assert!(
            matches!(&error, EngineError::Unreachable(why) if why.contains("docker.sock")),
            "{error}"
        );
        let stopped = engine.stop(&ContainerId::new("a"), Duration::ZERO).await;
        assert!(matches!(stopped, Err(EngineError::Unreachable(_))));
    }
}

#[test]
fn names_missing_certificate() {
    let host = EngineHost::Tcp {
        address: "engine.example:2376".to_owned(),
        tls: Some(PathBuf::from("/nowhere/certs")),
    };
    let error = DockerEngine::connect(&host, Credentials::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("/nowhere/certs/ca.pem"), "{error}");
}
