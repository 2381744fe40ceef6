//! Stops on engines that kill at once when the client of a stop goes away: they get the signal alone.

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

/// Engines 23.0 and 24.0.0 to 24.0.2 end the grace of a stop when its client disconnects and send SIGKILL
/// (moby 45731).
pub(super) fn kills_when_the_client_leaves(version: &str) -> bool {
    let mut parts = version
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(Ok(23)), Some(Ok(0)), _) => true,
        (Some(Ok(24)), Some(Ok(0)), Some(Ok(patch))) => patch <= 2,
        _ => false,
    }
}
