//! Takes one step: a few calls to the engine, each safe to repeat.

mod create;
pub(crate) mod prepare;
mod progress;
mod pull;
mod start;

use std::time::Duration;

use chrono::{DateTime, Utc};
use tracing::debug;
use tracing::field::display;

use self::create::{NewContainer, copy, create, create_attempt_marker, create_helper, labels};
use self::prepare::{
    IMAGE_REMOVED, check_companions, connect_standby, lives_otherwise, not_prepared, prepare_candidate,
    prepare_standby, return_policy, unstarted_candidate,
};
pub use self::progress::PullState;
pub use self::pull::{Pulled, Pulls};
use self::start::{UNAVAILABLE, start};
use super::failure::Failure;
use super::{Intent, Member, Memory, Rollout, Step};
use crate::container::{ContainerId, ImageId, Role, restart_policy_document};
use crate::engine::{Engine, EngineError};
use crate::host::hold::note_first_seen;

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is done.
    Done,
    /// It is done, and this container was created.
    Created(ContainerId),
    /// It has changed nothing, and why. What follows from that is decided after the next observation.
    Nothing(String),
}

/// Takes one step.
///
/// # Errors
/// An engine call failed, or the engine or the rules of a container's document forbid the step.
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
            prepare_standby(engine, rollout).await?;
            let mut old = engine.inspect(from).await?;
            return_policy(&mut old, memory);
            let wanted = NewContainer {
                name: Role::Candidate.name(&rollout.name),
                image,
                reference: reference.to_string(),
                by_id: *intent == Intent::Rollback,
                is_standby: false,
                labels: labels(rollout, &old, image, *release, *intent),
            };
            let id = create(engine, &old, wanted).await?;
            memory.note_created(&rollout.name, id.clone(), image.clone());
            return Ok(Effect::Created(id));
        }
        Step::CreateStandby { from } => {
            let old = engine.inspect(from).await?;
            let name = Role::Standby.name(&rollout.name);
            let id = copy(engine, rollout, &old, name, true).await?;
            memory.history(&id).copied_settings = Some(old.settings());
            return Ok(Effect::Created(id));
        }
        Step::Recreate { from } => {
            connect_standby(engine, from).await?;
            let original = engine.inspect(from).await?;
            let name = Role::Candidate.name(&rollout.name);
            let copied = copy(engine, rollout, &original, name, false).await;
            let is_for_good = |failure: &Failure| {
                matches!(
                    failure,
                    Failure::Refused(_) | Failure::ImageVanished | Failure::Engine(EngineError::NotFound(_))
                )
            };
            if copied.as_ref().is_err_and(is_for_good) {
                memory.history(from).recreate_refused = true;
            }
            let id = copied?;
            memory.note_created(&rollout.name, id.clone(), original.image_id());
            return Ok(Effect::Created(id));
        }
        Step::CreateAttemptMarker { candidate, .. } => {
            if let Some(candidate) = rollout.member(candidate) {
                match create_attempt_marker(engine, rollout, candidate).await {
                    Err(Failure::Engine(EngineError::NotFound(problem))) => {
                        let history = memory.history(&candidate.id);
                        history.note_common_cause(now, IMAGE_REMOVED);
                        history.start_refused = Some(problem.clone());
                        return Ok(Effect::Nothing(problem));
                    }
                    marked => marked?,
                }
            }
        }
        Step::CreateHelper { from, .. } => {
            if let Some(candidate) = &rollout.candidate {
                let id = create_helper(engine, rollout, from, candidate).await?;
                return Ok(Effect::Created(id));
            }
        }
        Step::Start { id, .. } => return start(engine, rollout, id, memory, now).await,
        Step::Retire { id, to } => {
            if let Some(differs) = compare_successor(engine, rollout, id, memory, now).await? {
                return Ok(differs);
            }
            check_companions(engine, rollout, id).await?;
            if lives_otherwise(engine, rollout, id).await? {
                return Ok(Effect::Nothing(
                    "it was started or has ended meanwhile".to_owned(),
                ));
            }
            engine.rename(id, to).await?;
        }
        Step::Withdraw { id, to, .. } => {
            give_up(engine, rollout, id, to).await?;
            // We remove it ourselves, so its disappearance is not a failed attempt.
            memory.forget_candidate(&rollout.name, id);
        }
        Step::Rename { id, to } | Step::Promote { id, to } | Step::Restore { id, to } => {
            engine.rename(id, to).await?;
        }
        Step::Reject { id, to, .. } | Step::SetAside { id, to, .. } => {
            give_up(engine, rollout, id, to).await?;
        }
        Step::SetRestartPolicy { id, policy, .. } => {
            // Between two lives it loses its policy before its name.
            let is_serving = rollout.serving.as_ref().is_some_and(|serving| serving.id == *id);
            if policy == "no"
                && is_serving
                && let Some(differs) = compare_successor(engine, rollout, id, memory, now).await?
            {
                return Ok(differs);
            }
            // Its successor's label has the policy too, but the successor may be removed.
            if let Some(member) = rollout.member(id).filter(|member| !member.restart_is_off()) {
                memory.history(id).original_policy = Some(member.restart_policy.clone());
            }
            if policy != "no"
                && rollout
                    .draining
                    .iter()
                    .any(|old| old.id == *id && old.has_ended())
            {
                memory.history(id).policy_returned = true;
            }
            engine
                .set_restart_policy(id, &restart_policy_document(policy))
                .await?;
        }
        Step::Stop { id, grace, .. } => {
            check_companions(engine, rollout, id).await?;
            engine.stop(id, *grace).await?;
        }
        Step::Restart { id, grace, .. } => match engine.restart(id, *grace).await {
            // 503: it is not ready. Otherwise it may have been stopped, and not started again.
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
            if was_candidate(rollout, id) {
                memory.forget_candidate(&rollout.name, id);
            }
            if rollout.attempt.as_ref().is_some_and(|attempt| attempt.id == *id) {
                // Whoever is excused is so no longer.
                memory.forget_excused(&rollout.name);
            }
        }
        Step::RemoveImage { id } => {
            if memory.first_discard(id)
                && let Err(error) = engine.remove_image(id).await
            {
                // Something else uses it, or it has other names.
                return Ok(Effect::Nothing(error.to_string()));
            }
        }
    }
    Ok(Effect::Done)
}

