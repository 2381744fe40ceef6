//! The reasons why we cannot recreate a container faithfully.

use serde_json::Value;

use crate::container::{Inspected, SWARM_TASK};

/// The part of a container that another container shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
pub enum DependencyKind {
    /// Its network namespace.
    #[strum(to_string = "network")]
    Network,
    /// Its PID namespace.
    #[strum(to_string = "PID namespace")]
    Pid,
    /// Its IPC namespace.
    #[strum(to_string = "IPC namespace")]
    Ipc,
    /// Its volumes (`--volumes-from`).
    #[strum(to_string = "volumes")]
    Volumes,
    /// A link to the container.
    #[strum(to_string = "link")]
    Link,
}

/// The reason why we cannot recreate a container faithfully.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "the sentence of each says what it is")]
pub enum Obstacle {
    #[error("it is managed by {manager} (label {label}), which has to upgrade it")]
    Managed {
        manager: &'static str,
        label: &'static str,
    },
    /// Another container depends on this one, and would not find the shared part in its successor.
    #[error("{}", has_dependent(*.kind, .container))]
    HasDependent { container: String, kind: DependencyKind },
    /// This container depends on another one that is gone or not running, so a successor could not start.
    #[error("{}", dependency_missing(*.kind, .container))]
    DependencyMissing {
        /// The other container, as the document names it.
        container: String,
        kind: DependencyKind,
    },
    /// No engine can rename a container that runs in a Swarm network (seen on 20.10, and 29.7 has the same code), so a
    /// successor could not take its name.
    #[error(
        "it is attached to the Swarm network {network}, where Docker cannot rename running containers; recreate it \
         yourself, or use a local network"
    )]
    SwarmNetwork { network: String },
    /// A file was copied into it before its start, as Compose does for a config whose content is in the compose file.
    #[error(
        "{path} was copied into the container (Compose inline config or secret) and would be lost; upgrade it with \
         Compose, or mount the file"
    )]
    CopiedFile { path: String },
    /// The list of its changed files is too long to check, so any of them may have been copied into it.
    #[error(
        "too many files changed in it to find those that were copied into it (Compose inline config or secret) and would be \
         lost: {problem}; recreate it with Compose, and mount what it writes as a volume"
    )]
    FilesUnknown { problem: String },
    /// A variable has the value of a Podman secret. Inspect shows only the secret's name, not the variable's name or value.
    #[error(
        "the Podman secret {secret} is one of its variables, which Podman does not show, so it would be lost; recreate the \
         delegate with the variable in an --env-file"
    )]
    PodmanSecret { secret: String },
    /// The image that it was created from is gone, so its owner's settings cannot be told apart from the image's defaults.
    #[error(
        "its image {image} was removed from this host, so what its owner set cannot be told from the image's defaults; \
         run docker pull {image}, or recreate the delegate"
    )]
    ImageRemoved {
        /// The image, as the container's configuration names it.
        image: String,
    },
    /// The engine does not show the defaults of an image.
    #[error(
        "Docker shows the {which} without its configuration, so what its owner set cannot be told from the image's \
         defaults; remove the other images that share its layers and pull it again, or recreate the delegate"
    )]
    ImageUnknown {
        /// `old image` or `new image`.
        which: &'static str,
    },
    #[error("its image is built for {old}, the new one for {new}")]
    OtherPlatform { old: String, new: String },
    /// A document does not have the form that the engine's API promises.
    #[error("cannot read the {document} document: {path} must be {expected}")]
    Malformed {
        /// `container`, `old image` or `new image`.
        document: &'static str,
        /// The faulty part, as a JSON pointer.
        path: &'static str,
        /// The expected content.
        expected: &'static str,
    },
}

impl Obstacle {
    /// Returns one word for metrics, JSON and logs, such as `swarm_network`.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

fn has_dependent(kind: DependencyKind, container: &str) -> String {
    match kind {
        DependencyKind::Link => {
            format!("container {container} is linked to it and could not be started again")
        }
        DependencyKind::Volumes => format!("container {container} shares its volumes and would lose them"),
        namespace => format!("container {container} shares its {namespace} and would lose it"),
    }
}

fn dependency_missing(kind: DependencyKind, container: &str) -> String {
    match kind {
        DependencyKind::Link => format!("it is linked to {container}, which is not running"),
        DependencyKind::Volumes => format!("it uses the volumes of {container}, which no longer exists"),
        namespace => format!("it shares the {namespace} of {container}, which is not running"),
    }
}

/// The labels with which other tools mark the containers that they create and replace.
///
/// Compose is not in this list, since it accepts a container that was recreated with its labels.
const MANAGERS: [(&str, &str); 8] = [
    (SWARM_TASK, "Docker Swarm"),
    ("com.docker.swarm.service.id", "Docker Swarm"),
    ("io.kubernetes.pod.uid", "Kubernetes"),
    ("com.amazonaws.ecs.task-arn", "Amazon ECS"),
    ("com.hashicorp.nomad.alloc_id", "Nomad"),
    ("io.balena.service-id", "the balena supervisor"),
    ("io.rancher.container.uuid", "Rancher"),
    ("PODMAN_SYSTEMD_UNIT", "systemd"),
];

/// Returns an obstacle if another tool creates and replaces this container.
pub fn managed(container: &Inspected) -> Option<Obstacle> {
    let labels = container.object("/Config/Labels")?;
    let (label, manager) = MANAGERS.iter().find(|(label, _)| labels.contains_key(*label))?;
    Some(Obstacle::Managed { manager, label })
}

/// Finds the first Podman secret in its variables. Podman shows each as `NAME_OF_THE_SECRET=*******` (seen on 5.4).
pub fn podman_secret(container: &Inspected) -> Option<Obstacle> {
    let mut variables = container.list("/Config/Env").iter().filter_map(Value::as_str);
    let secret = variables.find_map(|variable| variable.strip_suffix("=*******"))?;
    Some(Obstacle::PodmanSecret {
        secret: secret.to_owned(),
    })
}
