//! Interprets the messages of engines. The API has statuses but few error codes, so only the words tell some answers apart.
//!
//! All such words are in this file. Each predicate names the engines on which the message was seen, and
//! `tests/clients/docker/messages.rs` has the messages exactly as those engines wrote them. Other wordings are safe: each
//! predicate says what happens for unknown words.

use crate::engine::EngineError;

fn has_any(message: &str, signs: &[&str]) -> bool {
    signs.iter().any(|sign| message.contains(sign))
}

impl EngineError {
    /// The message of an engine that refused a call for another reason than 404 or 409, or else nothing.
    fn refusal(&self) -> &str {
        match self {
            Self::Refused { message, .. } => message,
            _ => "",
        }
    }

    /// Whether a start failed because containerd or runc still has an old task: the engine can never start that container again.
    ///
    /// Seen on Docker 20.10.24 after dockerd was killed in the middle of a start; 26.1.5 and 28.5.2 can start such a container. Two
    /// messages are from source code: that of runc 1.1, and dockerd 20.10's `id already in use` for a container that containerd
    /// still has. If reworded, the start counts as refused, and the candidate as failed.
    pub fn is_leftover_task(&self) -> bool {
        let message = self.refusal();
        (message.contains("task ") && message.contains(": already exists"))
            || message.contains("container with given ID already exists")
            || message.contains("id already in use")
    }

    /// Whether a start failed because the network still has an endpoint of that name, which an earlier container or a crash of
    /// the engine left behind, and which may still be removed.
    ///
    /// Docker 20.10.24, 26.1.5, 28.5.2 answer with 403, as they do to a connect. If reworded, the start counts as refused, and the
    /// candidate as failed.
    pub fn is_leftover_endpoint(&self) -> bool {
        let message = self.refusal();
        message.contains("endpoint with name") && message.contains("already exists in network")
    }

    /// Whether a rename was refused because the container has the name already.
    ///
    /// Docker 20.10.24. If reworded, the step failed, and the next observation shows that it is done.
    pub fn is_own_name(&self) -> bool {
        self.refusal().contains("with the same name as its current name")
    }

    /// Whether the engine, with status 503 or 406, is not a manager of a Swarm.
    pub(super) fn is_not_a_manager(&self) -> bool {
        self.refusal().contains("not a swarm manager")
    }

    /// Whether a start failed because a host port that the container publishes is taken. Its replicas may use all ports of a
    /// range, or another process may use the port.
    ///
    /// If reworded, the start counts as refused, and the candidate as failed.
    pub fn is_port_taken(&self) -> bool {
        has_any(self.refusal(), &PORT_TAKEN)
    }

    /// Whether a start failed because the container's network has no free address.
    ///
    /// Docker 20.10.24, 26.1.5, 28.5.2. If reworded, the start counts as refused, and the candidate as failed.
    pub fn is_without_address(&self) -> bool {
        let signs = ["no available IPv4 addresses", "no available addresses"];
        has_any(self.refusal(), &signs)
    }

    /// Whether a start failed because a container is gone or not running whose network, IPC or PID namespace this container
    /// shares, or to which this container is linked.
    ///
    /// Docker 20.10.24. If reworded, a candidate with `--rm`, which a failed start removes, counts as failed. Any other candidate
    /// is observed again, and then the list of containers shows what is missing.
    pub fn is_dependency_missing(&self) -> bool {
        let message = self.said().unwrap_or_default();
        has_any(message, &["non running container", "No such container"])
            || message.ends_with("is not running")
    }

    /// Whether a start failed only because the image lacks the command. The runtime, the mounts and the devices were available.
    /// So was the network on 20.10, whereas 28.5 connects it later.
    ///
    /// Docker 20.10.24 and 28.5.2 with runc 1.1. If reworded, the start counts as refused.
    pub fn is_command_missing(&self, command: &str) -> bool {
        self.refusal().contains(command)
    }

    /// Whether the engine, its runtime or a hook caused a refused start, so that another attempt may succeed.
    ///
    /// Docker 20.10.24, 26.1.5 and 28.5.2 map runc's errors to 400. If reworded, the start counts as permanently refused.
    pub fn is_about_the_engine(&self) -> bool {
        let signs = [
            "hook",
            "OCI runtime state failed",
            "cgroup",
            "timed out",
            "context deadline exceeded",
        ];
        self.is_leftover_task()
            || self.is_leftover_endpoint()
            || self.is_port_taken()
            || has_any(self.refusal(), &signs) && start_problem(self.refusal()).is_none()
    }

