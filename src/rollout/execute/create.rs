//! Creates containers: successors, standbys, copies and attempt markers.

use serde_json::{Value, json};

use crate::container::{ContainerId, DELEGATE_NAME_VARIABLE, ImageId, Inspected, Role, label};
use crate::document::{self, Images, Overrides};
use crate::engine::{Engine, EngineError, EngineInfo};
use crate::rollout::failure::Failure;
use crate::rollout::reason::Reason;
use crate::rollout::{Condition, Intent, Member, Rollout};

/// A container to be made from another one.
pub(super) struct NewContainer<'a> {
    pub(super) name: String,
    pub(super) image: &'a ImageId,
    pub(super) reference: String,
    /// Whether the image may be named by its id, where the reference is gone or stands for another one by now.
    pub(super) by_id: bool,
    pub(super) is_standby: bool,
    pub(super) labels: Vec<(&'static str, String)>,
}

/// Our labels on the successor of a delegate.
pub(super) fn labels(
    rollout: &Rollout,
    old: &Inspected,
    new_image: &ImageId,
    release: u64,
    intent: Intent,
) -> Vec<(&'static str, String)> {
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
    let condition = rollout.serving.as_ref().map(Member::condition);
    if let Some(condition) = condition.filter(|condition| *condition != Condition::Working) {
        let word: &str = condition.into();
        labels.push((label::PREDECESSOR_CONDITION, word.to_owned()));
    }
    if intent == Intent::Rollback {
        // Who goes back further has still gone back from the first one, which is published.
        let first = old
            .label(label::ROLLED_BACK_FROM)
            .zip(old.label(label::ROLLED_BACK_FROM_ID))
            .filter(|(_, id)| *id != new_image.as_str());
        let (image, image_id) = match first {
            Some((image, id)) => (image.to_owned(), id.to_owned()),
            None => (image, image_id),
        };
        labels.push((label::ROLLED_BACK_FROM, image));
        labels.push((label::ROLLED_BACK_FROM_ID, image_id));
    }
    labels
}

/// The same container once more, of the same image: as a standby, or as the candidate that is made from one.
pub(super) async fn copy<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    original: &Inspected,
    name: String,
    is_standby: bool,
) -> Result<ContainerId, Failure> {
    let mut labels = vec![
        (label::REPLACES, original.id().as_str().to_owned()),
        (label::NAME, rollout.name.clone()),
        (label::RESTART_POLICY, original.restart_policy_text()),
        (label::COPY, "true".to_owned()),
    ];
    for history in label::HISTORY {
        if let Some(value) = original.label(history) {
            labels.push((history, value.to_owned()));
        }
    }
    let image = original.image_id();
    let wanted = NewContainer {
        name,
        image: &image,
        reference: original.image_reference().to_owned(),
        by_id: true,
        is_standby,
        labels,
    };
    create(engine, original, wanted).await
}

/// An upgrader of the candidate's image, which is configured as the one in service, but shares nothing with it that only one
/// can have. It is told from a successor as an attempt marker is: it remembers no restart policy.
pub(super) async fn create_helper<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    from: &ContainerId,
    candidate: &Member,
) -> Result<ContainerId, Failure> {
    let serving = engine.inspect(from).await?;
    let wanted = NewContainer {
        name: Role::Helper { is_ready: false }.name(&rollout.name),
        image: &candidate.image_id,
        reference: candidate.image.to_string(),
        by_id: true,
        is_standby: true,
        labels: vec![
            (label::REPLACES, from.as_str().to_owned()),
            (label::NAME, rollout.name.clone()),
            (label::RELEASE, candidate.release.to_string()),
        ],
    };
    create(engine, &document::of_helper(&serving), wanted).await
}

pub(super) async fn create<E: Engine>(
    engine: &E,
    old: &Inspected,
    wanted: NewContainer<'_>,
) -> Result<ContainerId, Failure> {
    let EngineInfo { api, is_podman, .. } = engine.info().await?;
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
    let needs_id = wanted.by_id && !stands_for(engine, &wanted.reference, image).await?;
    let overrides = Overrides {
        reference: &wanted.reference,
        by_id: needs_id.then_some(image),
        labels: &wanted.labels,
        is_standby: wanted.is_standby,
    };
    let request = document::create_request(old, images, &overrides, api)
        .map_err(|obstacle| Failure::Refused(Reason::Obstacle(obstacle)))?;
    match engine
        .create(&wanted.name, request.platform.as_deref(), &request.body)
        .await
    {
        Ok(id) => checked(engine, id, image).await,
        Err(EngineError::NotFound(problem)) => match engine.inspect_image(image.as_str()).await {
            Err(EngineError::NotFound(_)) => Err(Failure::ImageVanished),
            _ => Err(Failure::Refused(Reason::CreateRefused { problem })),
        },
        Err(EngineError::Refused {
            status: 400..=499,
            message,
        }) => Err(Failure::Refused(Reason::CreateRefused { problem: message })),
        Err(error @ EngineError::Refused { status: 500, .. }) if is_podman => Err(Failure::Doubtful(error)),
        Err(error) => Err(error.into()),
    }
}

/// The new container, unless it has another image: its tag may have moved since the image was looked up.
async fn checked<E: Engine>(engine: &E, id: ContainerId, image: &ImageId) -> Result<ContainerId, Failure> {
    if engine.inspect(&id).await?.image_id() == *image {
        return Ok(id);
    }
    engine.remove(&id).await?;
    Err(Failure::ImageVanished)
}

pub(super) async fn stands_for<E: Engine>(
    engine: &E,
    reference: &str,
    image: &ImageId,
) -> Result<bool, EngineError> {
    match engine.inspect_image(reference).await {
        Err(EngineError::NotFound(_)) => Ok(false),
        answer => Ok(answer?.get("Id").and_then(Value::as_str) == Some(image.as_str())),
    }
}

/// Stands for an `--rm` candidate, which vanishes by stopping. It is found like a delegate, by the variable, and told
/// from one by its name and labels.
pub(super) async fn create_attempt_marker<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    candidate: &Member,
) -> Result<(), Failure> {
    let (image, reference) = (&candidate.image_id, candidate.image.as_str());
    let mut labels = json!({
        label::NAME: rollout.name,
        label::RELEASE: candidate.release.to_string(),
        label::REPLACES: candidate.replaces.as_ref().map_or("", ContainerId::as_str),
    });
    let mut named = reference;
    if !stands_for(engine, reference, image).await? {
        named = image.as_str();
        labels[label::IMAGE] = Value::from(reference);
    }
    let body = json!({
        "Image": named,
        "Env": [format!("{DELEGATE_NAME_VARIABLE}={}", rollout.workload)],
        "Cmd": ["never-started"],
        "Labels": labels,
        "HostConfig": { "NetworkMode": "none", "RestartPolicy": { "Name": "no" } },
    });
    match engine
        .create(&Role::Attempt.name(&rollout.name), None, &body)
        .await
    {
        Ok(id) => checked(engine, id, image).await.map(drop),
        // Another process was as quick.
        Err(EngineError::Conflict(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
