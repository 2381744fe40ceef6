//! Creates containers: candidates, copies of old ones, and helpers.

use super::image::{by_digest, image_id, image_of};
use crate::container::{ContainerId, ImageId, Inspected, Request, Role, label};
use crate::document::{self, Images, NewSettings, Overrides};
use crate::engine::{Engine, EngineError, EngineInfo};
use crate::rollout::failure::Failure;
use crate::rollout::reason::Reason;
use crate::rollout::{Intent, Member, RememberedImage, Rollout};

/// A container to be made from another one.
pub(super) struct NewContainer<'a> {
    pub(super) name: String,
    pub(super) image: &'a ImageId,
    pub(super) reference: String,
    /// Whether to name the image by its id if the reference is gone or now refers to another image.
    pub(super) by_id: bool,
    pub(super) labels: Vec<(&'static str, String)>,
    /// The settings that an operator wants for it.
    pub(super) settings: Option<&'a NewSettings>,
}

impl<'a> NewContainer<'a> {
    /// A container with the candidate's image, for the same attempt.
    pub(super) fn beside(rollout: &Rollout, candidate: &'a Member, name: String) -> Self {
        let replaces = candidate.replaces.as_ref().unwrap_or(&candidate.id);
        Self {
            name,
            image: &candidate.image_id,
            reference: candidate.image.to_string(),
            by_id: true,
            labels: common_labels(rollout, replaces, &candidate.release),
            settings: None,
        }
    }
}

/// Our labels on any container that is made for an attempt to replace this one.
fn common_labels(
    rollout: &Rollout,
    replaces: &ContainerId,
    release: &impl ToString,
) -> Vec<(&'static str, String)> {
    vec![
        (label::REPLACES, replaces.as_str().to_owned()),
        (label::NAME, rollout.name.clone()),
        (label::RELEASE, release.to_string()),
    ]
}

/// The release in a container's label; 0 if we did not create it.
fn release_of<'a>(container: &'a Inspected, name: &str) -> &'a str {
    container.label(name).unwrap_or("0")
}

/// A container's document, with `--rm` if that was read before: during a restart the engine shows it without.
pub(super) async fn inspect<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    id: &ContainerId,
) -> Result<Inspected, EngineError> {
    let mut container = engine.inspect(id).await?;
    if rollout.member(id).is_some_and(|member| member.vanishes) {
        container.set_auto_remove();
    }
    engine.check_labels(&mut container).await?;
    Ok(container)
}

/// Our labels on the successor of a delegate.
pub(super) fn labels(
    rollout: &Rollout,
    old: &Inspected,
    new_image: &ImageId,
    release: u64,
    intent: &Intent,
) -> Vec<(&'static str, String)> {
    let (image, image_id) = (old.image_reference(), old.image_id());
    let mut labels = common_labels(rollout, &old.id(), &release);
    let previous_release = release_of(old, label::RELEASE).to_owned();
    labels.extend([
        (label::PREVIOUS_RELEASE, previous_release),
        (label::PREVIOUS_IMAGE, image.to_owned()),
        (label::PREVIOUS_IMAGE_ID, image_id.as_str().to_owned()),
        (label::FINGERPRINT, old.fingerprint()),
    ]);
    let former = former_images(old, new_image);
    if !former.is_empty() {
        labels.push((label::FORMER_IMAGES, former));
    }
    if let Some(settings) = intent.new_settings(old.id().as_str()) {
        labels.push((label::RECONFIGURED, settings.names()));
    }
    labels.extend(intent.request().into_iter().flat_map(Request::labels));
    let names = [label::ROLLED_BACK_FROM, label::ROLLED_BACK_FROM_ID];
    let first = old.label(names[0]).zip(old.label(names[1]));
    let left = match intent {
        Intent::Reconfigure(..) => first,
        // A second rollback still counts as a rollback from the first image, which is the published one.
        Intent::Rollback(_) => {
            let first = first.filter(|(_, id)| *id != new_image.as_str());
            first.or(Some((image, image_id.as_str())))
        }
        Intent::Report | Intent::Upgrade | Intent::Retry(_) => None,
    };
    let left = left.map(|(image, id)| [image, id].map(str::to_owned));
    labels.extend(left.into_iter().flat_map(|left| names.into_iter().zip(left)));
    labels
}