    /// Whether a container cannot be removed because its removal is already in progress.
    ///
    /// Docker 20.10.24, 26.1.5, 28.5.2. If reworded, the removal is repeated at the next observation.
    pub(super) fn is_removal_in_progress(&self) -> bool {
        matches!(self, Self::Conflict(message) if message.contains("already in progress"))
    }

    /// Whether a container cannot be connected to a network because it is already connected.
    ///
    /// Docker 20.10.24, 26.1.5, 28.5.2 for a running container; for a stopped one they answer 200. Podman 5.8.6 has its own words.
    /// `already attached to network` is Docker's message for services. If reworded, the connect fails and is repeated.
    pub(super) fn is_connected_already(&self) -> bool {
        let signs = ["already attached to network", "already connected to network"];
        matches!(self, Self::Refused { status: 403, .. })
            && (self.is_leftover_endpoint() || has_any(self.refusal(), &signs))
    }

    /// Whether the engine does not support the API version of the request, because another engine now answers at the address.
    ///
    /// Docker 20.10.24, 26.1.5, 28.5.2. If reworded, every call fails until this program is restarted.
    pub(super) fn is_wrong_api_version(&self) -> bool {
        matches!(self, Self::Refused { status: 400, message } if message.contains("client version"))
    }

    /// Whether a container's log cannot be read because its log driver is write-only.
    ///
    /// Docker 20.10.24, 26.1.5, 28.5.2; Podman 5.8.6 words this differently. If reworded, the evidence contains no log, and
    /// `LOG_LEVEL=debug` shows an error.
    pub(super) fn is_unreadable_log(&self) -> bool {
        has_any(self.refusal(), &["does not support reading", "cannot read logs"])
    }

    /// Whether the engine's disk is full.
    ///
    /// The words are the kernel's, and every engine passes them on. If reworded, the message is shown without an explanation.
    pub fn is_disk_full(&self) -> bool {
        self.refusal().contains(NO_SPACE)
    }

    /// Whether a registry refused a request because it lacked a valid login.
    ///
    /// Registries and engines do not share one wording. These are from Docker Hub, the distribution registry, AWS ECR, Docker 20.10
    /// to 28.5 and, from source code, the containerd store. If reworded, the message is shown without saying where to put a login.
    pub(in crate::engine) fn is_auth_error(&self) -> bool {
        let signs = [
            "unauthorized",
            // The containerd store names the step that failed.
            "failed to authorize",
            "failed to fetch anonymous token",
            "authorization failed",
            "insufficient_scope",
            "403 forbidden",
            "authentication required",
            "no basic auth credentials",
            "access denied",
            "denied:",
            "docker login",
            // The engine's final message after it retried an insecure registry over plain HTTP.
            "http request to an https server",
        ];
        let (Self::Refused { message, .. } | Self::NotFound(message)) = self else {
            return false;
        };
        has_any(&message.to_ascii_lowercase(), &signs)
    }

    /// Whether the engine could not reach a registry at all.
    ///
    /// The words are Go's, and every engine passes them on. If reworded, an image on the host does not replace the registry's.
    pub(crate) fn is_registry_unreachable(&self) -> bool {
        let signs = [
            "no such host",
            "connection refused",
            "network is unreachable",
            "no route to host",
            "i/o timeout",
            "Client.Timeout exceeded",
            "TLS handshake timeout",
        ];
        has_any(self.refusal(), &signs)
    }

    /// Whether a registry lacks an image, or lacks it for this platform. Only a push changes that.
    ///
    /// Docker 20.10 to 28.5, the containerd store, the distribution registry. If reworded, the request is repeated five times.
    pub(in crate::engine) fn is_missing_image(&self) -> bool {
        let signs = [
            "manifest unknown",
            "not found",
            "no matching manifest",
            "no match for platform",
        ];
        has_any(self.refusal(), &signs)
    }
}

/// A manager's error for an update that names an outdated version; from swarmkit's manager/state/store.
pub(super) const OUT_OF_SEQUENCE: &str = "update out of sequence";

/// The kernel's words for a full disk.
const NO_SPACE: &str = "no space left on device";

/// The messages about a host port that is taken. `port is already allocated`: Docker 20.10.24, 26.1.5, 28.5.2. From source code:
/// `all ports are allocated`, for a range, and the messages for a port that a process outside Docker uses.
const PORT_TAKEN: [&str; 4] = [
    "port is already allocated",
    "all ports are allocated",
    // Written by the userland proxy, up to Docker 27.
    ": bind: address already in use",
    // Since Docker 28.
    "failed to bind host port",
];

/// Faults of an image: a phrase in the engine's message, and the explanation for an operator.
const IMAGE_PROBLEMS: [(&str, &str); 6] = [
    ("executable file not found", NO_ENTRYPOINT),
    ("exec format error", "it is built for another processor"),
    ("unable to find user", NO_USER),
    ("unable to find group", "its group does not exist in the image"),
    ("no matching entries in passwd file", NO_USER),
    ("No such image", "its image is no longer on this host"),
];

