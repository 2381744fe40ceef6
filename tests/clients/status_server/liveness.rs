//! A probe of a daemon whose loop does not wake.

use std::time::Duration;

use tokio::process::Command;

use super::Server;
use crate::daemon::{Daemon, get};
use kit::lab::{Signal, send};

/// The exit code and the output of `healthcheck`.
async fn healthcheck(address: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delegate-upgrader"));
    command.arg("healthcheck").env_clear();
    command.env("LISTEN_ADDR", address);
    let output = command.output().await.unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), told)
}

/// Its server does not answer either, because its only thread is stopped.
#[tokio::test]
async fn healthcheck_fails_without_a_running_process() {
    let daemon = Daemon::start(|_| {}).await;
    while get(&daemon.address, "/livez").await.is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(healthcheck(&daemon.address).await, (Some(0), String::new()));
    let id = daemon.process.id().to_string();
    send(Signal::STOP, &id);
    let (code, told) = healthcheck(&daemon.address).await;
    send(Signal::CONT, &id);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("the daemon does not answer at "), "{told}");
    assert_eq!(healthcheck(&daemon.address).await, (Some(0), String::new()));
}

#[tokio::test]
async fn a_loop_that_never_wakes_fails_livez_and_healthcheck_says_why() {
    let server = Server::start().await;
    let address = server.address.to_string();
    server.liveness.wakes_in(Duration::from_secs(10));
    assert_eq!(server.get("/livez").await, (200, "ok\n".to_owned()));
    assert_eq!(healthcheck(&address).await, (Some(0), String::new()));
    // This time passes for the loop, but not for the sockets.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(100)).await;
    tokio::time::resume();
    let (status, why) = server.get("/livez").await;
    assert!(
        status == 503 && why.starts_with("the loop should have woken at "),
        "{status} {why}"
    );
    let (code, told) = healthcheck(&address).await;
    assert!(code == Some(1) && told.contains(" is 1m3"), "{code:?} {told}");
    server.liveness.works();
    assert_eq!(healthcheck(&address).await.0, Some(0));
}