/// Renames a candidate that is not wanted any more. It goes by its name: a step that is late does not reach one that
/// another upgrader has promoted meanwhile.
async fn give_up<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    id: &ContainerId,
    to: &str,
) -> Result<(), EngineError> {
    let candidate = rollout.candidate.as_ref().filter(|candidate| candidate.id == *id);
    let named = candidate.map(|candidate| ContainerId::new(candidate.name.as_str()));
    engine.rename(named.as_ref().unwrap_or(id), to).await
}

/// The image of a rejected candidate that has just been removed, since it was pulled for that one; `None` where another
/// container of the delegate uses it or may go back to it.
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

/// Whether the container that we removed was a candidate. One that was created from a standby still counts as an
/// attempt.
fn was_candidate(rollout: &Rollout, removed: &ContainerId) -> bool {
    let standby = rollout.standby.as_ref();
    rollout.candidate.as_ref().is_some_and(|candidate| {
        candidate.id == *removed && !standby.is_some_and(|standby| candidate.is_successor_of(standby))
    })
}

/// Compares the one that is about to give up its name with its candidate: what came of it where they differ.
async fn compare_successor<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    id: &ContainerId,
    memory: &mut Memory,
    now: DateTime<Utc>,
) -> Result<Option<Effect>, Failure> {
    let takes_over = |candidate: &&Member| {
        let serving = rollout.serving.as_ref().filter(|serving| serving.id == *id);
        serving.is_some_and(|serving| candidate.is_successor_of(serving))
    };
    let successor = rollout.candidate.as_ref().filter(takes_over);
    // A candidate that differs, or that cannot be started, was compared before.
    let is_compared = |candidate: &&Member| {
        candidate.history.outdated.is_none() && candidate.history.start_refused.is_none()
    };
    match unstarted_candidate(rollout).or(successor).filter(is_compared) {
        Some(candidate) if !prepare_candidate(engine, rollout, candidate, memory, now).await? => {
            Ok(Some(not_prepared(candidate, memory)))
        }
        _ => Ok(None),
    }
}
