//! Why a step was not taken.

use super::reason::Reason;
use crate::engine::EngineError;
use crate::image::ImageReference;

/// Why a step was not taken.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// An engine call failed. Whether it had an effect, the next observation shows.
    Engine(EngineError),
    /// An engine call failed with a status that this engine also has for what it can never do.
    Doubtful(EngineError),
    /// The delegate cannot be served in this run.
    Refused(Reason),
    /// The image disappeared between pull and create; it has to be pulled again.
    ImageVanished,
    /// The image of the container to bring back is no longer on the host; this reference has to be pulled.
    ImageRemoved(ImageReference),
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}
