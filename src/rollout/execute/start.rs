//! Starts a container, and records why the engine refused to.

use tracing::warn;

use super::Effect;
use crate::container::ContainerId;
use crate::engine::{Engine, EngineError};
use crate::rollout::failure::Failure;
use crate::rollout::{Member, Memory, RefusedStarts, Rollout};

/// The status of an engine or proxy that is not ready; it says nothing about the container.
pub(super) const UNAVAILABLE: u16 = 503;

/// Connects a container to the networks that its create call did not include.
pub(super) async fn connect<E: Engine>(engine: &E, id: &ContainerId) -> Result<(), EngineError> {
    for (network, endpoint) in engine.inspect(id).await?.networks_to_connect() {
        match engine.connect(&network, id, &endpoint).await {
            // A delegate without this network is better than none.
            Err(EngineError::NotFound(problem)) => {
                warn!(container_id = %id, problem, "network no longer exists; the container starts without it");
            }
            connected => connected?,
        }
    }
    Ok(())
}

/// Starts a container: a candidate for the first time, or any other one again. If a candidate or helper can never start, its
/// history says why, and the next decision rejects the candidate.
pub(super) async fn start<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    id: &ContainerId,
    memory: &mut Memory,
) -> Result<Effect, Failure> {
    let is_candidate = rollout
        .candidate
        .as_ref()
        .is_some_and(|candidate| candidate.id == *id);
    let is_helper = rollout.helper.as_ref().is_some_and(|helper| helper.id == *id);
    let is_created = rollout.member(id).is_some_and(Member::is_created);
    if is_created {
        connect(engine, id).await?;
    }
    let error = match engine.start(id).await {
        Ok(()) => {
            memory.history(id).starts = RefusedStarts::default();
            return Ok(Effect::Done);
        }
        Err(error) => error,
    };
    // Or else the container itself is not there.
    let is_there = !matches!(error, EngineError::NotFound(_)) || engine.inspect(id).await.is_ok();
    let Some(may_pass) = may_pass(&error).filter(|_| is_there) else {
        return Err(error.into());
    };
    if is_candidate
        && (error.is_port_taken() || error.is_without_address())
        && rollout.serving.is_some()
        && let EngineError::Refused { message, .. } | EngineError::NotFound(message) = error
    {
        // The container in service has to stop first: that frees its port and its address.
        memory.note_no_free_port(&rollout.name, message.clone());
        return Ok(Effect::Nothing(message));
    }
    let starts = &mut memory.history(id).starts;
    starts.note(error.explain_start(), may_pass);
    match &starts.for_good {
        Some(problem) if is_candidate || is_helper => Ok(Effect::Nothing(problem.clone())),
        _ => Err(error.into()),
    }
}

/// Whether a refused start may pass; `None` if it says nothing about the container.
pub(super) fn may_pass(error: &EngineError) -> Option<bool> {
    let is_about_it = match error {
        EngineError::Refused { status, .. } => *status != UNAVAILABLE,
        // Something that the container needs is not there.
        error => matches!(error, EngineError::NotFound(_)),
    };
    // From 500 on the fault may be the engine's, as after a crash; so may be a 400 about the engine.
    let is_engines =
        matches!(error, EngineError::Refused { status: 500.., .. }) || error.is_about_the_engine();
    (is_about_it && !error.is_dependency_missing()).then_some(is_engines)
}
