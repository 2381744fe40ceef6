//! Starts a container, and records why the engine refused to.

use tracing::warn;

use super::Effect;
use crate::container::ContainerId;
use crate::engine::{Engine, EngineError};
use crate::rollout::failure::Failure;
use crate::rollout::pace::START_ATTEMPTS;
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
    let (status, message) = match &error {
        EngineError::Refused { status, message } if *status != UNAVAILABLE => (*status, message.clone()),
        // Something that the container needs is missing.
        EngineError::NotFound(message) if engine.inspect(id).await.is_ok() => (404, message.clone()),
        _ => return Err(error.into()),
    };
    if error.is_dependency_missing() {
        return Err(error.into());
    }
    if is_candidate && error.is_for_another_instance() && rollout.serving.is_some() {
        // Stopping the container in service frees its port and its address.
        memory.note_no_free_port(&rollout.name, message.clone());
        return Ok(Effect::Nothing(message));
    }
    let starts = &mut memory.history(id).starts;
    starts.count += 1;
    // From 500 on, the engine may be at fault, as after a crash; so may it for a 400 about the engine itself.
    let may_pass = status >= 500 || error.is_about_the_engine();
    if !(is_candidate || is_helper) || may_pass && starts.count < START_ATTEMPTS {
        return Err(error.into());
    }
    starts.for_good = Some(error.explain_start());
    Ok(Effect::Nothing(message))
}
