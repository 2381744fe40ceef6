//! What is known beside the containers themselves.

use super::{Backoff, StoppedBy};
use crate::container::ContainerId;
use crate::document::{Obstacle, SingleInstance};
use crate::host::hold::Holds;

/// What [`next`](super::next()) takes into account beside the containers. What is not known yet is `None`; where a
/// decision hangs on it, the answer is [`Decision::Learn`](super::Decision::Learn).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The last call to the engine for this delegate failed.
    pub backoff: Option<Backoff>,
    /// Whether this is a plan, which pulls nothing: of an image that is not here, only the reference is known.
    pub is_plan: bool,
    /// Whether the desired image is being pulled.
    pub is_pulling: bool,
    /// Whether the host has free memory for a second container.
    pub free_memory: Option<Result<(), SingleInstance>>,
    /// The rejected candidates that there were when the run began. One that is not among them was tried in this run,
    /// whoever did that.
    pub known_rejections: Vec<ContainerId>,
    /// Why the engine could not start a second container: it had no free port for it.
    pub no_free_port: Option<SingleInstance>,
    /// What no container document shows, and keeps the one in service from being recreated.
    pub hidden_obstacle: Option<Result<(), Obstacle>>,
    /// What holds its replacement back by what the engine remembers; where that cannot be read, why.
    pub holds: Option<Result<Holds, String>>,
    /// Who removed the container that had the delegate's name, if no container has it now.
    pub removed_by: Option<StoppedBy>,
    /// Whether the Manager can be reached; without a Manager, it always can.
    pub manager: Option<Reach>,
    /// Why the replica that comes first has come to rest, where it has.
    pub stalled_replica: Option<String>,
    /// How many delegates of the host are in use, this one included.
    pub delegates: usize,
    /// How many of them are unhealthy.
    pub unhealthy_delegates: usize,
}

/// What is known of the Manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It is being asked.
    Asking,
    /// It answers.
    Reachable,
    /// It does not answer; why.
    Unreachable(String),
}
