//! Why a step was not taken.

use super::reason::Reason;
use crate::engine::EngineError;
use crate::image::ImageReference;

/// Why a step was not taken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// An engine call failed. The next observation shows whether it had an effect.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An engine call failed with a status that this engine also returns for permanent failures.
    #[error(transparent)]
    Doubtful(EngineError),
    /// The delegate cannot be upgraded in this run.
    #[error(transparent)]
    Refused(Reason),
    /// The image disappeared between pull and create; it has to be pulled again.
    #[error("the image disappeared")]
    ImageVanished,
    /// The image of the container to restore is no longer on the host; this reference has to be pulled.
    #[error("{0} is no longer on the host; pulling it")]
    ImageRemoved(ImageReference),
}
