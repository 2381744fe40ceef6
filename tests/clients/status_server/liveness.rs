//! A probe of a daemon whose loop does not wake.

use std::time::Duration;

use tokio::process::Command;

use super::Server;

#[tokio::test]
async fn a_loop_that_does_not_wake_fails_livez_and_the_healthcheck_says_why() {
    let server = Server::start().await;
    let healthcheck = async || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_delegate-upgrader"));
        command.arg("healthcheck").env_clear();
        command.env("LISTEN_ADDR", server.address.to_string());
        let output = command.output().await.unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    server.liveness.wakes_in(Duration::from_secs(10));
    assert_eq!(server.get("/livez").await, (200, "ok\n".to_owned()));
    assert_eq!(healthcheck().await, (Some(0), String::new()));
    // The time that passes is not that of the sockets.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(100)).await;
    tokio::time::resume();
    let (status, why) = server.get("/livez").await;
    assert!(
        status == 503 && why.starts_with("the loop should have woken at "),
        "{status} {why}"
    );
    let (code, told) = healthcheck().await;
    assert!(
        code == Some(1) && told.contains(" is 1m30s late"),
        "{code:?} {told}"
    );
    server.liveness.works();
    assert_eq!(healthcheck().await.0, Some(0));
}
