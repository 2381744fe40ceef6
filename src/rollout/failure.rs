//! Why a step was not taken.

use super::reason::Reason;
use crate::engine::EngineError;
use crate::image::ImageReference;

/// Why a step was not taken.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// An engine call failed. The next observation shows whether it had an effect.
    Engine(EngineError),
    /// An engine call failed with a status that this engine also returns for permanent failures.
    Doubtful(EngineError),
    /// The delegate cannot be upgraded in this run.
    Refused(Reason),
    /// The image disappeared between pull and create; it has to be pulled again.
    ImageVanished,
    /// The image of the container to restore is no longer on the host; this reference has to be pulled.
    ImageRemoved(ImageReference),
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}