/// The former images for the label of this container's replacement. The owner's own images are not ours to remove, so they are
/// left out. Ten are enough for any `KEEP_IMAGES`.
fn former_images(old: &Inspected, new_image: &ImageId) -> String {
    let is_ours = old.label(label::RELEASE).is_some_and(|release| release != "0");
    let (last, earlier) = (
        old.image_id(),
        old.label(label::FORMER_IMAGES).unwrap_or_default(),
    );
    let last = is_ours.then_some(last.as_str());
    let mut ids: Vec<&str> = Vec::new();
    for id in last.into_iter().chain(earlier.split(',')) {
        if !id.is_empty() && id != new_image.as_str() && !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids.truncate(10);
    ids.join(",")
}

/// Recreates the delegate under its own name: from an old container, or from a candidate with the previous image.
pub(super) async fn recreate<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    from: &ContainerId,
    image: Option<&RememberedImage>,
) -> Result<ContainerId, Failure> {
    let mut original = inspect(engine, rollout, from).await?;
    // A candidate with new settings stands for a delegate with the former ones.
    let candidate = rollout.member(from).filter(|_| image.is_some());
    let kept = candidate.and_then(|candidate| rollout.former_of(candidate));
    if let (Some(names), Some(former)) = (original.label(label::RECONFIGURED), kept) {
        let former = engine.inspect(&former.id).await?;
        original = NewSettings::of(names, &former).applied_to(&original);
    }
    let release = match image {
        Some(_) => release_of(&original, label::PREVIOUS_RELEASE),
        None => release_of(&original, label::RELEASE),
    };
    let mut labels = common_labels(rollout, &original.id(), &release);
    labels.push((label::COPY, "true".to_owned()));
    // The container that the previous one replaced is unknown.
    if image.is_none() {
        let history = label::HISTORY.into_iter();
        labels.extend(history.filter_map(|name| Some((name, original.label(name)?.to_owned()))));
    }
    let own = RememberedImage {
        reference: original.image_reference().into(),
        id: original.image_id(),
    };
    let image = image.unwrap_or(&own);
    let present = present_image(engine, image, &own.id).await?;
    let wanted = NewContainer {
        name: rollout.name.clone(),
        image: &present,
        reference: image.reference.to_string(),
        by_id: true,
        labels,
        settings: None,
    };
    create(engine, &original, wanted).await
}

/// The image to restore a delegate with. If it was removed and cannot be pulled by digest, the image now behind its tag is
/// better than no delegate, unless that is the one that failed.
async fn present_image<E: Engine>(
    engine: &E,
    image: &RememberedImage,
    failed: &ImageId,
) -> Result<ImageId, Failure> {
    match engine.inspect_image(image.id.as_str()).await {
        Err(EngineError::NotFound(_)) => {}
        answer => return answer.map(|_| image.id.clone()).map_err(Into::into),
    }
    let Ok(reference) = image.reference.reference() else {
        return Err(Failure::ImageVanished);
    };
    if let Some(by_digest) = by_digest(engine, &image.reference, &image.id).await {
        return Err(Failure::ImageRemoved(by_digest));
    }
    match engine.inspect_image(&image.reference.to_string()).await {
        Ok(other) if let Some(id) = image_id(&other).filter(|id| id != failed) => Ok(id),
        Ok(_) | Err(EngineError::NotFound(_)) => Err(Failure::ImageRemoved(reference.clone())),
        Err(error) => Err(error.into()),
    }
}

/// Creates an upgrader with the candidate's image, configured like the one in service, without what only one can have.
pub(super) async fn create_helper<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    from: &ContainerId,
    candidate: &Member,
) -> Result<ContainerId, Failure> {
    let serving = engine.inspect(from).await?;
    let name = Role::Helper { is_ready: false }.name(&rollout.name);
    let wanted = NewContainer::beside(rollout, candidate, name);
    create(engine, &document::of_helper(&serving), wanted).await
}

/// Creates a container that only has these settings of an old one. It is never started.
pub(super) async fn keep<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    from: &ContainerId,
    settings: &str,
) -> Result<ContainerId, Failure> {
    let old = engine.inspect(from).await?;
    let wanted = NewContainer {
        name: rollout.free_name(Role::Former),
        image: &old.image_id(),
        reference: old.image_reference().to_owned(),
        by_id: true,
        labels: common_labels(rollout, from, &release_of(&old, label::RELEASE)),
        settings: None,
    };
    create(engine, &document::of_former(&old, settings), wanted).await
}

pub(super) async fn create<E: Engine>(
    engine: &E,
    old: &Inspected,
    wanted: NewContainer<'_>,
) -> Result<ContainerId, Failure> {
    let EngineInfo { api, is_podman, .. } = engine.info().await?;
    let image = wanted.image;
    let old_image = image_of(engine, old).await?;
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
    };
    let request = document::create_request(old, images, &overrides, api)
        .map_err(|obstacle| Failure::Refused(Reason::Obstacle(obstacle)))?;
    match engine
        .create(&wanted.name, request.platform.as_deref(), &request.body)
        .await
    {
        Ok(id) => checked(engine, id, &wanted).await,
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

/// The new container, unless its image is another one, since the tag may have moved after the image was looked up, or the engine gave
/// it other settings: an unset variable may come from the image, and a limit may not be supported.
async fn checked<E: Engine>(
    engine: &E,
    id: ContainerId,
    wanted: &NewContainer<'_>,
) -> Result<ContainerId, Failure> {
    let missing = |created: &Inspected| wanted.settings.map(|settings| settings.missing_in(created));
    let failure = match engine.inspect(&id).await {
        Ok(created) if created.image_id() != *wanted.image => Failure::ImageVanished,
        Ok(created) => match missing(&created).filter(|missing| !missing.is_empty()) {
            None => return Ok(id),
            Some(missing) => {
                let problem = format!("Docker or the image sets {} in another way", missing.names());
                Failure::Refused(Reason::CreateRefused { problem })
            }
        },
        // A container that cannot be inspected is created again.
        Err(error @ EngineError::Refused { .. }) => error.into(),
        Err(error) => return Err(error.into()),
    };
    engine.remove(&id).await?;
    Err(failure)
}

pub(super) async fn stands_for<E: Engine>(
    engine: &E,
    reference: &str,
    image: &ImageId,
) -> Result<bool, EngineError> {
    match engine.inspect_image(reference).await {
        Err(EngineError::NotFound(_)) => Ok(false),
        answer => Ok(image_id(&answer?).as_ref() == Some(image)),
    }
}
