//! Tests whether the engine can start a candidate while the container in service still runs: a host that can start nothing new
//! keeps its running containers.

use super::Effect;
use super::create::{NewContainer, create};
use super::start::may_pass;
use crate::document::{self, TRIAL_COMMAND};
use crate::engine::{Engine, EngineError};
use crate::rollout::failure::Failure;
use crate::rollout::{Member, Memory, RefusedStarts, Rollout};

/// Creates, starts and removes a container like the candidate that does nothing. A leftover counts as withdrawn.
pub(super) async fn try_start<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    candidate: &Member,
    name: &str,
    memory: &mut Memory,
) -> Result<Effect, Failure> {
    let wanted = NewContainer::beside(rollout, candidate, name.to_owned());
    let document = document::of_trial(&engine.inspect(&candidate.id).await?);
    let history = memory.history(&candidate.id);
    let created = create(engine, &document, wanted).await;
    let problem = match &created {
        Err(Failure::Refused(reason)) => Some(reason.to_string()),
        // The candidate would start, but could not be recreated. The next one uses an image that is pulled again.
        Err(
            Failure::ImageVanished | Failure::ImageRemoved(_) | Failure::Engine(EngineError::NotFound(_)),
        ) => Some(format!("{} is no longer on the host", candidate.image)),
        _ => None,
    };
    if let Some(problem) = problem {
        history.trial = Some(Err(problem.clone()));
        return Ok(Effect::Nothing(problem));
    }
    let trial = created?;
    let started = engine.start(&trial).await;
    // The removal may fail because the trial container has not ended yet. The next decision then removes it.
    let _later = engine.remove(&trial).await;
    let error = match started {
        Ok(()) => {
            history.trial = Some(Ok(()));
            history.starts = RefusedStarts::default();
            return Ok(Effect::Done);
        }
        Err(error) => error,
    };
    // The trial itself is gone, or a container that it needs.
    let Some(may_pass) = may_pass(&error) else {
        return Err(error.into());
    };
    // All else was there; or the container in service has the last address, which it gives up.
    if error.is_command_missing(TRIAL_COMMAND) || error.is_without_address() {
        history.trial = Some(Ok(()));
        return Ok(Effect::Nothing(error.to_string()));
    }
    history.starts.note(error.explain_start(), may_pass);
    // It is the trial that failed for good, and not the candidate.
    let Some(problem) = history.starts.for_good.take() else {
        return Err(error.into());
    };
    history.trial = Some(Err(problem));
    Ok(Effect::Nothing(error.to_string()))
}
