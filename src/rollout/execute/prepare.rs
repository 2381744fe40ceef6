//! Readies containers for their first start: networks, and whether they are what they replace.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use tracing::warn;

use super::Effect;
use crate::container::{ContainerId, Inspected, label, restart_policy_document};
use crate::document::{self, Images, Obstacle};
use crate::engine::{Engine, EngineError, EngineInfo};
use crate::rollout::failure::Failure;
use crate::rollout::reason::Reason;
use crate::rollout::{Member, Memory, Rollout};

/// What a candidate's failure is put down to where its image is gone.
pub(super) const IMAGE_REMOVED: &str = "the image was removed from this host meanwhile";

pub(super) fn unstarted_candidate(rollout: &Rollout) -> Option<&Member> {
    rollout
        .candidate
        .as_ref()
        .filter(|candidate| candidate.is_created())
}

/// Readies a candidate: it gets its networks and is compared with the one it replaces. This is done before the old one
/// is touched and again before the start, and not after the create, so that a restart of this program leaves nothing
/// out, and nothing that somebody set meanwhile is lost. `false` where it must not go on: then its history says why.
pub(crate) async fn prepare_candidate<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    candidate: &Member,
    memory: &mut Memory,
    now: DateTime<Utc>,
) -> Result<bool, Failure> {
    // Somebody tidied up: `docker rmi -f` takes the image of a container that does not run.
    if candidate.is_created()
        && let Err(EngineError::NotFound(problem)) = engine.inspect_image(candidate.image_id.as_str()).await
    {
        let history = memory.history(&candidate.id);
        history.note_common_cause(now, IMAGE_REMOVED);
        history.start_refused = Some(problem);
        compare_standby(engine, rollout, candidate, memory).await?;
        return Ok(false);
    }
    let Some(replaces) = &candidate.replaces else {
        return Ok(true);
    };
    let mut old = match engine.inspect(replaces).await {
        // Nothing to compare with: its predecessor is gone.
        Err(EngineError::NotFound(_)) => return Ok(true),
        answer => answer?,
    };
    return_policy(&mut old, memory);
    let difference = verify_configuration(engine, &old, &candidate.id).await?;
    if let Some(seen) = rollout.member(replaces) {
        memory.history(replaces).compared_settings = Some(seen.settings);
    }
    let Some(reason) = difference else {
        return Ok(true);
    };
    if rollout
        .member(replaces)
        .is_some_and(|member| member.name != old.name())
    {
        // Another process has gone on meanwhile.
        return Ok(false);
    }
    // Between two lives it loses its policy before its name. Where another process took it off, the label of the candidate is
    // all that remembers it. Of one that runs, somebody may have taken it off.
    let lost_its_policy = |serving: &Member| {
        serving.has_ended() && serving.restart_is_off() && candidate.predecessor_restarts().is_some()
    };
    let is_untouched =
        |serving: &Member| serving.history.original_policy.is_none() && !lost_its_policy(serving);
    if rollout.serving.as_ref().is_some_and(is_untouched) && candidate.is_created() {
        // It was not tried.
        if let Some(attempt) = rollout.attempt_of(candidate) {
            engine.remove(&attempt.id).await?;
        }
        engine.remove(&candidate.id).await?;
        return Err(Failure::Refused(reason));
    }
    if let Reason::Obstacle(Obstacle::ImageRemoved { .. }) = reason {
        // It was compared before, when that image was there.
        return Ok(true);
    }
    // It was compared before: since then somebody changed one of the two.
    if memory.note_outdated(&rollout.name, &candidate.id, reason.to_string()) {
        Ok(false)
    } else {
        Err(Failure::Refused(reason))
    }
}

/// Compares the old one with its standby, in place of a candidate whose image is gone: that one cannot be compared, and what
/// somebody sets while the old one finishes its tasks has to last.
async fn compare_standby<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    candidate: &Member,
    memory: &mut Memory,
) -> Result<(), EngineError> {
    let mut draining = rollout.draining.iter();
    let Some(old) = draining.find(|old| candidate.is_successor_of(old) && old.auto_remove) else {
        return Ok(());
    };
    if let Some(standby) = rollout.standby.as_ref().filter(|standby| standby.is_created()) {
        let document = match engine.inspect(&old.id).await {
            Err(EngineError::NotFound(_)) => return Ok(()),
            answer => answer?,
        };
        let difference = verify_configuration(engine, &document, &standby.id).await?;
        if let Some(mismatch @ Reason::ConfigurationMismatch { .. }) = difference {
            memory.history(&candidate.id).outdated = Some(mismatch.to_string());
        }
    }
    memory.history(&old.id).compared_settings = Some(old.settings);
    Ok(())
}

/// Puts back the restart policy that this process took off: it is still what the owner set.
pub(super) fn return_policy(old: &mut Inspected, memory: &Memory) {
    let history = memory.history_of(&old.id());
    let taken = history.and_then(|history| history.original_policy.as_ref());
    if let Some(policy) = taken.filter(|_| old.restart_policy_text() == "no") {
        old.replace("/HostConfig/RestartPolicy", restart_policy_document(policy));
    }
}

/// Why the candidate must not be started, or take over, as its history says.
pub(super) fn not_prepared(candidate: &Member, memory: &Memory) -> Effect {
    let history = memory.history_of(&candidate.id);
    let problem = history.and_then(|history| history.outdated.as_ref().or(history.start_refused.as_ref()));
    Effect::Nothing(problem.cloned().unwrap_or_default())
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

/// Whether the one in service was started, or has ended, since it was observed. To compare it with its successor takes
/// several calls, each of which can be slow; what somebody stopped meanwhile is to keep its name.
pub(super) async fn lives_otherwise<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    id: &ContainerId,
) -> Result<bool, EngineError> {
    let Some(observed) = rollout.serving.as_ref().filter(|serving| serving.id == *id) else {
        return Ok(false);
    };
    let now = engine.inspect(id).await?;
    Ok((now.started_at(), now.finished_at()) != (observed.started_at, observed.finished_at))
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
                warn!(container_id = %id, problem, "network no longer exists; the copy starts without it");
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
    let old_image = match engine.inspect_image(old.image_id().as_str()).await {
        Err(EngineError::NotFound(_)) => {
            let image = old.image_reference().to_owned();
            return Ok(Some(Reason::Obstacle(Obstacle::ImageRemoved { image })));
        }
        answer => answer?,
    };
    let new_image = match engine.inspect_image(candidate.image_id().as_str()).await {
        // It runs, and was compared before its start: somebody removed the image by force since then.
        Err(EngineError::NotFound(_)) if candidate.started_at().is_some() => return Ok(None),
        answer => answer?,
    };
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
