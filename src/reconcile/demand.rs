//! What an operator can ask for one delegate: to try a rejected image again, to go back to the image before.

use serde_json::Value;

use crate::container::ImageId;
use crate::engine::{Engine, EngineError};
use crate::image::ImageReference;
use crate::rollout::Rollout;

/// Why what an operator asked for is not begun.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The engine could not be asked.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// `DISABLE_AUTO_UPGRADE`: not one write reaches the engine.
    #[error("DISABLE_AUTO_UPGRADE is true: nothing is changed; call it with DISABLE_AUTO_UPGRADE=false")]
    HealthOnly,
    /// The argument names none of the delegates that are looked after.
    #[error("{container:?} is no delegate that is looked after; {}", known(.delegates, .workload_names))]
    NoSuchDelegate {
        /// What was asked for.
        container: String,
        /// The delegates there are.
        delegates: Vec<String>,
        /// `UPGRADER_WORKLOAD_NAME`.
        workload_names: Vec<String>,
    },
    /// Nobody has its name, so something is under way.
    #[error("{0} is being replaced or restored at this moment; try again when that is over")]
    UnderWay(String),
    /// It was not made by an upgrade.
    #[error("{0} was not upgraded by delegate-upgrader, so there is no image before to go back to")]
    NothingBefore(String),
    /// A rollback is never rolled back.
    #[error(
        "{name} was rolled back from {from} already; to get {from} again, call `delegate-upgrader retry {name}`"
    )]
    RolledBack {
        /// The delegate.
        name: String,
        /// The image it was rolled back from.
        from: String,
    },
    /// The image before was removed from the host.
    #[error("the image before, {reference} ({image}), is not on this host any more; pull it and try again")]
    ImageGone {
        /// Its reference.
        reference: String,
        /// Its id.
        image: ImageId,
    },
}

fn known(delegates: &[String], workload_names: &[String]) -> String {
    if delegates.is_empty() {
        crate::status::report::none_found(workload_names)
    } else {
        format!("there are: {}", delegates.join(", "))
    }
}

/// Where a rollback leads.
pub(crate) struct WayBack {
    /// The image that is left.
    pub(crate) from: String,
    /// The image before.
    pub(crate) reference: ImageReference,
    /// Its id.
    pub(crate) image: ImageId,
}

/// The delegate of that container name or id.
pub(crate) fn find<'a>(
    container: &str,
    rollouts: &'a [Rollout],
    workload_names: &[String],
) -> Result<&'a Rollout, Refusal> {
    let is_it = |rollout: &&Rollout| {
        let serving = rollout.serving.as_ref();
        let by_id =
            container.len() >= 4 && serving.is_some_and(|serving| serving.id.as_str().starts_with(container));
        rollout.name == container.trim_start_matches('/') || by_id
    };
    rollouts
        .iter()
        .find(is_it)
        .ok_or_else(|| Refusal::NoSuchDelegate {
            container: container.to_owned(),
            delegates: rollouts.iter().map(|rollout| rollout.name.clone()).collect(),
            workload_names: workload_names.to_vec(),
        })
}

/// The image before, as the container's labels tell, if the host still has it.
pub(crate) async fn way_back<E: Engine>(engine: &E, rollout: &Rollout) -> Result<WayBack, Refusal> {
    let name = rollout.name.clone();
    let Some(serving) = rollout.serving.as_ref().filter(|_| rollout.candidate.is_none()) else {
        return Err(Refusal::UnderWay(name));
    };
    if let Some(left) = &serving.rolled_back_from {
        return Err(Refusal::RolledBack {
            name,
            from: left.reference.clone(),
        });
    }
    let before = serving
        .previous_image
        .as_ref()
        .zip(serving.previous_image_id.as_ref());
    let Some((reference, image)) = before else {
        return Err(Refusal::NothingBefore(name));
    };
    let gone = || Refusal::ImageGone {
        reference: reference.clone(),
        image: image.clone(),
    };
    match engine.inspect_image(image.as_str()).await {
        Err(EngineError::NotFound(_)) => return Err(gone()),
        found => {
            found?.get("Id").and_then(Value::as_str).ok_or_else(gone)?;
        }
    }
    Ok(WayBack {
        from: serving.image.clone(),
        reference: reference.parse().map_err(|_| Refusal::NothingBefore(name))?,
        image: image.clone(),
    })
}
