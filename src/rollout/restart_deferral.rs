//! Why an unhealthy delegate is not restarted, although its back-off is over.

use strum::{IntoStaticStr, VariantNames};

use super::{Facts, Reach, Rollout};
use crate::document::Obstacle;

/// Why a restart is deferred. The error texts come from the Manager or the engine verbatim.
#[derive(Clone, Debug, PartialEq, thiserror::Error, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "the sentence of each says what it is")]
pub enum RestartDeferral {
    /// Without its Manager no delegate is healthy.
    #[error("the Manager is unreachable: {problem}")]
    ManagerUnreachable { problem: String },
    /// The Manager is being asked; this lasts for seconds.
    #[error("checking the Manager first")]
    AskingManager,
    /// Its last check was some time ago; this lasts for seconds.
    #[error("checking once more first")]
    CheckingAgain,
    /// Restarting one delegate does not fix a shared cause.
    #[error("{unhealthy} of {all} delegates on this host are unhealthy, so the cause is probably shared")]
    MostUnhealthy { unhealthy: usize, all: usize },
    /// Restarting it would harm another container, or something else manages this one.
    #[error("{0}")]
    Obstacle(Obstacle),
    /// The engine, or a proxy in front of it, refused.
    #[error("Docker refused: {problem}")]
    Refused { problem: String },
}

impl RestartDeferral {
    /// The reason, known from the host and the Manager, to defer a restart.
    pub(super) fn by_the_host(rollout: &Rollout, facts: &Facts) -> Option<Self> {
        let (unhealthy, all) = (facts.unhealthy_delegates, facts.delegates);
        match (&rollout.obstacle, &facts.manager) {
            (Some(obstacle), _) if !matches!(obstacle, Obstacle::SwarmNetwork { .. }) => {
                Some(Self::Obstacle(obstacle.clone()))
            }
            // One delegate alone is not most of them.
            _ if unhealthy >= 2 && 2 * unhealthy > all => Some(Self::MostUnhealthy { unhealthy, all }),
            (_, Some(Reach::Asking)) => Some(Self::AskingManager),
            (_, Some(Reach::Unreachable(problem))) => Some(Self::ManagerUnreachable {
                problem: problem.clone(),
            }),
            (_, Some(Reach::Reachable) | None) => None,
        }
    }
}
