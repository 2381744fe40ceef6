//! Why an unhealthy delegate is not restarted, although its back-off is over.

use strum::{IntoStaticStr, VariantNames};

use crate::document::Obstacle;

/// What speaks against a restart. A problem is in the words of whoever has it.
#[derive(Clone, Debug, PartialEq, thiserror::Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum HeldBack {
    /// Without its Manager no delegate is healthy.
    #[error("the Manager is unreachable: {problem}")]
    ManagerUnreachable {
        /// Why it is.
        problem: String,
    },
    /// It is being asked; this lasts for seconds.
    #[error("first, the Manager is asked whether it can be reached")]
    AskingManager,
    /// Its last check was some time ago; this lasts for seconds.
    #[error("first, it is checked once more")]
    CheckingAgain,
    /// What all of them have in common, a restart of one does not mend.
    #[error("{unhealthy} of {all} delegates on this host are unhealthy, which has a common cause")]
    MostUnhealthy {
        /// How many are unhealthy.
        unhealthy: usize,
        /// How many there are.
        all: usize,
    },
    /// What its owner stops is not to come back.
    #[error("somebody asked it to stop")]
    AskedToStop,
    /// Another container would lose something by the restart, or something else looks after this one.
    #[error("{0}")]
    Obstacle(Obstacle),
    /// The engine, or a proxy before it.
    #[error("Docker refused: {problem}")]
    Refused {
        /// The engine's words.
        problem: String,
    },
}