const NO_ENTRYPOINT: &str = "its entrypoint does not exist in the image";
const NO_USER: &str = "its user does not exist in the image";
const NO_ADDRESS: &str = "its network has no free address";
const NO_SOURCE: &str = "the source of one of its bind mounts is missing on the host";
const NO_RUNTIME: &str = "its runtime is not installed on this host";
const NO_DRIVER: &str = "the driver of a device that it needs is missing on this host";
const NO_DEVICE: &str = "a device that it needs is missing on this host";
/// Tells an operator that the engine has no space left.
pub(crate) const DISK_FULL: &str = "the engine's disk is full";

/// Problems of the host, which do not depend on the image.
const HOST_PROBLEMS: [(&str, &str); 14] = [
    ("no available IPv4 addresses", NO_ADDRESS),
    ("no available addresses", NO_ADDRESS),
    ("bind source path does not exist", NO_SOURCE),
    (NO_SPACE, DISK_FULL),
    ("unknown or invalid runtime name", NO_RUNTIME),
    ("Unknown runtime specified", NO_RUNTIME),
    ("could not select device driver", NO_DRIVER),
    // Since Docker 29.3, `--gpus` requests devices through CDI.
    ("failed to discover GPU vendor from CDI", NO_DRIVER),
    ("CDI device injection failed", NO_DEVICE),
    // From a vendor's runtime and its hook.
    ("nvidia-container-cli: initialization error", NO_DRIVER),
    ("failed to inject CDI devices", NO_DEVICE),
    ("error gathering device information", NO_DEVICE),
    ("cannot allocate memory", "the host has too little memory"),
    ("Address already in use", "its fixed address is taken"),
];

fn known(problems: &[(&str, &'static str)], message: &str) -> Option<&'static str> {
    let known = problems.iter().find(|(sign, _)| message.contains(sign));
    known.map(|(_, problem)| *problem)
}

/// Returns, in an operator's terms, what the host lacks for a container that could not be started.
///
/// For engines and unknown words, see [`start_problem`].
pub(crate) fn host_problem(message: &str) -> Option<&'static str> {
    let port = || has_any(message, &PORT_TAKEN).then_some("a port that it publishes is taken");
    known(&HOST_PROBLEMS, message).or_else(port)
}

/// Explains to an operator why a start was refused, if the engine's words are known.
///
/// Docker 20.10.24, 26.1.5 and 28.5.2, and runc 1.1 and 1.3 for problems inside the container. The words about CDI are from bug
/// reports about Docker 28 and 29. If reworded, only the engine's message is shown.
pub(in crate::engine) fn start_problem(message: &str) -> Option<&'static str> {
    // Errors of mounts and kernel parameters have the same words, but name no program.
    let is_exec = message.contains("exec: \"");
    match known(&IMAGE_PROBLEMS, message).or_else(|| host_problem(message)) {
        Some(problem) => Some(problem),
        None if is_exec && message.contains("permission denied") => Some("its entrypoint is not executable"),
        None if is_exec && message.contains("no such file or directory") => Some(NO_ENTRYPOINT),
        None => None,
    }
}

/// Whether the error in a container's state only means that the client disconnected during the start, which says nothing
/// about the container.
///
/// Docker 26.1 and 28.5; 20.10 finishes such a start. If reworded, they are shown as the reason why the container ended.
pub(crate) fn is_abandoned_start(state_error: &str) -> bool {
    state_error.ends_with("context canceled")
}

/// The meaning of a layer's status in the output of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerStatus {
    /// Bytes are arriving.
    Downloading,
    /// All bytes have arrived.
    Downloaded,
    /// The bytes are being checked or unpacked, or the layer is done.
    Unpacking,
    /// The layer waits for its turn, or for the next attempt.
    Awaited,
    /// Any other status, such as a line about the whole image.
    Other,
}

/// Interprets the status of a layer.
///
/// Docker 20.10.24, 26.1.5, 28.5.2. If reworded, no progress is shown.
pub(super) fn layer_status(status: &str) -> LayerStatus {
    match status {
        "Downloading" => LayerStatus::Downloading,
        "Download complete" => LayerStatus::Downloaded,
        "Verifying Checksum" | "Extracting" | "Pull complete" => LayerStatus::Unpacking,
        "Pulling fs layer" | "Waiting" => LayerStatus::Awaited,
        _ if status.starts_with("Retrying in") => LayerStatus::Awaited,
        _ => LayerStatus::Other,
    }
}
