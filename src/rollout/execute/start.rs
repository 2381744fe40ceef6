//! Starts a container, and keeps what a refused start says about it.

use chrono::{DateTime, Utc};

use super::Effect;
use super::prepare::{connect_standby, prepare_candidate, unstarted_candidate};
use crate::container::ContainerId;
use crate::engine::{Engine, EngineError};
use crate::rollout::failure::Failure;
use crate::rollout::{Memory, Rollout, START_ATTEMPTS};

/// Starts a container. A candidate that has never been started is prepared first.
pub(super) async fn start<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    id: &ContainerId,
    memory: &mut Memory,
    now: DateTime<Utc>,
) -> Result<Effect, Failure> {
    let fresh = unstarted_candidate(rollout).filter(|candidate| candidate.id == *id);
    if let Some(candidate) = fresh
        && !prepare_candidate(engine, rollout, candidate, memory).await?
    {
        return Ok(not_started(memory, id));
    }
    if rollout.standby.as_ref().is_some_and(|standby| standby.id == *id) {
        connect_standby(engine, id).await?;
    }
    if let Some(candidate) = fresh {
        memory.note_start(&rollout.name, candidate);
    }
    let outcome = match engine.start(id).await {
        // Something that it needs is not there, or it is gone itself, as an `--rm` container is when its start has failed.
        Err(EngineError::NotFound(message)) if fresh.is_some() => {
            if let Some(candidate) = fresh {
                memory.note_refused(&rollout.name, candidate, &message);
            }
            engine.inspect(id).await?;
            Err(EngineError::Refused { status: 404, message })
        }
        outcome => outcome,
    };
    let is_leftover_task = outcome.as_ref().is_err_and(EngineError::is_leftover_task);
    match outcome {
        Err(EngineError::Refused { status, message }) if status != 503 => {
            match fresh {
                Some(_) if is_leftover_task => memory.forget_candidate(&rollout.name, id),
                Some(candidate) => memory.note_refused(&rollout.name, candidate, &message),
                None => {}
            }
            let history = memory.history(id);
            history.failed_starts += 1;
            // From 500 on the fault may be the engine's, as after a crash.
            let is_final = status < 500 || history.failed_starts >= START_ATTEMPTS;
            if fresh.is_none() || !is_final {
                return Err(EngineError::Refused { status, message }.into());
            }
            if is_leftover_task {
                let outside = "an engine that was killed in the middle of a start cannot repeat it";
                history.note_common_cause(now, outside.to_owned());
            }
            history.start_refused = Some(message);
            Ok(not_started(memory, id))
        }
        Err(error @ (EngineError::Unreachable(_) | EngineError::TimedOut(_))) => {
            // Newer engines give up a start whose caller is gone, and an `--rm` container vanishes with that. It has
            // done nothing wrong.
            memory.forget_candidate(&rollout.name, id);
            Err(error.into())
        }
        Ok(()) => {
            let history = memory.history(id);
            history.failed_starts = 0;
            history.restarted_by_us |= fresh.is_none();
            Ok(Effect::Done)
        }
        Err(error) => Err(error.into()),
    }
}

/// A container that must not or cannot be started is kept as it is: it is rejected by what its history says.
fn not_started(memory: &Memory, id: &ContainerId) -> Effect {
    let refused = memory
        .history_of(id)
        .and_then(|history| history.start_refused.clone());
    Effect::Nothing(refused.unwrap_or_default())
}
