//! The port to the container engine: what the upgrader asks of Docker, and nothing more.
//!
//! [`DockerEngine`] is the real one. The tests have a twin in memory, and run the same contract tests on both.

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

/// An engine's version and platform, by its answer to `GET /version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineInfo {
    /// The version of the API that is spoken with it.
    pub api: ApiVersion,
    /// The engine's version, exactly as it reports it: `20.10.24+dfsg1`.
    pub version: String,
    /// Whether it is Podman, which also answers 500 to requests that it can never carry out.
    pub is_podman: bool,
    /// Its operating system: `linux`.
    pub os: String,
    /// Its architecture: `amd64`, `arm64`.
    pub architecture: String,
}

/// How far a pull has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PullProgress {
    /// Bytes downloaded so far, over all layers known.
    pub current: u64,
    /// Bytes to download, over all layers known. It grows while layers become known.
    pub total: u64,
}

/// Something that an engine reports as it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening<'a> {
    /// To a container.
    Container {
        /// Its id.
        id: &'a str,
        /// Whether this program created it, by its labels.
        is_ours: bool,
    },
    /// To the volume of this name.
    Volume(&'a str),
}

/// The upgrader's calls to a container engine.
///
/// Every call is safe to repeat. 304 ("already so") is success; 404 and 409 have errors of their own, since they are
/// observations. A call that errs may have happened all the same: only another observation shows.
pub trait Engine: Send + Sync + 'static {
    /// The calls so far, if they are counted.
    fn calls(&self) -> EngineCalls {
        EngineCalls::default()
    }

    /// The engine's version and platform.
    fn info(&self) -> impl Future<Output = Result<EngineInfo, EngineError>> + Send;

    /// Where the engine keeps its images, and how much space it says is left there.
    fn storage(&self) -> impl Future<Output = Result<Storage, EngineError>> + Send;

    /// Identifies the engine's host, for as long as the host lasts.
    fn identity(&self) -> impl Future<Output = Result<String, EngineError>> + Send;

    /// All containers, stopped ones included.
    fn containers(&self) -> impl Future<Output = Result<Vec<ContainerSummary>, EngineError>> + Send;

    /// The container's document with all its fields.
    fn inspect(&self, id: &ContainerId) -> impl Future<Output = Result<Inspected, EngineError>> + Send;

    /// Has a container's labels of ours count only if they did not come with its image. The image is asked for in case of
    /// doubt alone.
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

    /// The image's document, by reference or by id.
    fn inspect_image(&self, reference_or_id: &str)
    -> impl Future<Output = Result<Value, EngineError>> + Send;

    /// Pulls an image. An error inside the 200 stream is an error here, but only inspecting the image afterwards
    /// shows which one there is now.
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

    /// Connects a container to a network with the endpoint's raw settings. Connected already: success.
    fn connect(
        &self,
        network: &str,
        id: &ContainerId,
        endpoint: &Value,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Starts a container. Running already: success.
    fn start(&self, id: &ContainerId) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Requests a stop: sends the container's stop signal now, and SIGKILL after `grace`, rounded up to whole seconds. Returns
    /// when the container has stopped or after one second, whichever comes first; the engine completes the stop even after its
    /// client disconnects. A container that has already stopped counts as success.
    fn stop(&self, id: &ContainerId, grace: Duration)
    -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Requests a restart: a stop with this grace, as [`Self::stop`], then a start. A stopped container is only started.
    ///
    /// Returns when the container lives again or after one second, whichever comes first: the engine finishes a restart
    /// whose client went away. Engines that do not are not asked, which is an error. A container with `--rm` stays.
    fn restart(
        &self,
        id: &ContainerId,
        grace: Duration,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Gives a container another name.
    fn rename(&self, id: &ContainerId, name: &str) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Sets the restart policy, written as in a container document: `{"Name":"always","MaximumRetryCount":0}`.
    fn set_restart_policy(
        &self,
        id: &ContainerId,
        policy: &Value,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Removes a stopped container, never its volumes and never by force. Gone or being removed already: success.
    fn remove(&self, id: &ContainerId) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Removes an image that no container uses, never by force. Gone already: success.
    fn remove_image(&self, id: &ImageId) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// The last `lines` lines that a container printed, on either stream: each cut after 64 KiB, and no more than the
    /// engine sends within two seconds. Empty where the log driver cannot read its log back.
    fn logs(
        &self,
        id: &ContainerId,
        lines: usize,
    ) -> impl Future<Output = Result<String, EngineError>> + Send;

    /// Prepares a command in a running container; the id by which it is started.
    fn create_exec(
        &self,
        id: &ContainerId,
        command: &[String],
    ) -> impl Future<Output = Result<String, EngineError>> + Send;

    /// Starts a prepared command, and returns the last lines that it printed on either stream once it has closed both. The
    /// command keeps running when the caller drops the call. A command that cannot be executed may be an error, or has
    /// exit code 126 or 127.
    fn start_exec(&self, exec: &str) -> impl Future<Output = Result<String, EngineError>> + Send;

    /// The exit code of a command; `None` while it runs. Not found if it was not started or ended some minutes ago.
    fn exec_exit_code(&self, exec: &str) -> impl Future<Output = Result<Option<i64>, EngineError>> + Send;

    /// The memory that a running container uses now, in bytes.
    fn memory_usage(&self, id: &ContainerId) -> impl Future<Output = Result<u64, EngineError>> + Send;

    /// The paths of files that were copied into a container before its current life started. No document lists them.
    fn copied_files(&self, id: &ContainerId)
    -> impl Future<Output = Result<Vec<String>, EngineError>> + Send;

    /// Reports each container that is created, starts, ends, is paused or removed, or gets another health or name, and each
    /// volume that comes or goes, as it happens. Returns when the connection ends, after an hour at the latest.
    fn watch(
        &self,
        report: impl FnMut(Happening<'_>) + Send,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// The volumes that have this label.
    fn volumes(&self, label: &str) -> impl Future<Output = Result<Vec<Volume>, EngineError>> + Send;

    /// Creates a volume. An existing volume of that name keeps its labels: success.
    fn create_volume(&self, volume: &Volume) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Removes a volume, never by force. Gone already: success.
    fn remove_volume(&self, name: &str) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Looks a reference up at the registry now, through the engine: its digest, and the platforms it is for.
    fn distribution(
        &self,
        reference: &ImageReference,
    ) -> impl Future<Output = Result<Value, EngineError>> + Send {
        let _ = reference;
        std::future::ready(Err(EngineError::NotFound("no registry".to_owned())))
    }

    /// The documents of the Swarm's services, with their numbers of tasks; `None` if the engine is not a manager.
    fn services(&self) -> impl Future<Output = Result<Option<Vec<Value>>, EngineError>> + Send {
        std::future::ready(Ok(None))
    }

    /// The documents of all tasks of these services, those of some earlier specs included.
    fn tasks(&self, services: &[&str]) -> impl Future<Output = Result<Vec<Value>, EngineError>> + Send {
        let _ = services;
        std::future::ready(Ok(Vec::new()))
    }

    /// The documents of the Swarm's nodes.
    fn nodes(&self) -> impl Future<Output = Result<Vec<Value>, EngineError>> + Send {
        std::future::ready(Ok(Vec::new()))
    }

    /// Changes a service. [`EngineError::Conflict`] where its version has changed.
    fn update_service(
        &self,
        update: ServiceUpdate<'_>,
    ) -> impl Future<Output = Result<(), EngineError>> + Send {
        let _ = update;
        std::future::ready(Err(EngineError::NotFound("no Swarm".to_owned())))
    }

    /// The digest that the registry has for a reference now, asked through the engine.
    fn registry_digest(
        &self,
        reference: &ImageReference,
    ) -> impl Future<Output = Result<String, EngineError>> + Send;
}
