//! Services of a Swarm: the requests to a manager, and their bodies.

use delegate_upgrader::engine::{Credentials, Engine as _, EngineError, ServiceUpdate, StaticCredentials};
use delegate_upgrader::image::ImageReference;
use delegate_upgrader::text::secret::Secret;
use serde_json::{Value, json};

use super::scripted::{ScriptedEngine, answer, refusal};

/// The request of an update with this image, from a host with a login for `private.example` alone.
async fn updated_with(image: Option<&str>, spec: &Value) -> super::scripted::Call {
    let engine = ScriptedEngine::start(|_| answer(200, "{}")).await;
    let login = StaticCredentials {
        username: "ci".to_owned(),
        password: Secret::new("secret"),
        registries: vec!["private.example".to_owned()],
    };
    let docker = engine.client(&Credentials {
        own: Some(login),
        file: None,
    });
    let image: Option<ImageReference> = image.map(|image| image.parse().unwrap());
    let update = ServiceUpdate {
        id: "id",
        version: 17,
        spec,
        image: image.as_ref(),
    };
    docker.update_service(update).await.unwrap();
    engine.last_call()
}

/// Any header replaces Swarm's own login, even an empty one.
#[tokio::test]
async fn an_update_carries_a_login_only_if_there_is_one() {
    for image in [None, Some("public.example/harness/delegate:1")] {
        let call = updated_with(image, &json!({})).await;
        assert_eq!(call.credentials, None, "{image:?}");
        assert!(call.line.ends_with("registryAuthFrom=spec"), "{}", call.line);
    }
    let call = updated_with(Some("private.example/harness/delegate:1"), &json!({})).await;
    assert!(call.credentials.is_some());
    assert_eq!(call.line, "POST /v1.41/services/id/update?version=17");
}

#[tokio::test]
async fn a_spec_is_sent_as_it_is() {
    let text = r#"{"Unknown":{"Number":9007199254740993,"Small":0.1,"None":null},"Labels":{},"Name":"d"}"#;
    let spec: Value = serde_json::from_str(text).unwrap();
    assert_eq!(updated_with(None, &spec).await.body, spec);
    // The spec stays as the engine wrote it, without filled-in defaults.
    let engine = ScriptedEngine::start(|_| answer(200, "[]")).await;
    assert_eq!(engine.docker.services().await, Ok(Some(Vec::new())));
    assert_eq!(engine.last_call().line, "GET /v1.41/services?status=true");
}

#[tokio::test]
async fn an_update_of_an_outdated_version_is_a_conflict_not_a_failure() {
    let message = "rpc error: code = Unknown desc = update out of sequence";
    for (message, is_conflict) in [(message, true), ("rpc error: code = InvalidArgument", false)] {
        let engine = ScriptedEngine::start(move |_| refusal(500, message)).await;
        let update = ServiceUpdate {
            id: "id",
            version: 1,
            spec: &json!({}),
            image: None,
        };
        let error = engine.docker.update_service(update).await.unwrap_err();
        assert_eq!(matches!(error, EngineError::Conflict(_)), is_conflict, "{error}");
    }
}

#[tokio::test]
async fn an_engine_that_is_not_a_swarm_manager_has_no_services() {
    let message = "This node is not a swarm manager. Use \"docker swarm init\" to connect this node to swarm and try again.";
    for (status, message) in [(503, message), (403, "Forbidden"), (404, "page not found")] {
        let engine = ScriptedEngine::start(move |_| refusal(status, message)).await;
        assert_eq!(engine.docker.services().await, Ok(None), "{status}");
    }
    // A Swarm without a leader still has services.
    let engine = ScriptedEngine::start(|_| {
        refusal(
            500,
            "rpc error: code = Unknown desc = The swarm does not have a leader.",
        )
    })
    .await;
    assert!(engine.docker.services().await.is_err());
}
