//! API versions, the states of containers, and rows of the container list.

use std::collections::BTreeMap;

use super::ContainerId;

/// An API version, `1.41`; ordered as numbers, not as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiVersion {
    /// The major version.
    pub major: u16,
    /// The minor version.
    pub minor: u16,
}

impl ApiVersion {
    /// A version from its two numbers.
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

/// A container's state, as the list and inspect endpoints name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Never started.
    Created,
    /// Its process runs.
    Running,
    /// Frozen by `docker pause`.
    Paused,
    /// Between two lives of a restart policy.
    Restarting,
    /// The engine is removing it.
    Removing,
    /// Stopped.
    Exited,
    /// Stopped, and the engine could not clean up.
    Dead,
    /// A state that this program does not know.
    Other(String),
}

impl RunState {
    /// The engine's word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Restarting => "restarting",
            Self::Removing => "removing",
            Self::Exited => "exited",
            Self::Dead => "dead",
            Self::Other(word) => word,
        }
    }
}

/// Podman up to 5.5 has words of its own, where newer ones use Docker's: seen on 5.4.2, which calls a container that
/// finishes its tasks `stopping`.
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

/// A row of the container list: enough to know which containers to inspect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSummary {
    /// The full id.
    pub id: ContainerId,
    /// The container's own name, without the leading slash (links add more names; they are left out).
    pub name: String,
    /// Its state. Some engines (26.1) are a moment late with it here; only an inspect shows the present one.
    pub state: RunState,
    /// Those of its labels that [`is_listed`] names: there may be thousands of rows.
    pub labels: BTreeMap<String, String>,
    /// Its image, if it has one of those labels: its reference and its id.
    pub image: Option<(String, String)>,
    /// When it was created, in seconds since the epoch.
    pub created: i64,
    /// The ports of the host that lead to it, each with its protocol, `tcp`.
    pub host_ports: Vec<(u16, String)>,
}

/// On each container of a Swarm: the id of its task.
pub const SWARM_TASK: &str = "com.docker.swarm.task.id";

/// Whether a row of the list has this label: ours, and Swarm's.
pub fn is_listed(label: &str) -> bool {
    label == SWARM_TASK || label.starts_with("io.delegate-upgrader.")
}

impl ContainerSummary {
    /// Whether it is a task of a Swarm's service.
    pub fn is_task(&self) -> bool {
        self.labels.contains_key(SWARM_TASK)
    }
}

#[cfg(test)]
mod tests {
    use super::RunState;

    #[test]
    fn podmans_words_mean_what_dockers_do() {
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
