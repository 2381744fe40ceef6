//! The meaning of engines' messages. The API has statuses but few codes, so some answers are known only by words.
//!
//! All the words are here, and nowhere else. Each predicate names the engines on which it was seen, and its sentences
//! are in `tests/clients/docker/messages.rs` as those engines wrote them. An engine that words them differently is
//! safe: each predicate says what happens then.

/// Whether a start failed for a task left in containerd or runc: the engine can never start that container again.
///
/// Docker 20.10.24, when dockerd was killed in the middle of a start; 26.1.5 and 28.5.2 start it. The sentence of
/// runc 1.1 and `id already in use`, dockerd 20.10's for a container that containerd still has, are from their
/// sources. Unknown words: the start counts as refused, and the candidate as failed.
pub(in crate::engine) fn is_leftover_task(message: &str) -> bool {
    (message.contains("task ") && message.contains(": already exists"))
        || message.contains("container with given ID already exists")
        || message.contains("id already in use")
}

/// Whether a start failed because the network still has an endpoint of that name, which an earlier container or a
/// crash of the engine left behind.
///
/// Docker 20.10.24, 26.1.5, 28.5.2; they answer 403, as to a connect. Unknown words: the start counts as refused, and
/// the candidate as failed.
pub(in crate::engine) fn is_leftover_endpoint(message: &str) -> bool {
    message.contains("endpoint with name") && message.contains("already exists in network")
}

/// In the engine's answer, with status 503 or 406, if it is not a manager of a Swarm.
pub(super) const NO_MANAGER: &str = "not a swarm manager";

/// Whether a start failed because a port of the host that the container publishes is taken: all ports of a range are,
/// by its replicas, or some other process has it.
///
/// `port is already allocated`: Docker 20.10.24, 26.1.5, 28.5.2. By their sources: `all ports are allocated`, of a range,
/// and the words for a port that a process outside of Docker has. Unknown words: the start counts as refused, and the
/// candidate as failed.
pub(in crate::engine) fn is_port_taken(message: &str) -> bool {
    const SIGNS: [&str; 4] = [
        "port is already allocated",
        "all ports are allocated",
        // The userland proxy, to 27.
        ": bind: address already in use",
        // From 28.
        "failed to bind host port",
    ];
    SIGNS.iter().any(|sign| message.contains(sign))
}

/// Whether a start failed because the container's network has no free address.
///
/// Docker 20.10.24, 26.1.5, 28.5.2. Unknown words: the start counts as refused, and the candidate as failed.
pub(in crate::engine) fn is_without_address(message: &str) -> bool {
    message.contains("no available IPv4 addresses") || message.contains("no available addresses")
}

/// Whether a start failed because a container whose network, IPC or PID namespace this one shares, or to which it is
/// linked, is gone or does not run.
///
/// Docker 20.10.24. Unknown words: an `--rm` candidate, which a failed start removes, counts as failed; any other one is
/// looked at again, and then the list of containers says what is missing.
pub(in crate::engine) fn is_dependency_missing(message: &str) -> bool {
    message.contains("non running container")
        || message.contains("No such container")
        || message.ends_with("is not running")
}

/// Whether a start failed only because the image does not have its command: the runtime, the mounts and the devices were
/// there. So was the network on 20.10; 28.5 connects it later.
///
/// Docker 20.10.24 and 28.5.2 with runc 1.1. Unknown words: the start counts as refused.
pub(in crate::engine) fn is_command_missing(message: &str, command: &str) -> bool {
    message.contains(command)
}

/// Faults of an image: words in the engine's message, and how to say it to an operator.
const IMAGE_PROBLEMS: [(&str, &str); 6] = [
    (
        "executable file not found",
        "its entrypoint does not exist in the image",
    ),
    ("exec format error", "it is built for another processor"),
    ("unable to find user", "its user does not exist in the image"),
    ("unable to find group", "its group does not exist in the image"),
    (
        "no matching entries in passwd file",
        "its user does not exist in the image",
    ),
    ("No such image", "its image is no longer on this host"),
];

const NO_DRIVER: &str = "the driver of a device that it needs is missing on this host";
const NO_DEVICE: &str = "a device that it needs is missing on this host";
/// That the engine has no room left, in an operator's terms.
pub(crate) const DISK_FULL: &str = "the engine's disk is full";

/// Things that the host lacks, whatever the image.
const HOST_PROBLEMS: [(&str, &str); 14] = [
    ("no available IPv4 addresses", "its network has no free address"),
    ("no available addresses", "its network has no free address"),
    (
        "bind source path does not exist",
        "the source of one of its bind mounts is missing on the host",
    ),
    ("no space left on device", DISK_FULL),
    (
        "unknown or invalid runtime name",
        "its runtime is not installed on this host",
    ),
    (
        "Unknown runtime specified",
        "its runtime is not installed on this host",
    ),
    ("could not select device driver", NO_DRIVER),
    // From 29.3 on, `--gpus` asks for devices of this interface.
    ("failed to discover GPU vendor from CDI", NO_DRIVER),
    ("CDI device injection failed", NO_DEVICE),
    // A vendor's runtime and its hook.
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

/// The thing that the host lacks for a container that was not started, in an operator's terms.
///
/// Engines and unknown words as in [`start_problem`].
pub(crate) fn host_problem(message: &str) -> Option<&'static str> {
    let port = || is_port_taken(message).then_some("a port that it publishes is taken");
    known(&HOST_PROBLEMS, message).or_else(port)
}

