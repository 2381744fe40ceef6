//! Why a rollout of an orchestrator failed.

use std::time::Duration;

use crate::text::duration;

/// The beginning of the words of an orchestrator that could not even make a task. They say nothing of its image.
pub const NO_TASK: &str = "nothing could be started: ";

/// Why a rollout failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the sentence of each says what it is")]
pub enum RolloutFailure {
    #[error("{orchestrator} rolled it back: {message}")]
    RolledBack {
        orchestrator: &'static str,
        message: String,
    },
    #[error("{orchestrator} stopped the update: {message}")]
    Stopped {
        orchestrator: &'static str,
        message: String,
    },
    #[error("{running} of {wanted} ran after {}{}", duration::text(*.within), because(.problem.as_deref()))]
    NotRunningInTime {
        running: u64,
        wanted: u64,
        /// How long nothing had got on.
        within: Duration,
        /// The last task's failure.
        problem: Option<String>,
    },
}

fn because(problem: Option<&str>) -> String {
    problem.map_or_else(String::new, |problem| format!(" ({problem})"))
}
