//! The port to the container engine: what the upgrader asks of Docker, and nothing more.
//!
//! `docker.rs` is the real one; the tests have an in-memory twin that the same contract tests hold to it.

mod credentials;
mod docker;
mod logged;
mod permissions;
mod storage;

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

pub(crate) use credentials::is_auth_error;
pub use credentials::{ConfigFile, Credentials, StaticCredentials};
pub use docker::DockerEngine;
pub use logged::Logged;
pub use permissions::{API_CALLS, MUTABLE_TAGS, Need, Right};
pub use storage::Storage;

use crate::container::{ApiVersion, ContainerId, ContainerSummary, ImageId, Inspected};
use crate::image::ImageReference;

/// Where an engine listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineHost {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp {
        /// `host:port`.
        address: String,
        /// With TLS: the directory that has `ca.pem`, `cert.pem` and `key.pem`.
        tls: Option<PathBuf>,
    },
}

impl std::fmt::Display for EngineHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp { address, .. } => write!(f, "tcp://{address}"),
        }
    }
}

/// Why the engine did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// 404: an observation, not a failure.
    #[error("no such object: {0}")]
    NotFound(String),
    /// 409: a name that is taken, a removal under way.
    #[error("conflict: {0}")]
    Conflict(String),
    /// Any other refusal, with the engine's own words.
    #[error("the engine refused ({status}): {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The engine's message.
        message: String,
    },
    /// The socket does not answer.
    #[error("the engine is out of reach: {0}")]
    Unreachable(String),
    /// The engine did not answer in time; whether it acted is for the next observation to tell.
    #[error("no answer from the engine within {0:?}")]
    TimedOut(Duration),
    /// The registry wants a login, and those that there are are not in order.
    #[error("{0}")]
    Unauthorized(String),
    /// An answer that is not what the API promises.
    #[error("unexpected answer from the engine: {0}")]
    Malformed(String),
}

impl EngineError {
    /// What it says, without the status of an answer where that says nothing: errors in a stream come with 200.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Refused { status: 200, message } => message.clone(),
            error => error.to_string(),
        }
    }
}

/// What the engine says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// The engine's own newest API version.
    pub api: ApiVersion,
    /// The engine's release, as it writes it.
    pub version: String,
    /// `linux`.
    pub os: String,
    /// `amd64`, `arm64`.
    pub architecture: String,
}

/// How far a pull has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PullProgress {
    /// Bytes downloaded so far, over all layers known.
    pub current: u64,
    /// Bytes to download, over all layers known; grows while layers become known.
    pub total: u64,
}

/// What the upgrader asks of a container engine.
///
/// Every call is safe to repeat. "Already so" (304) is success; 404 and 409 have their own error, since they are
/// observations. A call that errs may have happened: only looking again tells.
pub trait Engine: Send + Sync + 'static {
    /// The engine's version and platform.
    fn info(&self) -> impl Future<Output = Result<EngineInfo, EngineError>> + Send;

    /// Where the engine keeps its images, and what it says of the room there.
    fn storage(&self) -> impl Future<Output = Result<Storage, EngineError>> + Send;

    /// All containers, stopped ones included.
    fn containers(&self) -> impl Future<Output = Result<Vec<ContainerSummary>, EngineError>> + Send;

    /// The container's document, as the engine's own newest API writes it, nothing lost.
    fn inspect(&self, id: &ContainerId) -> impl Future<Output = Result<Inspected, EngineError>> + Send;

    /// The image's document, by reference or by id.
    fn inspect_image(&self, reference_or_id: &str)
    -> impl Future<Output = Result<Value, EngineError>> + Send;

    /// Pulls an image. Errors inside the 200 stream are errors here; still, only inspecting the image
    /// afterwards tells which one there is now.
    fn pull(
        &self,
        reference: &ImageReference,
        platform: Option<&str>,
        progress: impl FnMut(PullProgress) + Send,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Creates a container from a raw create body; its full id.
    fn create(
        &self,
        name: &str,
        platform: Option<&str>,
        body: &Value,
    ) -> impl Future<Output = Result<ContainerId, EngineError>> + Send;

    /// Connects a container to a network with the endpoint's raw settings. Connected already: success.
    fn connect(
        &self,
        network: &str,
        id: &ContainerId,
        endpoint: &Value,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Starts a container. Running already: success.
    fn start(&self, id: &ContainerId) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Tells a container to stop: its stop signal now, SIGKILL after `grace`.
    ///
    /// Returns when the container has stopped or after a few seconds, whichever is first: the engine finishes a
    /// stop whose client went away. Stopped already: success.
    fn stop(&self, id: &ContainerId, grace: Duration)
    -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Gives a container another name.
    fn rename(&self, id: &ContainerId, name: &str) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Sets the restart policy, in the words of the container document (`{"Name":"always","MaximumRetryCount":0}`).
    fn set_restart_policy(
        &self,
        id: &ContainerId,
        policy: &Value,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Removes a stopped container; never its volumes, never by force. Gone already: success.
    fn remove(&self, id: &ContainerId) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Removes an image that no container uses, never by force. Gone already: success.
    fn remove_image(&self, id: &ImageId) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// The last `lines` lines that a container printed, on either stream. Nothing where its log cannot be read back;
    /// no more than the engine gives within two seconds.
    fn logs(
        &self,
        id: &ContainerId,
        lines: usize,
    ) -> impl Future<Output = Result<String, EngineError>> + Send;

    /// The memory a running container uses now, in bytes.
    fn memory_usage(&self, id: &ContainerId) -> impl Future<Output = Result<u64, EngineError>> + Send;

    /// The files that somebody put into a container before its present life; no document tells of them.
    fn copied_files(&self, id: &ContainerId)
    -> impl Future<Output = Result<Vec<String>, EngineError>> + Send;

    /// The digest the registry has for a reference now, asked through the engine.
    fn registry_digest(
        &self,
        reference: &ImageReference,
    ) -> impl Future<Output = Result<String, EngineError>> + Send;
}