/// Why a start was refused, in an operator's terms, if the engine's words are known.
///
/// Docker 20.10.24, 26.1.5 and 28.5.2, and runc 1.1 and 1.3 for what is inside of the container; the words about CDI are
/// from reports about 28 and 29. Unknown words: the engine's message is shown alone.
pub(in crate::engine) fn start_problem(message: &str) -> Option<&'static str> {
    // Mounts and kernel parameters fail with the same words, but without a program.
    let is_exec = message.contains("exec: \"");
    match known(&IMAGE_PROBLEMS, message).or_else(|| host_problem(message)) {
        Some(problem) => Some(problem),
        None if is_exec && message.contains("permission denied") => Some("its entrypoint is not executable"),
        None if is_exec && message.contains("no such file or directory") => {
            Some("its entrypoint does not exist in the image")
        }
        None => None,
    }
}

/// Whether a start that was refused with 400 failed in the engine, in its runtime or in one of its hooks, and so may pass.
///
/// Docker 20.10.24, 26.1.5 and 28.5.2 map errors of runc to 400. Unknown words: the start counts as refused for good.
pub(in crate::engine) fn is_about_the_engine(message: &str) -> bool {
    [
        "hook",
        "OCI runtime state failed",
        "cgroup",
        "timed out",
        "context deadline exceeded",
    ]
    .iter()
    .any(|sign| message.contains(sign))
        && start_problem(message).is_none()
}

/// Whether the error in a container's state means only that the client of its start went away, which says nothing
/// about the container.
///
/// Docker 26.1 and 28.5; 20.10 finishes such a start. Unknown words: they are shown as the cause of the end.
pub(crate) fn is_abandoned_start(state_error: &str) -> bool {
    state_error.ends_with("context canceled")
}

/// Whether a container cannot be removed because it is being removed.
///
/// Docker 20.10.24, 26.1.5, 28.5.2. Unknown words: the removal is repeated at the next observation.
pub(super) fn is_removal_in_progress(message: &str) -> bool {
    message.contains("already in progress")
}

/// Whether a container cannot be connected to a network because it is connected.
///
/// Docker 20.10.24, 26.1.5, 28.5.2, of a running container; of another one they answer 200. Podman 5.8.6 has words of
/// its own. `already attached to network` is Docker's for services. Unknown words: the connect fails and is repeated.
pub(super) fn is_connected_already(message: &str) -> bool {
    is_leftover_endpoint(message)
        || message.contains("already attached to network")
        || message.contains("already connected to network")
}

/// Whether the engine does not speak the API version of the request: another engine now answers at the address.
///
/// Docker 20.10.24, 26.1.5, 28.5.2. Unknown words: every call fails until this program is restarted.
pub(super) fn is_wrong_api_version(message: &str) -> bool {
    message.contains("client version")
}

/// Whether a container's log cannot be read back, since its log driver only writes.
///
/// Docker 20.10.24, 26.1.5, 28.5.2; Podman 5.8.6 has words of its own. Unknown words: there is no log in the
/// evidence, and an error at `LOG_LEVEL=debug`.
pub(super) fn is_unreadable_log(message: &str) -> bool {
    message.contains("does not support reading") || message.contains("cannot read logs")
}

/// Whether the engine's disk is full.
///
/// The kernel's words, relayed by every engine. Unknown words: the message is shown without that explanation.
pub(in crate::engine) fn is_disk_full(message: &str) -> bool {
    message.contains("no space left on device")
}

/// Whether a registry refused for want of a login.
///
/// Registries and engines have no common words for it: these are Docker Hub's, the distribution registry's, AWS ECR's,
/// Docker 20.10 to 28.5's and, by its source, the containerd store's. Unknown words: the message is shown without saying
/// where a login belongs.
pub(in crate::engine) fn is_auth_error(message: &str) -> bool {
    const SIGNS: [&str; 12] = [
        "unauthorized",
        // The containerd store says what it was about to do.
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
        // The engine's last word after it tried an insecure registry again by plain HTTP.
        "http request to an https server",
    ];
    let message = message.to_ascii_lowercase();
    SIGNS.iter().any(|sign| message.contains(sign))
}

/// Whether the engine could not reach a registry at all.
///
/// Go's words, relayed by every engine. Unknown words: an image that is on the host is not used in place of the registry's.
pub(in crate::engine) fn is_registry_unreachable(message: &str) -> bool {
    const SIGNS: [&str; 7] = [
        "no such host",
        "connection refused",
        "network is unreachable",
        "no route to host",
        "i/o timeout",
        "Client.Timeout exceeded",
        "TLS handshake timeout",
    ];
    SIGNS.iter().any(|sign| message.contains(sign))
}

/// Whether a registry does not have an image, or not for this platform: only a push changes that.
///
/// Docker 20.10 to 28.5, the containerd store, and the distribution registry. Unknown words: it is asked for five times more.
pub(in crate::engine) fn is_missing_image(message: &str) -> bool {
    [
        "manifest unknown",
        "not found",
        "no matching manifest",
        "no match for platform",
    ]
    .iter()
    .any(|sign| message.contains(sign))
}

/// The meaning of a layer's status in the stream of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerStatus {
    /// Bytes are arriving.
    Downloading,
    /// All bytes are there.
    Downloaded,
    /// They are unpacked, or the layer is done.
    Unpacking,
    /// It waits for its turn, or for the next attempt.
    Awaited,
    /// Anything else, such as a line about the whole image.
    Other,
}

/// Reads the status of a layer.
///
/// Docker 20.10.24, 26.1.5, 28.5.2. Unknown words: no progress is shown.
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
