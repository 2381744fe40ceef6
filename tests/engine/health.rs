//! Health that a command in the container checks, and restarts of unhealthy delegates.

use kit::lab::{Lab, PATIENCE, V1, follow, inspect, life};

/// The image of the test delegate has neither a shell nor curl, but its own health check.
const COMMAND: &str = r#"["/delegate", "healthcheck"]"#;

#[test]
fn restarts_unhealthy_delegate_after_its_tasks() {
    let lab = Lab::new("health-restart");
    // It is healthy for a while in each life, and fails three times within a minute on a busy machine too.
    let name = lab.delegate(
        "1",
        V1,
        &["--env", "UNHEALTHY_AFTER_SECONDS=30", "--env", "DRAIN_SECONDS=5"],
    );
    let (id, before, ..) = life(&name);
    let log = follow(&name);
    let daemon = lab
        .upgrader(V1)
        .with("HEALTH_ACTION", "restart")
        .with("HEALTH_PROBE", "exec")
        .with("HEALTH_COMMAND", COMMAND)
        .with("HEALTH_INTERVAL", "2s")
        .start();
    daemon.says("the health command exits with 0", PATIENCE);
    daemon.says("delegate is unhealthy", PATIENCE + PATIENCE);
    daemon.says("failed 3 times in a row", PATIENCE);
    daemon.says("asked Docker to restart", PATIENCE);
    daemon.says("healthy again after its restart", PATIENCE);
    assert!(log.end().contains("drained in full"));
    let (same, after, ..) = life(&name);
    assert_eq!(same, id);
    assert_ne!(before, after);
    assert_eq!(inspect(&name)["RestartCount"], 0);
    assert_eq!(lab.names(), ["1"]);
}

#[test]
fn status_shows_failing_and_missing_health_commands() {
    let lab = Lab::new("health-exec");
    lab.delegate("1", V1, &[]);
    for (command, detail) in [
        (COMMAND, "the health command exits with 0"),
        (
            r#"["/delegate", "nonsense"]"#,
            "the health command exits with 2: delegate: nonsense:",
        ),
        ("curl -sf http://localhost:3460/api/health", "the health command"),
    ] {
        let upgrader = lab
            .upgrader(V1)
            .with("HEALTH_PROBE", "exec")
            .with("HEALTH_COMMAND", command)
            .with("HEALTH_INTERVAL", "1s");
        let daemon = upgrader.start();
        daemon.says(detail, PATIENCE);
        let doctor = upgrader.run(&["doctor"]);
        doctor.says("API calls are permitted");
    }
}
