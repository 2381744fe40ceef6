//! Readies containers for their first start: networks, and whether they are what they replace.

use serde_json::{Map, Value};
use tracing::warn;

use crate::container::{ContainerId, Inspected, label};
use crate::document::{self, Images};
use crate::engine::{Engine, EngineError, EngineInfo};
use crate::rollout::failure::Failure;
use crate::rollout::reason::Reason;
use crate::rollout::{Member, Memory, Rollout};

pub(super) fn unstarted_candidate(rollout: &Rollout) -> Option<&Member> {
    rollout
        .candidate
        .as_ref()
        .filter(|candidate| candidate.is_created())
}

/// Readies a candidate for its first start: it gets its networks and is compared with the one it replaces. This is
/// done before the old one is touched and again before the start, and not after the create, so that a restart of this
/// program leaves nothing out. `false` where it must not be started.
pub(super) async fn prepare_candidate<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    candidate: &Member,
    memory: &mut Memory,
) -> Result<bool, Failure> {
    let Some(replaces) = &candidate.replaces else {
        return Ok(true);
    };
    let old = match engine.inspect(replaces).await {
        // Nothing to compare with: its predecessor is gone.
        Err(EngineError::NotFound(_)) => return Ok(true),
        answer => answer?,
    };
    let Some(reason) = verify_configuration(engine, &old, &candidate.id).await? else {
        return Ok(true);
    };
    if rollout.serving.is_some() {
        // It was not tried.
        if let Some(attempt) = rollout.attempt_of(candidate) {
            engine.remove(&attempt.id).await?;
        }
        engine.remove(&candidate.id).await?;
        return Err(Failure::Refused(reason));
    }
    // The old one was asked to stop, and the way back to its restart policy is the label on this one: it is kept.
    memory.history(&candidate.id).start_refused = Some(reason.to_string());
    Ok(false)
}

/// Refuses to touch an old container whose place a candidate is to take that could not be started: the containers that
/// it needs may have stopped since the observation, and then the old one could not be started again either.
pub(super) async fn check_companions<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    id: &ContainerId,
) -> Result<(), Failure> {
    let Some(candidate) = unstarted_candidate(rollout) else {
        return Ok(());
    };
    let is_untouched = |old: &Member| old.id == *id && old.history.stop_requested_at.is_none();
    if !rollout.serving.iter().chain(&rollout.draining).any(is_untouched) {
        return Ok(());
    }
    let dependencies = document::dependencies(&engine.inspect(&candidate.id).await?);
    if dependencies.is_empty() {
        return Ok(());
    }
    match document::missing_for_start(&dependencies, &engine.containers().await?) {
        Some(missing) => Err(Failure::Refused(Reason::Obstacle(missing))),
        None => Ok(()),
    }
}

/// A standby gets its networks while there is something to copy them from.
pub(super) async fn prepare_standby<E: Engine>(engine: &E, rollout: &Rollout) -> Result<(), Failure> {
    let Some(standby) = rollout.standby.as_ref().filter(|standby| standby.is_created()) else {
        return Ok(());
    };
    let original = standby.replaces.as_ref().and_then(|id| rollout.member(id));
    let Some(original) = original else { return Ok(()) };
    let original = engine.inspect(&original.id).await?;
    match verify_configuration(engine, &original, &standby.id).await? {
        Some(reason) => Err(Failure::Refused(reason)),
        None => Ok(()),
    }
}

/// Connects a standby to the networks it says it has: its original may have vanished before they were connected.
pub(super) async fn connect_standby<E: Engine>(engine: &E, id: &ContainerId) -> Result<(), EngineError> {
    let standby = engine.inspect(id).await?;
    let networks = standby.label(label::NETWORKS).unwrap_or("{}");
    let networks: Map<String, Value> = serde_json::from_str(networks).unwrap_or_default();
    for (network, endpoint) in networks.iter().filter(|(network, _)| !standby.is_in(network)) {
        match engine.connect(network, id, endpoint).await {
            // A delegate without it is better than none.
            Err(EngineError::NotFound(problem)) => {
                warn!(container_id = %id, problem, "network no longer exists; standby starts without it");
            }
            other => other?,
        }
    }
    Ok(())
}

/// Connects a candidate to its networks, and reports how it differs from the one it replaces.
pub(super) async fn verify_configuration<E: Engine>(
    engine: &E,
    old: &Inspected,
    id: &ContainerId,
) -> Result<Option<Reason>, EngineError> {
    let mut candidate = engine.inspect(id).await?;
    let EngineInfo { api, .. } = engine.info().await?;
    let old_image = engine.inspect_image(old.image_id().as_str()).await?;
    let new_image = engine.inspect_image(candidate.image_id().as_str()).await?;
    let images = Images {
        old: &old_image,
        new: &new_image,
    };
    let missing = document::missing_endpoints(old, &candidate, api);
    for (network, endpoint) in &missing {
        engine.connect(network, id, endpoint).await?;
    }
    if !missing.is_empty() {
        candidate = engine.inspect(id).await?;
    }
    let differences = match document::verify(old, &candidate, images) {
        Ok(differences) => differences,
        Err(obstacle) => return Ok(Some(Reason::Obstacle(obstacle))),
    };
    if differences.is_empty() {
        return Ok(None);
    }
    let differences = differences
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ");
    Ok(Some(Reason::ConfigurationMismatch { differences }))
}
