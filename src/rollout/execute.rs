//! Takes one step: a few calls to the engine, each safe to repeat.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};
use tracing::{debug, warn};

use super::{Demand, Member, Memory, Rollout, START_ATTEMPTS, Step};
use crate::delegate::{ContainerId, DELEGATE_NAME_VARIABLE, ImageId, Role, label};
use crate::document::{self, Images};
use crate::engine::{Engine, EngineError, EngineInfo, Inspected};
use crate::reason::Reason;

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
        Step::Rest(_) | Step::Wait { .. } | Step::Pull { .. } => {}
        Step::Create {
            from,
            reference,
            image,
            release,
            demand,
        } => {
            equip_standby(engine, rollout).await?;
            let old = engine.inspect(from).await?;
            let wanted = Successor {
                name: Role::Candidate.name(&rollout.name),
                image,
                reference: reference.to_string(),
                by_id: *demand == Demand::Rollback,
                auto_remove: old.should_auto_remove(),
                keeps_networks: false,
                labels: labels(rollout, &old, *release, *demand),
            };
            let id = create(engine, &old, wanted).await?;
            memory.note_created(&rollout.name, id, image.clone(), old.should_auto_remove());
        }
        Step::Standby { from } => {
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
            memory.note_created(&rollout.name, id, original.image_id(), auto_remove);
        }
        Step::Mark { .. } => mark(engine, rollout, step).await?,
        Step::Start { id, .. } => start(engine, rollout, id, memory, now).await?,
        Step::Retire { id, to } => {
            if let Some(fresh) = fresh_candidate(rollout) {
                equip(engine, rollout, fresh, memory).await?;
            }
            engine.rename(id, to).await?;
        }
        Step::Withdraw { id, to, .. }
        | Step::Promote { id, to }
        | Step::Reject { id, to, .. }
        | Step::Restore { id, to } => {
            engine.rename(id, to).await?;
        }
        Step::SetRestartPolicy { id, policy, .. } => {
            // Its successor's label tells it too, but somebody may remove that one.
            if let Some(member) = rollout.member(id).filter(|member| !member.restart_is_off()) {
                memory.watch(id).policy_before = Some(member.restart_policy.clone());
            }
            engine.set_restart_policy(id, &policy_document(policy)).await?;
        }
        Step::Stop { id, grace, .. } => {
            engine.stop(id, *grace).await?;
            memory.watch(id).told_to_stop = Some(now);
        }
        Step::Remove { id, .. } => {
            engine.remove(id).await?;
            if let Some(image) = image_of_failed(rollout, id) {
                discard(engine, image).await;
            }
            forget_what_serves(rollout, id, memory);
        }
        Step::DiscardImage { id } => {
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
        || Some(&failed.image_id) == serving.previous_image_id.as_ref()
        || rollout
            .candidate
            .as_ref()
            .is_some_and(|candidate| candidate.image_id == failed.image_id);
    (!is_kept).then_some(&failed.image_id)
}

/// Its standby has just gone, so what serves has proven itself: when it vanishes one day, it does so by itself.
fn forget_what_serves(rollout: &Rollout, removed: &ContainerId, memory: &mut Memory) {
    let was_standby = rollout
        .standby
        .as_ref()
        .is_some_and(|standby| standby.id == *removed);
    if let Some(serving) = rollout.serving.as_ref().filter(|_| was_standby) {
        memory.forget_candidate(&rollout.name, &serving.id);
    }
}

/// `always`, `on-failure:5` → the engine's words.
fn policy_document(policy: &str) -> Value {
    let (name, retries) = policy.split_once(':').unwrap_or((policy, "0"));
    json!({ "Name": name, "MaximumRetryCount": retries.parse::<u64>().unwrap_or_default() })
}

/// A container to be made from another one.
struct Successor<'a> {
    name: String,
    image: &'a ImageId,
    reference: String,
    /// Whether the image may be named by its id, where the reference is gone or stands for another one by now.
    by_id: bool,
    auto_remove: bool,
    /// Whether its networks are written down on it, since it may have to do without its original soon.
    keeps_networks: bool,
    labels: Vec<(&'static str, String)>,
}

/// Our labels on the successor of a delegate.
fn labels(rollout: &Rollout, old: &Inspected, release: u64, demand: Demand) -> Vec<(&'static str, String)> {
    let (image, image_id) = (
        old.image_reference().to_owned(),
        old.image_id().as_str().to_owned(),
    );
    let mut labels = vec![
        (label::REPLACES, old.id().as_str().to_owned()),
        (label::NAME, rollout.name.clone()),
        (label::RELEASE, release.to_string()),
        (label::PREVIOUS_IMAGE, image.clone()),
        (label::PREVIOUS_IMAGE_ID, image_id.clone()),
        (label::RESTART_POLICY, old.restart_policy_text()),
    ];
    if demand == Demand::Rollback {
        labels.push((label::ROLLED_BACK_FROM, image));
        labels.push((label::ROLLED_BACK_FROM_ID, image_id));
    }
    labels
}

