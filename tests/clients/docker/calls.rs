//! The requests to the engine, to the letter.

use std::time::Duration;

use chrono::Utc;
use delegate_upgrader::container::{ContainerId, RunState};
use delegate_upgrader::engine::{Engine as _, EngineError};
use delegate_upgrader::status::{Mode, Status, metrics};
use serde_json::{Value, json};

use super::scripted::{ScriptedEngine, answer, answer_json, refusal};

#[tokio::test]
async fn every_segment_and_every_parameter_is_encoded() {
    let engine = ScriptedEngine::start(|_| answer_json(200, &json!({ "Id": "f00" }))).await;
    let (docker, id) = (&engine.docker, ContainerId::new("f00"));
    docker.connect("a/b?c#d e", &id, &json!({})).await.unwrap();
    assert_eq!(
        engine.last_call().line,
        "POST /v1.41/networks/a%2Fb%3Fc%23d%20e/connect"
    );
    let platform = Some("linux/arm64");
    assert_eq!(docker.create("x&y=z", platform, &json!({})).await, Ok(id));
    assert_eq!(
        engine.last_call().line,
        "POST /v1.41/containers/create?name=x%26y%3Dz&platform=linux%2Farm64"
    );
}

#[tokio::test]
async fn refuses_an_id_that_would_change_the_request_path() {
    let engine = ScriptedEngine::start(|_| answer(204, "")).await;
    for id in ["", "../images/prune", "a/b", "a?force=1", "..", "a%2f"] {
        let started = engine.docker.start(&ContainerId::new(id)).await;
        assert!(matches!(started, Err(EngineError::NotFound(_))), "{id}");
    }
    assert!(engine.calls().is_empty());
    let sound = ContainerId::new("docker-delegate.draining-17");
    assert_eq!(engine.docker.start(&sound).await, Ok(()));
    assert_eq!(
        engine.last_call().line,
        "POST /v1.41/containers/docker-delegate.draining-17/start"
    );
}

#[tokio::test]
async fn sends_an_unset_restart_policy_explicitly() {
    let engine = ScriptedEngine::start(|_| answer_json(200, &json!({ "Warnings": null }))).await;
    let set = async |policy: Value| {
        engine
            .docker
            .set_restart_policy(&ContainerId::new("f00"), &policy)
            .await
    };
    for unset in [
        json!({ "Name": "", "MaximumRetryCount": 0 }),
        json!({}),
        Value::Null,
    ] {
        assert_eq!(set(unset.clone()).await, Ok(()));
        let written = &engine.last_call().body["RestartPolicy"];
        assert_eq!(*written, json!({ "Name": "no" }), "{unset}");
    }
    let on_failure = json!({ "Name": "on-failure", "MaximumRetryCount": 3 });
    assert_eq!(set(on_failure.clone()).await, Ok(()));
    assert_eq!(engine.last_call().body["RestartPolicy"], on_failure);
    assert!(matches!(
        set(json!({ "Name": "sometimes" })).await,
        Err(EngineError::Malformed(_))
    ));
}

#[tokio::test]
async fn engines_that_kill_if_a_stop_is_abandoned_get_only_the_signal() {
    let kill = ["23.0.0", "23.0.6", "24.0.0", "24.0.2", "24.0.0-rc.1"].map(|version| (version, true));
    let others = [
        "20.10.24+dfsg1",
        "24.0.3",
        "24.0.9",
        "25.0.0",
        "26.1.5",
        "28.5.2",
        "5.8.0",
        "",
    ]
    .map(|version| (version, false));
    for (version, kills) in kill.into_iter().chain(others) {
        let container = json!({ "Id": "f00", "State": { "Status": "running" } });
        let engine = ScriptedEngine::of("1.41", version, move |line| {
            if line.starts_with("GET") {
                answer_json(200, &container)
            } else {
                answer(204, "")
            }
        })
        .await;
        let grace = Duration::from_millis(1_500);
        engine.docker.stop(&ContainerId::new("f00"), grace).await.unwrap();
        let expected = if kills {
            "POST /v1.41/containers/f00/kill?signal=SIGTERM"
        } else {
            "POST /v1.41/containers/f00/stop?t=2"
        };
        assert_eq!(engine.last_call().line, expected, "{version}");
    }
}

#[tokio::test]
async fn engines_that_lose_an_abandoned_restart_are_never_asked_for_one() {
    for (version, is_asked) in [
        ("20.10.24+dfsg1", true),
        ("23.0.6", false),
        ("24.0.0", false),
        ("24.0.6", false),
        ("24.0.7", true),
        ("25.0.0", true),
        ("28.5.2", true),
    ] {
        let engine = ScriptedEngine::of("1.41", version, |_| answer(204, "")).await;
        let grace = Duration::from_millis(1_500);
        let restarted = engine.docker.restart(&ContainerId::new("f00"), grace).await;
        if is_asked {
            assert_eq!(restarted, Ok(()), "{version}");
            assert_eq!(engine.last_call().line, "POST /v1.41/containers/f00/restart?t=2");
        } else {
            let refused =
                matches!(&restarted, Err(EngineError::Refused { message, .. }) if message.contains("24.0.7"));
            assert!(refused, "{version}: {restarted:?}");
            assert_eq!(engine.calls().len(), 1, "{version}: its version alone");
        }
    }
}

