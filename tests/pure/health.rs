//! Messages about a container's health are fit to show: on one line, and without the secrets of its environment.

use std::time::Duration;

use delegate_upgrader::config::{HealthSettings, ProbeKind};
use delegate_upgrader::container::Inspected;
use delegate_upgrader::health::{ending, question};
use serde_json::{Value, json};

/// A container with a secret in its environment.
fn container(state: &Value) -> Inspected {
    let config = json!({ "Env": ["DELEGATE_TOKEN=hunter2-hunter2"] });
    let document = json!({ "Id": "0123456789abcdef", "Name": "/dd", "Config": config, "State": state });
    Inspected::new(document).unwrap()
}

/// If a container has a HEALTHCHECK, no endpoint is asked.
#[test]
fn healthcheck_output_is_shown_without_secrets() {
    let output = "token hunter2-hunter2 was \u{1b}[31mrefused\nmore";
    let container = container(&json!({
        "Status": "running", "Running": true,
        "Health": { "Status": "unhealthy", "FailingStreak": 3, "Log": [{ "ExitCode": 1, "Output": output }] },
    }));
    let settings = HealthSettings {
        interval: Duration::from_secs(60),
        probe: ProbeKind::Auto,
        port: 3460,
        path: "/",
        command: Vec::new(),
    };
    let health = question(&container, &settings, None).err().unwrap();
    let expected = "unhealthy: its HEALTHCHECK failed 3 times: token *** was refused";
    assert_eq!(health.to_string(), expected);
}

#[test]
fn describes_an_exit_in_one_line_without_secrets() {
    let error = "hook failed: hunter2-hunter2\n2026-11-22T20:00:00Z  INFO \u{1b}[2Jall is well";
    let state = json!({ "Status": "exited", "ExitCode": 128, "OOMKilled": true, "Error": error });
    let expected =
        "exited with code 128, out of memory: hook failed: *** 2026-11-22T20:00:00Z  INFO all is well";
    assert_eq!(ending(&container(&state)), expected);
}