/// The same container once more, of the same image, with or without `--rm`.
async fn copy<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    original: &Inspected,
    name: String,
    auto_remove: bool,
) -> Result<ContainerId, Failure> {
    let mut labels = vec![
        (label::REPLACES, original.id().as_str().to_owned()),
        (label::NAME, rollout.name.clone()),
        (label::RESTART_POLICY, original.restart_policy_text()),
    ];
    for history in label::HISTORY {
        if let Some(value) = original.label(history) {
            labels.push((history, value.to_owned()));
        }
    }
    if !auto_remove && original.should_auto_remove() {
        labels.push((label::AUTO_REMOVE, "true".to_owned()));
    }
    let image = original.image_id();
    let wanted = Successor {
        name,
        image: &image,
        reference: original.image_reference().to_owned(),
        by_id: true,
        auto_remove,
        keeps_networks: !auto_remove,
        labels,
    };
    create(engine, original, wanted).await
}

async fn create<E: Engine>(
    engine: &E,
    old: &Inspected,
    mut wanted: Successor<'_>,
) -> Result<ContainerId, Failure> {
    let EngineInfo { api, .. } = engine.info().await?;
    let image = wanted.image;
    let old_image = engine.inspect_image(old.image_id().as_str()).await?;
    let new_image = match engine.inspect_image(image.as_str()).await {
        Err(EngineError::NotFound(_)) => return Err(Failure::ImageVanished),
        answer => answer?,
    };
    let images = Images {
        old: &old_image,
        new: &new_image,
    };
    if wanted.by_id && !stands_for(engine, &wanted.reference, image).await? {
        let reference = std::mem::replace(&mut wanted.reference, image.as_str().to_owned());
        wanted.labels.push((label::IMAGE, reference));
    }
    let mut successor = document::successor(old.document(), images, &wanted.reference, &wanted.labels, api)
        .map_err(|obstacle| Failure::Refused(Reason::Obstacle(obstacle)))?;
    if let Some(host_config) = successor
        .body
        .get_mut("HostConfig")
        .and_then(Value::as_object_mut)
    {
        host_config.insert("AutoRemove".to_owned(), Value::from(wanted.auto_remove));
    }
    if wanted.keeps_networks
        && !successor.connect.is_empty()
        && let Some(labels) = successor.body.get_mut("Labels").and_then(Value::as_object_mut)
    {
        let networks: Value = successor.connect.iter().cloned().collect();
        labels.insert(label::NETWORKS.to_owned(), Value::from(networks.to_string()));
    }
    match engine
        .create(&wanted.name, successor.platform.as_deref(), &successor.body)
        .await
    {
        // The tag may have moved since the pull.
        Ok(id) if engine.inspect(&id).await?.image_id() != *image => {
            engine.remove(&id).await?;
            Err(Failure::ImageVanished)
        }
        Ok(id) => Ok(id),
        Err(EngineError::NotFound(problem)) => match engine.inspect_image(image.as_str()).await {
            Err(EngineError::NotFound(_)) => Err(Failure::ImageVanished),
            _ => Err(Failure::Refused(Reason::CreateRefused { problem })),
        },
        Err(EngineError::Refused {
            status: 400..=499,
            message,
        }) => Err(Failure::Refused(Reason::CreateRefused { problem: message })),
        Err(error) => Err(error.into()),
    }
}

async fn stands_for<E: Engine>(engine: &E, reference: &str, image: &ImageId) -> Result<bool, EngineError> {
    match engine.inspect_image(reference).await {
        Err(EngineError::NotFound(_)) => Ok(false),
        answer => Ok(answer?.get("Id").and_then(Value::as_str) == Some(image.as_str())),
    }
}

