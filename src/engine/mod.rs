//! The port to the container engine. It has exactly the calls that the upgrader makes.
//!
//! [`DockerEngine`] is the real implementation. The tests have one in memory, and run the same contract tests on both.

mod calls;
mod credentials;
mod docker;
mod error;
mod permissions;
mod service;
mod storage;
mod volume;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

pub use calls::EngineCalls;
pub use credentials::{ConfigFile, Credentials, StaticCredentials};
pub use docker::DockerEngine;
pub(crate) use docker::messages::{DISK_FULL, host_problem, is_abandoned_start};
pub use error::EngineError;
pub use permissions::{
    API_CALLS, ApiCall, HEALTH_ACTION_RESTART, HEALTH_PROBE_EXEC, MUTABLE_TAGS, Purpose, SWARM,
};
pub use service::ServiceUpdate;
pub use storage::Storage;
pub use volume::Volume;

use crate::container::{ApiVersion, ContainerId, ContainerSummary, ImageId, Inspected};
use crate::image::ImageReference;

/// The address on which an engine listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineHost {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp {
        /// `host:port`.
        address: String,
        /// With TLS, the directory that contains `ca.pem`, `cert.pem` and `key.pem`.
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

/// An engine's version and platform, from its answer to `GET /version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// The version of the API that the upgrader uses with this engine.
    pub api: ApiVersion,
    /// The engine's version, exactly as it is reported, such as `20.10.24+dfsg1`.
    pub version: String,
    /// Whether it is Podman, which answers 500 even to requests that can never succeed.
    pub is_podman: bool,
    /// Its operating system, such as `linux`.
    pub os: String,
    /// Its architecture, such as `amd64` or `arm64`.
    pub architecture: String,
}

/// The progress of a pull.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PullProgress {
    /// The bytes downloaded so far, over all known layers.
    pub current: u64,
    /// The bytes to download, over all known layers. It grows as more layers become known.
    pub total: u64,
}

/// An event that an engine reports as it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening<'a> {
    /// An event of a container.
    Container {
        /// Its id.
        id: &'a str,
        /// Whether its labels show that this program created it.
        is_ours: bool,
    },
    /// An event of the volume with this name.
    Volume(&'a str),
}

