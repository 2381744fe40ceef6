//! Stops and restarts containers. Most engines complete this by themselves; some abandon it when the client disconnects.

use std::time::Duration;

use bollard::query_parameters::{KillContainerOptions, RestartContainerOptions, StopContainerOptions};

use super::transport::once_sent;
use super::{DockerEngine, STOP_WAIT, checked_id};
use crate::container::ContainerId;
use crate::engine::{Engine, EngineError};

impl DockerEngine {
    pub(super) async fn ask_to_stop(&self, id: &ContainerId, grace: Duration) -> Result<(), EngineError> {
        let name = checked_id(id)?;
        // These engines kill the container at once when the client of a stop disconnects (moby 45731).
        if !grace.is_zero() && is_23_0_or_24_0_up_to(2, &self.info().await?.version) {
            return self.signal_to_stop(id).await;
        }
        let seconds = whole_seconds(grace);
        let options = StopContainerOptions {
            t: Some(seconds),
            ..StopContainerOptions::default()
        };
        let call = format!("POST /containers/{name}/stop?t={seconds}");
        self.command(call, |docker| async move {
            let stopped = docker.stop_container(name, Some(options));
            // The engine then completes the stop by itself.
            once_sent(stopped, STOP_WAIT).await.unwrap_or(Ok(()))
        })
        .await
    }

    pub(super) async fn ask_to_restart(&self, id: &ContainerId, grace: Duration) -> Result<(), EngineError> {
        let name = checked_id(id)?;
        let version = self.info().await?.version;
        // After a restart whose client disconnects, these engines leave the container stopped.
        if is_23_0_or_24_0_up_to(6, &version) {
            let message = format!(
                "Docker {version} may leave a container stopped that it is to restart (moby 46688); update it to 24.0.7 or newer"
            );
            return Err(EngineError::Refused { status: 501, message });
        }
        let seconds = whole_seconds(grace);
        let options = RestartContainerOptions {
            t: Some(seconds),
            ..RestartContainerOptions::default()
        };
        let call = format!("POST /containers/{name}/restart?t={seconds}");
        self.command(call, |docker| async move {
            let restarted = docker.restart_container(name, Some(options));
            // The engine then completes the restart by itself.
            once_sent(restarted, STOP_WAIT).await.unwrap_or(Ok(()))
        })
        .await
    }

    /// Sends only the stop signal. When the grace period has ended, the caller stops the container with a grace of zero.
    async fn signal_to_stop(&self, id: &ContainerId) -> Result<(), EngineError> {
        let inspected = self.inspect(id).await?;
        if !inspected.state().is_up() {
            return Ok(());
        }
        let signal = match inspected.text("/Config/StopSignal") {
            "" => "SIGTERM".to_owned(),
            signal => signal.to_owned(),
        };
        let id = checked_id(id)?;
        let call = format!("POST /containers/{id}/kill?signal={signal}");
        let options = KillContainerOptions { signal };
        let killed = self.command(call, |docker| async move {
            docker.kill_container(id, Some(options)).await
        });
        match killed.await {
            // 409: the container stopped in the meantime.
            Err(EngineError::Conflict(_)) => Ok(()),
            other => other,
        }
    }
}

/// Rounds a grace period up to whole seconds.
fn whole_seconds(grace: Duration) -> i32 {
    i32::try_from(grace.as_nanos().div_ceil(1_000_000_000)).unwrap_or(i32::MAX)
}

fn is_23_0_or_24_0_up_to(last: u32, version: &str) -> bool {
    let mut parts = version
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(Ok(23)), Some(Ok(0)), _) => true,
        (Some(Ok(24)), Some(Ok(0)), Some(Ok(patch))) => patch <= last,
        _ => false,
    }
}