#[tokio::test]
async fn a_command_is_attached_to_both_streams_and_keeps_its_arguments() {
    let engine = ScriptedEngine::start(|_| answer_json(201, &json!({ "Id": "e00" }))).await;
    let command = ["/probe".to_owned(), "--quick".to_owned()];
    let created = engine
        .docker
        .create_exec(&ContainerId::new("f00"), &command)
        .await;
    assert_eq!(created.as_deref(), Ok("e00"));
    let call = engine.last_call();
    assert_eq!(call.line, "POST /v1.41/containers/f00/exec");
    let body = json!({ "AttachStdout": true, "AttachStderr": true, "Cmd": ["/probe", "--quick"] });
    assert_eq!(call.body, body);
}

#[tokio::test]
async fn output_of_a_command_is_bounded() {
    let long = "x".repeat(100_000) + "\n" + &"line\n".repeat(10);
    let frame = |text: &str| {
        let length = u32::try_from(text.len()).unwrap().to_be_bytes();
        [&[1, 0, 0, 0], length.as_slice(), text.as_bytes()].concat()
    };
    let printed = frame(&long);
    let engine = ScriptedEngine::start(move |_| answer(200, printed.clone())).await;
    assert_eq!(
        engine.docker.start_exec("e00").await.as_deref(),
        Ok("line\nline\nline\n")
    );
    assert_eq!(engine.last_call().line, "POST /v1.41/exec/e00/start");
}

#[tokio::test]
async fn only_a_finished_command_has_an_exit_code() {
    for (document, code) in [
        (json!({ "Running": true, "ExitCode": null }), Ok(None)),
        // Some engines show 0 from the beginning.
        (json!({ "Running": true, "ExitCode": 0 }), Ok(None)),
        (json!({ "Running": false, "ExitCode": 3 }), Ok(Some(3))),
        (json!({ "Running": false, "ExitCode": null }), Err(())),
    ] {
        let engine = ScriptedEngine::start(move |_| answer_json(200, &document)).await;
        let found = engine.docker.exec_exit_code("e00").await;
        let is_missing = matches!(&found, Err(EngineError::NotFound(_)));
        assert!(
            found.as_ref().ok() == code.as_ref().ok() && is_missing == code.is_err(),
            "{found:?}"
        );
    }
}

#[tokio::test]
async fn inspects_an_image_by_platform_if_its_configuration_is_missing() {
    for (api, of_platform, expected) in [
        ("1.51", 200, json!({ "Env": ["A=1"] })),
        ("1.51", 404, Value::Null),
        ("1.48", 200, Value::Null),
    ] {
        // For a single platform it shows another id, which no container has.
        let engine = ScriptedEngine::of(api, "28.5.2", move |line| {
            if line.contains("?platform=%7B%22architecture%22%3A%22amd64%22%2C%22os%22%3A%22linux%22%7D") {
                answer_json(of_platform, &json!({ "Id": "y", "Config": { "Env": ["A=1"] } }))
            } else {
                answer_json(200, &json!({ "Id": "x", "Os": "", "Config": null }))
            }
        });
        let image = engine.await.docker.inspect_image("x").await.unwrap();
        assert_eq!(image["Config"], expected, "{api}, {of_platform}");
        assert_eq!(image["Id"], "x");
    }
}

#[tokio::test]
async fn a_linked_container_keeps_its_own_name() {
    let list = json!([{
        "Id": "f00", "Names": ["/other/alias", "/own"], "State": "running", "Labels": null, "Unknown": 1,
    }]);
    let engine = ScriptedEngine::start(move |_| answer_json(200, &list)).await;
    let summary = engine.docker.containers().await.unwrap().remove(0);
    assert_eq!((summary.name.as_str(), summary.state), ("own", RunState::Running));
}

#[tokio::test]
async fn counts_calls_by_kind_and_outcome() {
    let engine = ScriptedEngine::start(|line| match line.split(' ').next() {
        Some("GET") => answer_json(200, &json!([])),
        Some("DELETE") => refusal(409, "removal in progress elsewhere"),
        _ => answer(204, ""),
    })
    .await;
    let id = ContainerId::new("f00");
    for _ in 0..2 {
        engine.docker.containers().await.unwrap();
    }
    engine.docker.start(&id).await.unwrap();
    engine.docker.remove(&id).await.unwrap_err();
    let status = Status {
        engine_calls: engine.docker.calls(),
        ..Status::new(Mode::Upgrade, "@hourly", Utc::now())
    };
    let text = metrics::text(&status);
    let counted = |name: &str, labels: &str, count: u8| {
        let line = format!("delegate_upgrader_{name}{{{labels}}} {count}");
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    };
    // bollard's calls and our own.
    for (operation, result, count) in [
        ("version", "ok", 1),
        ("list", "ok", 2),
        ("start", "ok", 1),
        ("remove", "conflict", 1),
    ] {
        let by_operation = format!("operation=\"{operation}\"");
        let labels = format!("{by_operation},result=\"{result}\"");
        counted("engine_requests_total", &labels, count);
        counted("engine_request_duration_seconds_count", &by_operation, count);
    }
}
