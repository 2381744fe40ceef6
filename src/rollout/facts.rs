//! Facts beside the containers themselves.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::pace::CROWD_INTERVAL;
use super::reason::Reason;
use super::{Backoffs, Decision, Fact, RunFacts};
use crate::container::ContainerId;
use crate::document::{Obstacle, SingleInstance};
use crate::host::hold::Holds;

/// The facts that [`next`](super::next()) takes into account beside the containers. An unknown fact is `None`; where a
/// decision hangs on it, the answer is [`Decision::Learn`](super::Decision::Learn).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The attempts for this delegate.
    pub backoffs: Backoffs,
    /// Whether this is a plan, which asks and writes nothing more.
    pub is_plan: bool,
    /// Whether the desired image is being pulled.
    pub is_pulling: bool,
    /// Whether the host has free memory for a second container.
    pub free_memory: Option<Result<(), SingleInstance>>,
    /// How many other containers take this memory now, and will be done; 0 if that has to be found out.
    pub crowd: usize,
    /// The rejected candidates at the start of the run. A candidate that is not among them was tried in this run,
    /// by this process or another.
    pub known_rejections: Vec<ContainerId>,
    /// Whether a candidate was created in this run. If it is gone, someone else removed it.
    pub has_created: bool,
    /// This process's own container, where the rollout is that of the upgrader itself.
    pub own: Option<ContainerId>,
    /// For how long no container has had the name, as far as this process has seen.
    pub name_free_for: Duration,
    /// Why the engine could not start a second container: it had no free port for it.
    pub no_free_port: Option<SingleInstance>,
    /// An obstacle that no container document shows, and that keeps the container in service from being recreated.
    pub hidden_obstacle: Option<Result<(), Obstacle>>,
    /// The holds that the engine remembers; if they cannot be read, why.
    pub holds: Option<Result<Holds, String>>,
    /// Whether they were read too long ago to start a replacement by them.
    pub holds_are_old: bool,
    /// The present run's word on the upgrade.
    pub run: RunFacts,
    /// Whether the Manager can be reached; without a Manager, it always can.
    pub manager: Option<Reach>,
    /// That the Manager does not answer, in words. Nothing is decided by it.
    pub manager_problem: Option<String>,
    /// How many delegates of the host are in use, this one included.
    pub delegates: usize,
    /// How many of them are unhealthy.
    pub unhealthy_delegates: usize,
}

impl Facts {
    /// Asks whether there is memory for a second container, once those that take it are done.
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