/// Stands for a rejected `--rm` candidate, which vanishes by stopping. It is found like a delegate, by the variable,
/// and told from one by its name and labels.
async fn mark<E: Engine>(engine: &E, rollout: &Rollout, step: &Step) -> Result<(), Failure> {
    let Step::Mark {
        id: image,
        image: reference,
        to: name,
        replaces,
        release,
        ..
    } = step
    else {
        return Ok(());
    };
    let mut labels = json!({
        label::REPLACES: replaces.as_str(),
        label::NAME: rollout.name,
        label::RELEASE: release.to_string(),
    });
    let mut named = reference.as_str();
    if !stands_for(engine, reference, image).await? {
        named = image.as_str();
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(label::IMAGE.to_owned(), Value::from(reference.as_str()));
        }
    }
    let body = json!({
        "Image": named,
        "Env": [format!("{DELEGATE_NAME_VARIABLE}={}", rollout.delegate)],
        "Cmd": ["never-started"],
        "Labels": labels,
        "HostConfig": { "NetworkMode": "none", "RestartPolicy": { "Name": "no" } },
    });
    match engine.create(name, None, &body).await {
        // Another process was as quick.
        Ok(_) | Err(EngineError::Conflict(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Starts a container. One that has never been started is ours, and is readied first.
async fn start<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    id: &ContainerId,
    memory: &mut Memory,
    now: DateTime<Utc>,
) -> Result<(), Failure> {
    let fresh = fresh_candidate(rollout).filter(|candidate| candidate.id == *id);
    if let Some(candidate) = fresh
        && !equip(engine, rollout, candidate, memory).await?
    {
        return Ok(());
    }
    if rollout.standby.as_ref().is_some_and(|standby| standby.id == *id) {
        connect_standby(engine, id).await?;
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
            let watch = memory.watch(id);
            watch.failed_starts += 1;
            // An engine that fails may fail for reasons of its own, as after a crash.
            let is_final = status < 500 || watch.failed_starts >= START_ATTEMPTS;
            if fresh.is_none() || !is_final {
                return Err(EngineError::Refused { status, message }.into());
            }
            if left_over {
                let outside = "an engine that was killed in the middle of a start cannot repeat it";
                watch.disturb(now, outside.to_owned());
            }
            watch.start_refused = Some(message);
            Ok(())
        }
        Err(error @ (EngineError::Unreachable(_) | EngineError::TimedOut(_))) => {
            // Newer engines give up a start whose caller is gone, and an `--rm` container vanishes with that. It has
            // done nothing wrong.
            memory.forget_candidate(&rollout.name, id);
            Err(error.into())
        }
        Ok(()) => {
            memory.watch(id).failed_starts = 0;
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

fn fresh_candidate(rollout: &Rollout) -> Option<&Member> {
    rollout
        .candidate
        .as_ref()
        .filter(|candidate| candidate.is_created())
}

/// Readies a candidate for its first start: it gets its networks and is compared with the one it replaces. This is
/// done before the old one is touched and again before the start, and not after the create, so that a restart of this
/// program leaves nothing out. `false` where it must not be started.
async fn equip<E: Engine>(
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
    let Some(reason) = unlike(engine, &old, &engine.inspect(&candidate.id).await?).await? else {
        return Ok(true);
    };
    if rollout.serving.is_some() {
        engine.remove(&candidate.id).await?;
        return Err(Failure::Refused(reason));
    }
    // The old one was told to stop, and the way back to its restart policy is the label on this one: it is kept.
    memory.watch(&candidate.id).start_refused = Some(reason.to_string());
    Ok(false)
}

/// A standby gets its networks while there is something to copy them from.
async fn equip_standby<E: Engine>(engine: &E, rollout: &Rollout) -> Result<(), Failure> {
    let Some(standby) = rollout.standby.as_ref().filter(|standby| standby.is_created()) else {
        return Ok(());
    };
    let original = standby.replaces.as_ref().and_then(|id| rollout.member(id));
    let Some(original) = original else { return Ok(()) };
    let original = engine.inspect(&original.id).await?;
    match unlike(engine, &original, &engine.inspect(&standby.id).await?).await? {
        Some(reason) => Err(Failure::Refused(reason)),
        None => Ok(()),
    }
}

/// Connects a standby to the networks it says it has: its original may have vanished before they were connected.
async fn connect_standby<E: Engine>(engine: &E, id: &ContainerId) -> Result<(), EngineError> {
    let standby = engine.inspect(id).await?;
    let networks = standby.label(label::NETWORKS).unwrap_or("{}");
    let networks: Map<String, Value> = serde_json::from_str(networks).unwrap_or_default();
    for (network, endpoint) in &networks {
        match engine.connect(network, id, endpoint).await {
            // A delegate without it is better than none.
            Err(EngineError::NotFound(problem)) => warn!(container = %id, problem, "a network is left out"),
            other => other?,
        }
    }
    Ok(())
}

/// Connects a candidate to its networks, and tells what makes it another one than it replaces.
async fn unlike<E: Engine>(
    engine: &E,
    old: &Inspected,
    candidate: &Inspected,
) -> Result<Option<Reason>, EngineError> {
    let EngineInfo { api, .. } = engine.info().await?;
    let old_image = engine.inspect_image(old.image_id().as_str()).await?;
    let new_image = engine.inspect_image(candidate.image_id().as_str()).await?;
    let images = Images {
        old: &old_image,
        new: &new_image,
    };
    let successor = match document::successor(old.document(), images, candidate.image_reference(), &[], api) {
        Ok(successor) => successor,
        Err(obstacle) => return Ok(Some(Reason::Obstacle(obstacle))),
    };
    // An old one that was told to stop has lost its policy by now; the candidate's label remembers it.
    let mut before = old.document().clone();
    if let (Some(policy), Some(slot)) = (
        candidate.label(label::RESTART_POLICY),
        before.pointer_mut("/HostConfig/RestartPolicy"),
    ) {
        *slot = policy_document(policy);
    }
    // A copy without `--rm` says on a label that its original had it.
    if old.should_auto_remove() == candidate.should_auto_remove()
        && let Some(slot) = before.pointer_mut("/HostConfig/AutoRemove")
    {
        *slot = Value::from(candidate.auto_remove());
    }
    let id = candidate.id();
    for (network, endpoint) in &successor.connect {
        engine.connect(network, &id, endpoint).await?;
    }
    let candidate = engine.inspect(&id).await?;
    let differences = document::unexplained(&before, candidate.document(), images);
    if differences.is_empty() {
        return Ok(None);
    }
    let differences = differences
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ");
    Ok(Some(Reason::NotTheSame { differences }))
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
