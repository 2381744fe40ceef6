//! API versions, states of containers, and rows of the container list.

use std::collections::BTreeMap;

use super::ContainerId;

/// An API version such as `1.41`. Versions compare as numbers, not as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiVersion {
    /// The major version.
    pub major: u16,
    /// The minor version.
    pub minor: u16,
}

impl ApiVersion {
    /// Makes a version from its two numbers.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }
}

impl std::str::FromStr for ApiVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split_once('.')
            .and_then(|(major, minor)| {
                Some(Self {
                    major: major.parse().ok()?,
                    minor: minor.parse().ok()?,
                })
            })
            .ok_or_else(|| format!("{text:?} is not an API version such as 1.41"))
    }
}

impl std::fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A container's state, in the words of the list and inspect endpoints.
#[derive(Clone, Debug, PartialEq, Eq, strum::AsRefStr)]
#[strum(serialize_all = "lowercase")]
pub enum RunState {
    /// It was never started.
    Created,
    /// Its process runs.
    Running,
    /// `docker pause` has frozen it.
    Paused,
    /// Its restart policy is about to restart it.
    Restarting,
    /// The engine is removing it.
    Removing,
    /// It has stopped.
    Exited,
    /// It has stopped, and the engine could not clean up.
    Dead,
    /// A state that this program does not know.
    #[strum(transparent)]
    Other(String),
}

impl RunState {
    /// Whether its process lives, or is about to live again.
    pub fn is_up(&self) -> bool {
        matches!(self, Self::Running | Self::Restarting | Self::Paused)
    }

    /// Returns the engine's word for the state.
    pub fn as_str(&self) -> &str {
        self.as_ref()
    }
}

/// Podman up to 5.5 has its own words, while newer versions use Docker's. 5.4.2 was seen to call a container `stopping`
/// while it finishes its tasks.
impl From<&str> for RunState {
    fn from(text: &str) -> Self {
        match text {
            "created" | "initialized" => Self::Created,
            "running" | "stopping" => Self::Running,
            "paused" => Self::Paused,
            "restarting" => Self::Restarting,
            "removing" => Self::Removing,
            "exited" | "stopped" => Self::Exited,
            "dead" => Self::Dead,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// A row of the container list, with enough data to decide which containers to inspect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSummary {
    /// The full id.
    pub id: ContainerId,
    /// The container's own name without the leading slash, and without the additional names from links.
    pub name: String,
    /// Its state. Some engines (26.1) update it here a moment late; only an inspect shows the present state.
    pub state: RunState,
    /// Its labels that [`is_listed`] accepts. There may be thousands of rows, so the others are dropped.
    pub labels: BTreeMap<String, String>,
    /// The reference and id of its image, if it has such a label.
    pub image: Option<(String, String)>,
    /// When it was created, in seconds since the epoch.
    pub created: i64,
    /// The host ports that it publishes, each with its protocol, such as `tcp`.
    pub host_ports: Vec<(u16, String)>,
}

/// The label with the task id on each container of a Swarm.
pub const SWARM_TASK: &str = "com.docker.swarm.task.id";
/// The label with the name of the service that it is a task of.
pub(crate) const SWARM_SERVICE: &str = "com.docker.swarm.service.name";

/// Whether rows keep this label: ours and Swarm's.
pub fn is_listed(label: &str) -> bool {
    label == SWARM_TASK || label.starts_with("io.delegate-upgrader.")
}

impl ContainerSummary {
    /// Whether it is a task of a Swarm service.
    pub fn is_task(&self) -> bool {
        self.labels.contains_key(SWARM_TASK)
    }
}

#[cfg(test)]
mod tests {
    use super::RunState;

    #[test]
    fn podman_states_map_to_docker_states() {
        for (podman, docker) in [
            ("initialized", "created"),
            ("stopping", "running"),
            ("stopped", "exited"),
            ("unknown", "unknown"),
        ] {
            assert_eq!(RunState::from(podman).as_str(), docker);
        }
    }
}
