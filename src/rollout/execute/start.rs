//! Starts a container, and keeps what a refused start says about it.

use chrono::{DateTime, Utc};
use tracing::debug;

use super::Effect;
use super::prepare::{connect_standby, not_prepared, prepare_candidate, unstarted_candidate};
use crate::container::ContainerId;
use crate::engine::{Engine, EngineError};
use crate::rollout::failure::Failure;
use crate::rollout::{Member, Memory, Rollout, START_ATTEMPTS};

/// The status of an engine, or of a proxy, that is not ready: it says nothing about the container.
pub(super) const UNAVAILABLE: u16 = 503;

/// Starts a container: a candidate for the first time, or any other one again.
pub(super) async fn start<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    id: &ContainerId,
    memory: &mut Memory,
    now: DateTime<Utc>,
) -> Result<Effect, Failure> {
    match unstarted_candidate(rollout).filter(|candidate| candidate.id == *id) {
        Some(candidate) => start_candidate(engine, rollout, candidate, memory, now).await,
        None => start_again(engine, rollout, id, memory).await,
    }
}

/// Starts a candidate for the first time. Where the start is refused for good, its history says why, and the next
/// decision rejects it.
async fn start_candidate<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    candidate: &Member,
    memory: &mut Memory,
    now: DateTime<Utc>,
) -> Result<Effect, Failure> {
    if !prepare_candidate(engine, rollout, candidate, memory, now).await? {
        return Ok(not_prepared(candidate, memory));
    }
    memory.note_start(&rollout.name, candidate);
    let Err(error) = engine.start(&candidate.id).await else {
        memory.history(&candidate.id).failed_starts = 0;
        return Ok(Effect::Done);
    };
    // What stands in for an `--rm` delegate is not made again and again.
    let is_copy = rollout
        .standby
        .as_ref()
        .is_some_and(|standby| candidate.is_successor_of(standby));
    if error.is_dependency_missing() && !is_copy {
        memory.excuse_candidate(&rollout.name, &candidate.id);
        forget_attempt(engine, rollout, candidate).await;
    }
    let error = match error {
        // Something that it needs is not there, unless it is gone itself, as an `--rm` container is after a failed
        // start.
        EngineError::NotFound(message) => {
            memory.note_refused(&rollout.name, candidate, &message);
            engine.inspect(&candidate.id).await?;
            EngineError::Refused { status: 404, message }
        }
        error => error,
    };
    let common_cause = common_cause(&error);
    let no_free_port = error.is_port_taken() && rollout.serving.is_some();
    let (status, message) = match error {
        EngineError::Refused { status, message } if status != UNAVAILABLE => (status, message),
        error => {
            note_lost(rollout, &candidate.id, memory, &error);
            return Err(error.into());
        }
    };
    memory.note_refused(&rollout.name, candidate, &message);
    if common_cause.is_some() && !is_copy {
        memory.excuse_candidate(&rollout.name, &candidate.id);
    }
    if no_free_port {
        // The one in service has to stop first: that frees its port.
        memory.note_no_free_port(&rollout.name, message.clone());
        return Ok(Effect::Nothing(message));
    }
    let history = memory.history(&candidate.id);
    history.failed_starts += 1;
    // From 500 on the fault may be the engine's, as after a crash. What is not the image's may pass as well.
    let may_pass = status >= 500 || common_cause.is_some();
    if may_pass && history.failed_starts < START_ATTEMPTS {
        return Err(EngineError::Refused { status, message }.into());
    }
    if let Some(cause) = common_cause {
        history.note_common_cause(now, cause);
    }
    history.start_refused = Some(message.clone());
    Ok(Effect::Nothing(message))
}

/// Removes the attempt marker of a candidate that was not tried after all. Where that fails, only this process knows.
async fn forget_attempt<E: Engine>(engine: &E, rollout: &Rollout, candidate: &Member) {
    if let Some(attempt) = rollout.attempt_of(candidate)
        && let Err(error) = engine.remove(&attempt.id).await
    {
        debug!(container = %attempt.id, %error, "the attempt marker stays");
    }
}

/// What made a start fail that says nothing about the image.
fn common_cause(error: &EngineError) -> Option<&'static str> {
    if error.is_leftover_task() {
        Some("an engine that was killed during a start cannot repeat it")
    } else if error.is_leftover_endpoint() {
        Some("the engine did not remove an endpoint of that name from the network")
    } else if error.is_port_taken() {
        Some("something else has a port that it publishes")
    } else {
        None
    }
}

/// Starts a container that has run before, or a standby.
async fn start_again<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    id: &ContainerId,
    memory: &mut Memory,
) -> Result<Effect, Failure> {
    let mut copies = rollout.standby.iter().chain(&rollout.helper);
    if copies.any(|copy| copy.id == *id) {
        connect_standby(engine, id).await?;
    }
    match engine.start(id).await {
        Ok(()) => {
            let history = memory.history(id);
            history.failed_starts = 0;
            history.restarted_by_us = true;
            Ok(Effect::Done)
        }
        Err(error) => {
            match error {
                EngineError::Refused { status, .. } if status != UNAVAILABLE => {
                    memory.history(id).failed_starts += 1;
                }
                _ => note_lost(rollout, id, memory, &error),
            }
            Err(error.into())
        }
    }
}

/// Excuses a candidate whose start got no answer. Newer engines give up a start whose client went away, and an `--rm`
/// container vanishes with that: it has done nothing wrong.
fn note_lost(rollout: &Rollout, id: &ContainerId, memory: &mut Memory, error: &EngineError) {
    if matches!(error, EngineError::Unreachable(_) | EngineError::TimedOut(_)) {
        memory.excuse_candidate(&rollout.name, id);
    }
}
