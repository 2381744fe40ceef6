//! Stops and restarts on engines that abandon them when the client disconnects.

use std::time::Duration;

use bollard::query_parameters::KillContainerOptions;
use serde_json::Value;

use super::{DockerEngine, checked_id};
use crate::container::{ContainerId, RunState};
use crate::engine::{Engine, EngineError};

impl DockerEngine {
    /// Sends the stop signal only. When the grace has ended, the caller stops the container with a grace of zero.
    pub(super) async fn signal_to_stop(&self, id: &ContainerId) -> Result<(), EngineError> {
        let inspected = self.inspect(id).await?;
        if !matches!(
            inspected.state(),
            RunState::Running | RunState::Paused | RunState::Restarting
        ) {
            return Ok(());
        }
        let signal = inspected
            .document()
            .pointer("/Config/StopSignal")
            .and_then(Value::as_str)
            .filter(|signal| !signal.is_empty())
            .unwrap_or("SIGTERM")
            .to_owned();
        let id = checked_id(id)?;
        let call = format!("POST /containers/{id}/kill?signal={signal}");
        let options = KillContainerOptions { signal };
        let killed = self.command(call, |docker| async move {
            docker.kill_container(id, Some(options)).await
        });
        match killed.await {
            // 409: it stopped in between.
            Err(EngineError::Conflict(_)) => Ok(()),
            other => other,
        }
    }
}

/// A grace in whole seconds, rounded up.
pub(super) fn whole_seconds(grace: Duration) -> i32 {
    let seconds = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

/// Engines 23.0 and 24.0.0 to 24.0.2 end the grace of a stop when its client disconnects and send SIGKILL
/// (moby 45731).
pub(super) fn kills_when_the_client_leaves(version: &str) -> bool {
    is_23_0_or_24_0_up_to(2, version)
}

/// Engines 23.0 and 24.0.0 to 24.0.6 do not start a container again whose restart has lost its client (moby 46688).
pub(super) fn stays_stopped_when_the_client_leaves(version: &str) -> bool {
    is_23_0_or_24_0_up_to(6, version)
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
