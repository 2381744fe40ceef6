//! Takes one step: a few calls to the engine, each safe to repeat.

mod create;
mod prepare;
mod pull;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use tracing::debug;

use self::create::{NewContainer, copy, create, labels, mark};
use self::prepare::{connect_standby, prepare_candidate, prepare_standby, unstarted_candidate};
pub(crate) use self::pull::problem;
pub use self::pull::{Pulled, Pulls};
use super::{Intent, Memory, Rollout, START_ATTEMPTS, Step};
use crate::container::{ContainerId, ImageId, Role};
use crate::engine::{Engine, EngineError};
use crate::rollout::reason::Reason;

/// Why a step was not taken.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The engine erred; what happened is for the next look to tell.
    Engine(EngineError),
    /// The delegate cannot be served in this pass.
    Refused(Reason),
    /// The image is gone between pull and create; it has to be pulled again.
    ImageVanished,
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// Takes one step.
pub async fn execute<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    step: &Step,
    memory: &mut Memory,
    now: DateTime<Utc>,
) -> Result<(), Failure> {
    match step {
        // A pull takes its time, and is not for a step to wait for: see `Pulls`.
        Step::Pull { .. } => {}
        Step::Create {
            from,
            reference,
            image,
            release,
            intent,
        } => {
            prepare_standby(engine, rollout).await?;
            let old = engine.inspect(from).await?;
            let wanted = NewContainer {
                name: Role::Candidate.name(&rollout.name),
                image,
                reference: reference.to_string(),
                by_id: *intent == Intent::Rollback,
                auto_remove: old.should_auto_remove(),
                keeps_networks: false,
                labels: labels(rollout, &old, *release, *intent),
            };
            let id = create(engine, &old, wanted).await?;
            memory.note_created(&rollout.name, id, image.clone());
        }
        Step::CreateStandby { from } => {
            let old = engine.inspect(from).await?;
            let name = Role::Standby.name(&rollout.name);
            copy(engine, rollout, &old, name, false).await?;
        }
        Step::Recreate { from } => {
            connect_standby(engine, from).await?;
            let original = engine.inspect(from).await?;
            let name = Role::Candidate.name(&rollout.name);
            let auto_remove = original.should_auto_remove();
            let id = copy(engine, rollout, &original, name, auto_remove).await?;
            memory.note_created(&rollout.name, id, original.image_id());
        }
        Step::CreateQuarantineMarker { .. } => mark(engine, rollout, step).await?,
        Step::Start { id, .. } => start(engine, rollout, id, memory, now).await?,
        Step::Retire { id, to } => {
            if let Some(fresh) = unstarted_candidate(rollout) {
                prepare_candidate(engine, rollout, fresh, memory).await?;
            }
            engine.rename(id, to).await?;
        }
        Step::Withdraw { id, to, .. } => {
            engine.rename(id, to).await?;
            // It goes by our own hand.
            memory.forget_candidate(&rollout.name, id);
        }
        Step::Promote { id, to } | Step::Reject { id, to, .. } | Step::Restore { id, to } => {
            engine.rename(id, to).await?;
        }
        Step::SetRestartPolicy { id, policy, .. } => {
            // Its successor's label tells it too, but somebody may remove that one.
            if let Some(member) = rollout.member(id).filter(|member| !member.restart_is_off()) {
                memory.history(id).original_policy = Some(member.restart_policy.clone());
            }
            engine.set_restart_policy(id, &policy_document(policy)).await?;
        }
        Step::Stop { id, grace, .. } => engine.stop(id, *grace).await?,
        Step::Remove { id, .. } => {
            engine.remove(id).await?;
            if let Some(image) = image_of_failed(rollout, id) {
                discard(engine, image).await;
            }
            if was_candidate(rollout, id) {
                memory.forget_candidate(&rollout.name, id);
            }
        }
        Step::RemoveImage { id } => {
            if memory.first_discard(id) {
                discard(engine, id).await;
            }
        }
    }
    Ok(())
}

/// Removes an image, unless somebody else uses it or it has other names.
async fn discard<E: Engine>(engine: &E, image: &ImageId) {
    if let Err(error) = engine.remove_image(image).await {
        debug!(%image, %error, "an image is kept");
    }
}

/// The image of a rejected candidate that has just been removed: it was pulled for that one. A candidate that is made
/// of it again uses it, and so keeps it.
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

/// Whether it was a candidate, and went by our own hand. One that was made from a standby counts as an attempt.
fn was_candidate(rollout: &Rollout, removed: &ContainerId) -> bool {
    let standby = rollout.standby.as_ref();
    rollout.candidate.as_ref().is_some_and(|candidate| {
        candidate.id == *removed && !standby.is_some_and(|standby| candidate.is_successor_of(standby))
    })
}

/// `always`, `on-failure:5` → the engine's words.
pub(super) fn policy_document(policy: &str) -> Value {
    let (name, retries) = policy.split_once(':').unwrap_or((policy, "0"));
    json!({ "Name": name, "MaximumRetryCount": retries.parse::<u64>().unwrap_or_default() })
}

/// Starts a container. One that has never been started is ours, and is readied first.
async fn start<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    id: &ContainerId,
    memory: &mut Memory,
    now: DateTime<Utc>,
) -> Result<(), Failure> {
    let fresh = unstarted_candidate(rollout).filter(|candidate| candidate.id == *id);
    if let Some(candidate) = fresh
        && !prepare_candidate(engine, rollout, candidate, memory).await?
    {
        return Ok(());
    }
    if rollout.standby.as_ref().is_some_and(|standby| standby.id == *id) {
        connect_standby(engine, id).await?;
    }
    if let Some(candidate) = fresh {
        memory.note_start(&rollout.name, candidate);
    }
    let outcome = match engine.start(id).await {
        // Of something it needs, unless it is gone itself; an `--rm` container is, when its start has failed.
        Err(EngineError::NotFound(message)) if fresh.is_some() => {
            if let Some(candidate) = fresh {
                memory.note_refused(&rollout.name, candidate, &message);
            }
            engine.inspect(id).await?;
            Err(EngineError::Refused { status: 404, message })
        }
        outcome => outcome,
    };
    match outcome {
        Err(EngineError::Refused { status, message }) if status != 503 => {
            let left_over = is_left_over(&message);
            match fresh {
                Some(_) if left_over => memory.forget_candidate(&rollout.name, id),
                Some(candidate) => memory.note_refused(&rollout.name, candidate, &message),
                None => {}
            }
            let history = memory.history(id);
            history.failed_starts += 1;
            // An engine that fails may fail for reasons of its own, as after a crash.
            let is_final = status < 500 || history.failed_starts >= START_ATTEMPTS;
            if fresh.is_none() || !is_final {
                return Err(EngineError::Refused { status, message }.into());
            }
            if left_over {
                let outside = "an engine that was killed in the middle of a start cannot repeat it";
                history.note_common_cause(now, outside.to_owned());
            }
            history.start_refused = Some(message);
            Ok(())
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
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Docker 20.10, killed in the middle of a start, leaves the task with containerd, and can never start that container
/// again.
fn is_left_over(message: &str) -> bool {
    message.contains("already exists") || message.contains("id already in use")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_policy_is_read_as_docker_run_writes_it() {
        assert_eq!(
            policy_document("always"),
            json!({ "Name": "always", "MaximumRetryCount": 0 })
        );
        assert_eq!(
            policy_document("on-failure:5"),
            json!({ "Name": "on-failure", "MaximumRetryCount": 5 })
        );
    }
}
