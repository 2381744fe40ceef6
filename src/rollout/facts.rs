//! Facts beside the containers themselves.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::pace::CROWD_INTERVAL;
use super::reason::Reason;
use super::{Backoffs, Decision, Fact, RunFacts};
use crate::container::ContainerId;
use crate::document::{Obstacle, SingleInstance};
use crate::host::hold::Holds;

/// The input of [`next`](super::next()) beside the containers. An unknown fact is `None`; if a decision depends on it, the
/// answer is [`Decision::Learn`](super::Decision::Learn).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The attempts for this delegate.
    pub backoffs: Backoffs,
    /// Whether this is a plan, which makes no further calls.
    pub is_plan: bool,
    /// Whether the desired image is being pulled.
    pub is_pulling: bool,
    /// Whether the host has free memory for a second container.
    pub free_memory: Option<Result<(), SingleInstance>>,
    /// How many other containers hold the memory that a second one needs and will soon free it; 0 if it must be measured.
    pub crowd: usize,
    /// The rejected candidates at the start of the run. Any other one was tried in this run, by this process or another.
    pub known_rejections: Vec<ContainerId>,
    /// Whether a candidate was created in this run. If it is gone, someone else removed it.
    pub has_created: bool,
    /// This process's own container if the rollout is the upgrader's.
    pub own: Option<ContainerId>,
    /// How long no container has had the name, as far as this process has seen.
    pub name_free_for: Duration,
    /// Why the engine could not start a second container: no free port.
    pub no_free_port: Option<SingleInstance>,
    /// An obstacle to recreating the container in service that no container document shows.
    pub hidden_obstacle: Option<Result<(), Obstacle>>,
    /// The holds in the engine's records, or why they cannot be read.
    pub holds: Option<Result<Holds, String>>,
    /// Whether the holds were read too long ago to base the start of a replacement on them.
    pub holds_are_old: bool,
    /// The current run's facts about the upgrade.
    pub run: RunFacts,
    /// Whether the Manager can be reached; without a Manager, it always can.
    pub manager: Option<Reach>,
    /// Describes a Manager that does not answer. Only for messages.
    pub manager_problem: Option<String>,
    /// How many delegates of the host are in use, this one included.
    pub delegates: usize,
    /// How many of them are unhealthy.
    pub unhealthy_delegates: usize,
}

impl Facts {
    /// Asks whether there is memory for a second container once the other containers have released theirs.
    pub(super) fn ask_for_memory(&self, now: DateTime<Utc>) -> Decision {
        match self.crowd {
            0 => Decision::Learn(Fact::FreeMemory),
            count => Decision::wait(Reason::WaitingForOthers { count }, now + CROWD_INTERVAL),
        }
    }
}

/// Whether the Manager can be reached, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It is being asked.
    Asking,
    /// It answers.
    Reachable,
    /// It does not answer, and why.
    Unreachable(String),
}
