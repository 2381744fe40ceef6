//! What an operator can ask for one delegate: to retry a rejected image, or to go back to the image before.

use serde_json::Value;
use tracing::info;

use super::Reconciler;
use crate::container::ImageId;
use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::image::ImageReference;
use crate::manager::ImageSource;
use crate::reconcile::upgrade_run::{Mode, UpgradeRun};
use crate::rollout::{Intent, Rollout};

/// Why what an operator asked for is not begun.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OperatorError {
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
    InProgress(String),
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
pub(crate) struct RollbackTarget {
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
) -> Result<&'a Rollout, OperatorError> {
    let is_it = |rollout: &&Rollout| {
        let serving = rollout.serving.as_ref();
        let by_id =
            container.len() >= 4 && serving.is_some_and(|serving| serving.id.as_str().starts_with(container));
        rollout.name == container.trim_start_matches('/') || by_id
    };
    rollouts
        .iter()
        .find(is_it)
        .ok_or_else(|| OperatorError::NoSuchDelegate {
            container: container.to_owned(),
            delegates: rollouts.iter().map(|rollout| rollout.name.clone()).collect(),
            workload_names: workload_names.to_vec(),
        })
}

/// The image before, as the container's labels tell, if the host still has it.
pub(crate) async fn rollback_target<E: Engine>(
    engine: &E,
    rollout: &Rollout,
) -> Result<RollbackTarget, OperatorError> {
    let name = rollout.name.clone();
    let Some(serving) = rollout.serving.as_ref().filter(|_| rollout.candidate.is_none()) else {
        return Err(OperatorError::InProgress(name));
    };
    if let Some(left) = &serving.rolled_back_from {
        return Err(OperatorError::RolledBack {
            name,
            from: left.reference.clone(),
        });
    }
    let before = serving
        .previous_image
        .as_ref()
        .zip(serving.previous_image_id.as_ref());
    let Some((reference, image)) = before else {
        return Err(OperatorError::NothingBefore(name));
    };
    let gone = || OperatorError::ImageGone {
        reference: reference.clone(),
        image: image.clone(),
    };
    match engine.inspect_image(image.as_str()).await {
        Err(EngineError::NotFound(_)) => return Err(gone()),
        found => {
            found?.get("Id").and_then(Value::as_str).ok_or_else(gone)?;
        }
    }
    Ok(RollbackTarget {
        from: serving.image.clone(),
        reference: reference
            .parse()
            .map_err(|_| OperatorError::NothingBefore(name))?,
        image: image.clone(),
    })
}

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// Starts a run for one delegate that an operator named. It tries images again that were rejected there.
    ///
    /// # Errors
    /// There is no such delegate, it is being replaced, or nothing may be changed.
    pub async fn retry(&mut self, container: &str) -> Result<(), OperatorError> {
        let (rollouts, _) = self.observe().await?;
        let rollout = self.named(container, &rollouts)?;
        if rollout.serving.is_none() {
            return Err(OperatorError::InProgress(rollout.name.clone()));
        }
        let only = std::slice::from_ref(rollout);
        let run = self.upgrade_run(Mode::Upgrade, Intent::Retry, only).await;
        self.run = run.limited_to(rollout);
        Ok(())
    }

    /// Starts a run that takes one delegate back to its previous image.
    ///
    /// # Errors
    /// There is no such delegate or no previous image, it is being replaced, or nothing may be changed.
    pub async fn rollback(&mut self, container: &str) -> Result<(), OperatorError> {
        let (rollouts, _) = self.observe().await?;
        let rollout = self.named(container, &rollouts)?;
        let back = rollback_target(self.engine.as_ref(), rollout).await?;
        self.forget_last_run();
        info!(container = rollout.name, workload = rollout.workload, from = back.from, to = %back.reference, "rolling back");
        let now = self.now();
        self.run = UpgradeRun::rollback(rollout, back.reference, back.image, now);
        Ok(())
    }

    fn named<'a>(&self, container: &str, rollouts: &'a [Rollout]) -> Result<&'a Rollout, OperatorError> {
        if self.settings.policy.health_only {
            return Err(OperatorError::HealthOnly);
        }
        find(container, rollouts, &self.settings.scope.workload_names)
    }
}
