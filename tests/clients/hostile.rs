//! The program with an engine whose texts would control a terminal, forge a log line, quote secrets, or never end.

use std::process::{Command, Stdio};

use kit::manager::{RawServer, Reply, answer_text};
use serde_json::{Value, json};

const FORGED: &str = "2026-01-01T00:00:00Z ERROR forged";
/// The value of a variable whose name does not look like a secret's.
const PLANTED: &str = "planted-value";

/// Text that moves the cursor, starts another line, and changes the writing direction.
fn hostile() -> String {
    format!(
        "a\u{1b}]0;title\u{7}\u{1b}[2J\n{FORGED}\r\n\u{9b}2J\u{7f}\u{202e}\u{2028}{}",
        "x".repeat(100_000)
    )
}

/// The same from a delegate that prints its environment.
fn printed() -> String {
    format!("DATABASE is {PLANTED} {}", hostile())
}

/// A delegate, or a container that only looks like one, with this change.
fn container(id: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut document = json!({
        "Id": id, "Name": format!("/{id}"), "Image": "sha256:1", "Created": "2026-11-01T00:00:00Z", "State": {
            "Status": "running", "Running": true, "Error": printed(), "StartedAt": "2026-11-01T00:00:00Z",
            "Health": { "Status": "unhealthy", "FailingStreak": 9, "Log": [{ "ExitCode": 1, "Output": printed() }] },
        },
        "Config": {
            "Image": "harness/delegate:26.02.1",
            "Env": ["DELEGATE_NAME=docker-delegate", format!("DATABASE={PLANTED}")],
            "Labels": {},
        },
        "HostConfig": { "RestartPolicy": { "Name": "always" }, "NetworkMode": hostile() },
        "NetworkSettings": { "Networks": { hostile(): { "IPAddress": "" } } },
    });
    change(&mut document);
    document
}

fn containers() -> Vec<Value> {
    let labelled = |label: &'static str| {
        container(label, |it| {
            it["Config"]["Labels"] = json!({ format!("io.delegate-upgrader.{label}"): hostile() });
        })
    };
    let labels = [
        "pin",
        "snooze-until",
        "window",
        "update-order",
        "stop-timeout",
        "healthy-deadline",
        "name",
        "copy",
    ];
    let mut all: Vec<Value> = labels.map(labelled).into();
    all.extend([
        container("image", |it| it["Config"]["Image"] = hostile().into()),
        container("state", |it| it["State"]["Status"] = hostile().into()),
        container("other", |it| {
            it["Config"]["Env"][0] = format!("DELEGATE_NAME={}", hostile()).into();
        }),
        container("account", |it| {
            let variables = it["Config"]["Env"].as_array_mut().unwrap();
            variables.push(format!("ACCOUNT_ID={}", hostile()).into());
        }),
        container("times", |it| {
            for time in ["StartedAt", "FinishedAt"] {
                it["State"][time] = "9999-12-31T23:59:59Z".into();
            }
            it["Config"]["StopTimeout"] = (-1).into();
        }),
    ]);
    all
}

fn engine(head: &str) -> String {
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (status, body) = match path.trim_start_matches("/v1.41") {
        "/version" => (
            200,
            json!({ "ApiVersion": "1.41", "Version": hostile(), "Os": "linux", "Arch": "amd64" }),
        ),
        "/info" => (
            200,
            json!({ "ID": hostile(), "Name": hostile(), "DockerRootDir": hostile(), "MemTotal": 1 }),
        ),
        path if path.starts_with("/containers/json") => {
            let row =
                |it: &Value| json!({ "Id": it["Id"], "Names": [it["Name"]], "State": it["State"]["Status"] });
            (200, containers().iter().map(row).collect())
        }
        path => {
            let asked = containers().into_iter().find(|it| {
                it["Id"]
                    .as_str()
                    .is_some_and(|id| path == format!("/containers/{id}/json"))
            });
            match asked {
                Some(document) => (200, document),
                None => (500, json!({ "message": hostile() })),
            }
        }
    };
    answer_text(status, "Content-Type: application/json\r\n", &body.to_string())
}

#[tokio::test]
async fn engine_text_cannot_control_a_terminal_or_forge_lines() {
    let engine = RawServer::start(vec![Reply::made_by(engine)]).await;
    let url = engine.url.replace("http://", "tcp://");
    let mut shown = 0;
    for (command, format) in [
        ("plan", "text"),
        ("plan --json", "text"),
        ("doctor", "text"),
        ("doctor --json", "text"),
        ("history", "text"),
        ("history --json", "text"),
        ("once", "text"),
        ("once", "json"),
        ("once --json", "text"),
    ] {
        let mut program = Command::new("timeout");
        program
            .args(["8", env!("CARGO_BIN_EXE_delegate-upgrader")])
            .args(command.split(' '))
            .env_clear()
            .env("DOCKER_HOST", &url)
            .env("UPGRADER_WORKLOAD_NAME", "docker-delegate")
            .env("PUBLISHED_IMAGE", "harness/delegate:26.03.1")
            .env("ACCOUNT_ID", "account")
            .env("LOG_FORMAT", format)
            .env("LOG_LEVEL", "debug")
            .stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || program.output().unwrap())
            .await
            .unwrap();
        let code = output.status.code();
        // A run waits for a delegate that may become healthy.
        assert!(matches!(code, Some(0 | 1 | 69 | 124)), "{command}: {code:?}");
        for (exit, bytes) in [("stdout", output.stdout), ("stderr", output.stderr)] {
            let text = String::from_utf8(bytes).unwrap();
            let steers = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{2028}'..='\u{202e}');
            let found = text
                .find(steers)
                .map(|at| text[at..].chars().take(80).collect::<String>());
            assert_eq!(found, None, "{command} {format} {exit}");
            assert!(
                !text.lines().any(|line| line.trim_start().starts_with(FORGED)),
                "{command} {exit}: {text}"
            );
            assert!(!text.contains(PLANTED), "{command} {format} {exit}: {text}");
            shown += text.matches("DATABASE is ***").count();
            let longest = text.lines().map(str::len).max().unwrap_or_default();
            assert!(longest < 40_000, "{command} {format} {exit}: {longest}");
        }
    }
    assert!(shown > 5, "{shown} lines of a delegate are shown");
}
