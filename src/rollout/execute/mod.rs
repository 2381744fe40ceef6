//! Takes one step: a few calls to the engine, each safe to repeat.

mod background_pulls;
mod create;
mod image;
mod prepare;
mod progress;
mod rejection;
mod start;
mod trial;

use std::time::Duration;

use chrono::{DateTime, Utc};
use tracing::debug;
use tracing::field::display;

pub use self::background_pulls::{Pulled, Pulls};
use self::create::{NewContainer, create, create_helper, inspect, keep, labels, recreate};
pub use self::image::image_of;
use self::prepare::prepare;
pub use self::progress::PullState;
use self::rejection::record_rejection;
use self::start::{UNAVAILABLE, start};
use self::trial::try_start;
use super::failure::Failure;
use super::{Intent, Memory, Rollout, Step};
use crate::container::{ContainerId, ImageId, Role, restart_policy_document};
use crate::engine::{Engine, EngineError};
use crate::host::hold::note_first_seen;

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is done.
    Done,
    /// It is done, and it created this container.
    Created(ContainerId),
    /// It changed nothing, for this reason. The next observation shows what follows.
    Nothing(String),
}

/// Takes one step.
///
/// # Errors
/// An engine call failed, or the engine or the container's document forbids the step.
pub async fn execute<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    step: &Step,
    memory: &mut Memory,
    now: DateTime<Utc>,
) -> Result<Effect, Failure> {
    match step {
        Step::NoteFirstSeen { image } => note_first_seen(engine, image, now).await?,
        // Pulls run in the background: see `Pulls`.
        Step::Pull { .. } => {}
        Step::Create {
            from,
            reference,
            image,
            release,
            intent,
        } => {
            let old = inspect(engine, rollout, from).await?;
            let wanted = NewContainer {
                name: rollout.free_name(Role::Candidate),
                image,
                reference: reference.to_string(),
                by_id: matches!(intent, Intent::Rollback(_) | Intent::Reconfigure(..)),
                labels: labels(rollout, &old, image, *release, intent),
                settings: intent.new_settings(from.as_str()),
            };
            let old = wanted
                .settings
                .map_or(old.clone(), |settings| settings.applied_to(&old));
            return create(engine, &old, wanted).await.map(Effect::Created);
        }
        Step::Prepare { id, .. } => return prepare(engine, rollout, id, memory).await,
        Step::TryStart { id, trial, .. } => {
            if let Some(candidate) = rollout.member(id) {
                return try_start(engine, rollout, candidate, trial, memory).await;
            }
        }
        Step::Recreate { from, image } => {
            let id = recreate(engine, rollout, from, image.as_ref()).await?;
            return Ok(Effect::Created(id));
        }
        Step::CreateHelper { from, .. } => {
            if let Some(candidate) = &rollout.candidate {
                let id = create_helper(engine, rollout, from, candidate).await?;
                return Ok(Effect::Created(id));
            }
        }
        Step::Keep { from, settings } => {
            return keep(engine, rollout, from, settings).await.map(Effect::Created);
        }
        Step::Start { id, .. } => return start(engine, rollout, id, memory).await,
        // Calls about a candidate use its name, so that a late step does not affect one that another upgrader has promoted.
        Step::Withdraw { id, to, .. }
        | Step::Announce { id, to }
        | Step::Promote { id, to }
        | Step::Reject { id, to, .. } => {
            let candidate = rollout.candidate.as_ref().filter(|candidate| candidate.id == *id);
            // Its settings failed, and not its image.
            let is_about_image = candidate.is_none_or(|candidate| candidate.reconfigured.is_none());
            if matches!(step, Step::Reject { .. }) && is_about_image {
                record_rejection(engine, rollout, id, now).await;
            }
            let named = candidate.map(|candidate| ContainerId::new(candidate.name.as_str()));
            rename(engine, named.as_ref().unwrap_or(id), to).await?;
        }
        Step::Retire { id, to } | Step::Drain { id, to } | Step::Restore { id, to } => {
            rename(engine, id, to).await?;
        }
        Step::SetRestartPolicy { id, policy, .. } => {
            engine
                .set_restart_policy(id, &restart_policy_document(policy))
                .await?;
        }
        Step::Stop { id, grace, .. } => engine.stop(id, *grace).await?,
        Step::Restart { id, grace, .. } => match engine.restart(id, *grace).await {
            // 503: the engine is not ready. After any other refusal the container may be stopped but not restarted.
            Err(EngineError::Refused { status, message }) if status != UNAVAILABLE => {
                let checks = &mut memory.history(id).checks;
                checks.note_restart(now, Duration::ZERO);
                checks.refused = Some(message.clone());
                return Ok(Effect::Nothing(message));
            }
            restarted => restarted?,
        },
        Step::Remove { id, .. } => {
            engine.remove(id).await?;
            if let Some(image) = image_of_failed(rollout, id) {
                // It stays if something else uses it, or it has other names.
                let kept = engine.remove_image(image).await.err().map(display);
                debug!(%image, kept, "removing the image of a rejected candidate");
            }
        }
        Step::RemoveImage { id } => {
            if memory.discarded.insert(id.clone())
                && let Err(error) = engine.remove_image(id).await
            {
                // Something else uses it, or it has other names.
                return Ok(Effect::Nothing(error.to_string()));
            }
        }
    }
    Ok(Effect::Done)
}

/// The image that was pulled for a rejected candidate which has just been removed; `None` if another container of the delegate
/// uses it or may return to it.
fn image_of_failed<'a>(rollout: &'a Rollout, removed: &ContainerId) -> Option<&'a ImageId> {
    let failed = rollout.failed.iter().find(|failed| failed.id == *removed)?;
    let serving = rollout.serving.as_ref()?;
    let is_kept = failed.image_id == serving.image_id
        || rollout.retained_images.contains(&failed.image_id)
        || rollout
            .candidate
            .as_ref()
            .is_some_and(|candidate| candidate.image_id == failed.image_id);
    (!is_kept).then_some(&failed.image_id)
}

/// Renames a container, unless another upgrader has done so since the observation.
async fn rename<E: Engine>(engine: &E, id: &ContainerId, to: &str) -> Result<(), EngineError> {
    match engine.rename(id, to).await {
        Err(error) if error.is_own_name() => Ok(()),
        renamed => renamed,
    }
}