/// The upgrader's calls to a container engine.
///
/// Every call is safe to repeat. 304 ("already so") counts as success. 404 and 409 have their own errors, since they are
/// observations. A failed call may still have taken effect; only a new observation shows whether it did.
pub trait Engine: Send + Sync + 'static {
    /// Returns the counters of the calls made so far, if the calls are counted.
    fn calls(&self) -> EngineCalls {
        EngineCalls::default()
    }

    /// Returns the engine's version and platform.
    fn info(&self) -> impl Future<Output = Result<EngineInfo, EngineError>> + Send;

    /// Returns where the engine stores its images, and how much space it reports as free there.
    fn storage(&self) -> impl Future<Output = Result<Storage, EngineError>> + Send;

    /// Identifies the engine's host. The value does not change during the life of the host.
    fn identity(&self) -> impl Future<Output = Result<String, EngineError>> + Send;

    /// Lists all containers, including stopped ones.
    fn containers(&self) -> impl Future<Output = Result<Vec<ContainerSummary>, EngineError>> + Send;

    /// Returns the container's document with all its fields.
    fn inspect(&self, id: &ContainerId) -> impl Future<Output = Result<Inspected, EngineError>> + Send;

    /// Ignores our labels that a container inherited from its image. Inspects the image only if that is unclear.
    fn check_labels(
        &self,
        container: &mut Inspected,
    ) -> impl Future<Output = Result<(), EngineError>> + Send {
        async {
            if container.has_doubtful_labels() {
                let image = match self.inspect_image(container.image_id().as_str()).await {
                    Err(error @ (EngineError::Unreachable(_) | EngineError::TimedOut(_))) => {
                        return Err(error);
                    }
                    answer => answer.ok(),
                };
                container.check_labels(image.as_ref());
            }
            Ok(())
        }
    }

    /// Returns the image's document, by reference or by id.
    fn inspect_image(&self, reference_or_id: &str)
    -> impl Future<Output = Result<Value, EngineError>> + Send;

    /// Pulls an image. An error inside a stream with status 200 counts as an error here, but only inspecting the image
    /// afterwards shows which image is present.
    fn pull(
        &self,
        reference: &ImageReference,
        platform: Option<&str>,
        progress: impl FnMut(PullProgress) + Send,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Creates a container from a raw create body, and returns its full id.
    fn create(
        &self,
        name: &str,
        platform: Option<&str>,
        body: &Value,
    ) -> impl Future<Output = Result<ContainerId, EngineError>> + Send;

    /// Connects a container to a network with the endpoint's raw settings. Succeeds if it is already connected.
    fn connect(
        &self,
        network: &str,
        id: &ContainerId,
        endpoint: &Value,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Starts a container. Succeeds if it is already running.
    fn start(&self, id: &ContainerId) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Requests a stop: sends the container's stop signal now, and SIGKILL after `grace`, rounded up to whole seconds.
    /// Returns when the container has stopped or after one second, whichever comes first; the engine completes the stop even
    /// after its client disconnects. Succeeds if the container has already stopped.
    fn stop(&self, id: &ContainerId, grace: Duration)
    -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Requests a restart: a stop with this grace, as in [`Self::stop`], then a start. A stopped container is only started.
    ///
    /// Returns when the container runs again or after one second, whichever comes first; the engine completes the restart
    /// even after its client disconnects. Fails without a request on engines that would not. Keeps a container with `--rm`.
    fn restart(
        &self,
        id: &ContainerId,
        grace: Duration,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Renames a container.
    fn rename(&self, id: &ContainerId, name: &str) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Sets the restart policy, in the form of a container document: `{"Name":"always","MaximumRetryCount":0}`.
    fn set_restart_policy(
        &self,
        id: &ContainerId,
        policy: &Value,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Removes a stopped container, never its volumes and never by force. Succeeds if it is gone or already being removed.
    fn remove(&self, id: &ContainerId) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Removes an image that no container uses, never by force. Succeeds if it is already gone.
    fn remove_image(&self, id: &ImageId) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Returns the last `lines` lines that a container printed on either stream. Each line is cut after 64 KiB, and at most
    /// as much is read as the engine sends within two seconds. Empty if the log driver is write-only.
    fn logs(
        &self,
        id: &ContainerId,
        lines: usize,
    ) -> impl Future<Output = Result<String, EngineError>> + Send;

    /// Prepares a command in a running container, and returns the id to start it with.
    fn create_exec(
        &self,
        id: &ContainerId,
        command: &[String],
    ) -> impl Future<Output = Result<String, EngineError>> + Send;

    /// Starts a prepared command. Once the command has closed both of its output streams, returns the last lines that it
    /// printed on them. The command keeps running if the caller drops the call. A command that cannot be executed is either
    /// an error, or has the exit code 126 or 127.
    fn start_exec(&self, exec: &str) -> impl Future<Output = Result<String, EngineError>> + Send;

    /// Returns the exit code of a command, or `None` while it runs. Not found if it never started or ended minutes ago.
    fn exec_exit_code(&self, exec: &str) -> impl Future<Output = Result<Option<i64>, EngineError>> + Send;

    /// Returns how many bytes of memory a running container uses now.
    fn memory_usage(&self, id: &ContainerId) -> impl Future<Output = Result<u64, EngineError>> + Send;

    /// Lists the files that were copied into a container before its current run started. No document lists them.
    fn copied_files(&self, id: &ContainerId)
    -> impl Future<Output = Result<Vec<String>, EngineError>> + Send;

    /// Reports events as they happen: a container is created, started, paused or removed, ends, or changes its health or
    /// name; a volume is created or removed. Returns when the connection ends, after an hour at the latest.
    fn watch(
        &self,
        report: impl FnMut(Happening<'_>) + Send,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Lists the volumes that have this label.
    fn volumes(&self, label: &str) -> impl Future<Output = Result<Vec<Volume>, EngineError>> + Send;

    /// Creates a volume. Succeeds if a volume of that name exists, which then keeps its labels.
    fn create_volume(&self, volume: &Volume) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Removes a volume, never by force. Succeeds if it is already gone.
    fn remove_volume(&self, name: &str) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Asks the registry, through the engine, for the current digest of a reference and the platforms that it supports.
    fn distribution(
        &self,
        reference: &ImageReference,
    ) -> impl Future<Output = Result<Value, EngineError>> + Send;

    /// Returns the documents of the Swarm's services, with their numbers of tasks, or `None` if the engine is not a manager.
    fn services(&self) -> impl Future<Output = Result<Option<Vec<Value>>, EngineError>> + Send {
        std::future::ready(Ok(None))
    }

    /// Returns the documents of all tasks of these services, including those of some earlier specs.
    fn tasks(&self, services: &[&str]) -> impl Future<Output = Result<Vec<Value>, EngineError>> + Send {
        let _ = services;
        std::future::ready(Ok(Vec::new()))
    }

    /// Returns the documents of the Swarm's nodes.
    fn nodes(&self) -> impl Future<Output = Result<Vec<Value>, EngineError>> + Send {
        std::future::ready(Ok(Vec::new()))
    }

    /// Updates a service. Fails with [`EngineError::Conflict`] if its version has changed.
    fn update_service(
        &self,
        update: ServiceUpdate<'_>,
    ) -> impl Future<Output = Result<(), EngineError>> + Send {
        let _ = update;
        std::future::ready(Err(EngineError::NotFound("no Swarm".to_owned())))
    }
}
