//! Prepares a candidate for its first start: connects its networks, and compares it with the container that it replaces.

use super::Effect;
use super::image::image_of;
use super::start::connect;
use crate::container::{ContainerId, label};
use crate::document::{self, Images, NewSettings, Obstacle};
use crate::engine::{Engine, EngineError};
use crate::rollout::failure::Failure;
use crate::rollout::reason::Reason;
use crate::rollout::{Memory, Rollout};

/// Connects a candidate to its networks and compares it with the container that it replaces. The result goes into its history.
pub(super) async fn prepare<E: Engine>(
    engine: &E,
    rollout: &Rollout,
    id: &ContainerId,
    memory: &mut Memory,
) -> Result<Effect, Failure> {
    connect(engine, id).await?;
    let replaces = rollout
        .member(id)
        .and_then(|candidate| candidate.replaces.as_ref());
    let difference = match replaces {
        Some(replaces) => difference(engine, replaces, id).await?,
        None => None,
    };
    memory.history(id).comparison = Some(difference.map_or(Ok(()), Err));
    Ok(Effect::Done)
}

/// The settings, other than the image, in which the candidate differs from the old container.
async fn difference<E: Engine>(
    engine: &E,
    old: &ContainerId,
    candidate: &ContainerId,
) -> Result<Option<String>, Failure> {
    let old = engine.inspect(old).await?;
    let candidate = engine.inspect(candidate).await?;
    let reconfigured = candidate.label(label::RECONFIGURED);
    let old = reconfigured.map_or(old.clone(), |names| {
        NewSettings::of(names, &candidate).applied_to(&old)
    });
    let mut images = Vec::new();
    for container in [&old, &candidate] {
        match image_of(engine, container).await {
            Err(Failure::ImageRemoved(_) | Failure::Engine(EngineError::NotFound(_))) => {
                let image = container.image_reference().to_owned();
                let reason = Reason::Obstacle(Obstacle::ImageRemoved { image });
                return Ok(Some(reason.to_string()));
            }
            image => images.push(image?),
        }
    }
    let [old_image, new_image] = images.as_slice() else {
        return Ok(None);
    };
    let images = Images {
        old: old_image,
        new: new_image,
    };
    let differences = match document::verify(&old, &candidate, images) {
        Ok(differences) => differences,
        Err(obstacle) => return Ok(Some(Reason::Obstacle(obstacle).to_string())),
    };
    let differences: Vec<String> = differences.iter().map(ToString::to_string).collect();
    Ok((!differences.is_empty()).then(|| differences.join("; ")))
}
