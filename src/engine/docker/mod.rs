//! The Docker Engine API behind the engine port. Documents keep all their fields, and every answer has a size limit.

mod arguments;
mod bollard_client;
mod copied_files;
mod events;
mod http;
mod logs;
pub(super) mod messages;
mod probe;
mod pull;
mod registry;
mod responses;
mod session;
mod stop;
mod stream;
mod transport;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bollard::models::ContainerUpdateBody;
use bollard::query_parameters::{RemoveContainerOptions, RenameContainerOptions};
use hyper::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use self::arguments::{checked_id, reference_path, restart_policy};
use self::copied_files::ChangedFiles;
use self::http::{HttpClient, MOST_OF_DOCUMENTS};
use self::responses::{ContainerRow, Created, Volumes};
use self::session::Session;
use super::credentials::Credentials;
use super::{
    Engine, EngineCalls, EngineError, EngineHost, EngineInfo, Happening, PullProgress, ServiceUpdate,
    Storage, Volume,
};
use crate::container::json::{has_configuration, text_at};
use crate::container::{ApiVersion, ContainerId, ContainerSummary, ImageId, Inspected};
use crate::image::ImageReference;

/// The limit for calls that the engine answers from memory. Like those below, it is the time until some data must arrive.
const READ: Duration = Duration::from_secs(10);
/// The limit for calls that make the engine work: create, start, rename, remove.
const WRITE: Duration = Duration::from_secs(60);
/// The limit for calls that make the engine contact a registry.
const REGISTRY: Duration = Duration::from_secs(60);
/// The longest wait for a stop, once it is sent. The engine completes the stop by itself.
const STOP_WAIT: Duration = Duration::from_secs(1);
/// The limit for reading a container's log. It is short because a replacement waits for this evidence.
const LOGS: Duration = Duration::from_secs(2);
/// The default time limit of a command in a container.
const EXEC: Duration = Duration::from_secs(60);
/// How many of the last lines of a command's output to keep.
const EXEC_LINES: usize = 3;
/// The least number of lines to request. The engine stores a long line in pieces of 16 KiB and counts each piece, so this
/// covers a line of 3 MB and the lines around it.
const LOG_PIECES: usize = 256;
/// Since this version, an image can be inspected for one platform. In containerd's store it then has a different id.
const PLATFORM_OF_IMAGE: ApiVersion = ApiVersion::new(1, 49);
/// The most containers to keep in memory. A row takes some hundred bytes.
const MAX_CONTAINERS: usize = 50_000;

/// A Docker engine. It is cheap to clone, and every call opens a new connection, so the engine may go away and come back.
#[derive(Clone)]
pub struct DockerEngine {
    shared: Arc<Shared>,
}

struct Shared {
    host: EngineHost,
    http: HttpClient,
    calls: EngineCalls,
    credentials: Credentials,
    session: Mutex<Option<Session>>,
}

impl fmt::Debug for DockerEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DockerEngine")
            .field("host", &self.shared.host)
            .finish_non_exhaustive()
    }
}

impl DockerEngine {
    /// Prepares the client, with credentials for the registries that the engine pulls from, and sends nothing. Without an
    /// engine, each call fails with [`EngineError::Unreachable`].
    ///
    /// # Errors
    /// A TLS directory cannot be read.
    pub fn connect(host: &EngineHost, credentials: Credentials) -> Result<Self, EngineError> {
        Ok(Self {
            shared: Arc::new(Shared {
                host: host.clone(),
                http: HttpClient::new(host)?,
                calls: EngineCalls::default(),
                credentials,
                session: Mutex::new(None),
            }),
        })
    }
}

impl Engine for DockerEngine {
    fn calls(&self) -> EngineCalls {
        self.shared.calls.clone()
    }

    async fn info(&self) -> Result<EngineInfo, EngineError> {
        Ok(self.session().await?.info)
    }

    async fn storage(&self) -> Result<Storage, EngineError> {
        self.read(&["info"]).await
    }

    async fn identity(&self) -> Result<String, EngineError> {
        let is_podman = self.info().await?.is_podman;
        let info: Value = self.read(&["info"]).await?;
        // Cloned machines may share an id, and Podman makes up a new one each time.
        let id = if is_podman { "" } else { text_at(&info, "/ID") };
        Ok(format!("{id} {}", text_at(&info, "/Name")))
    }

    async fn containers(&self) -> Result<Vec<ContainerSummary>, EngineError> {
        let request = self.request(Method::GET, &["containers", "json"], READ).await?;
        let mut rows = Vec::new();
        let take = |row: ContainerRow| {
            rows.push(row.summary());
            let fits = rows.len() <= MAX_CONTAINERS;
            fits.then_some(())
                .ok_or_else(|| format!("more than {MAX_CONTAINERS} containers, which is too much to know"))
        };
        self.each(request.query("all", "1"), take).await?;
        Ok(rows)
    }

    async fn inspect(&self, id: &ContainerId) -> Result<Inspected, EngineError> {
        let document: Value = self.read(&["containers", id.as_str(), "json"]).await?;
        Inspected::new(document)
            .ok_or_else(|| EngineError::Malformed(format!("the document of container {id} has no Id")))
    }

    async fn inspect_image(&self, reference_or_id: &str) -> Result<Value, EngineError> {
        let path = reference_path("images", reference_or_id);
        let (image, info): (Value, _) = (self.read(&path).await?, self.info().await?);
        if info.api < PLATFORM_OF_IMAGE || has_configuration(&image) {
            return Ok(image);
        }
        let platform = json!({ "os": info.os, "architecture": info.architecture }).to_string();
        let request = self.request(Method::GET, &path, READ).await?;
        let of_platform = self.json(request.query("platform", platform.as_str()));
        let id = image["Id"].clone();
        let mut shown = of_platform.await.unwrap_or(image);
        if let Some(shown) = shown.get_mut("Id") {
            *shown = id;
        }
        Ok(shown)
    }

    async fn pull(
        &self,
        reference: &ImageReference,
        platform: Option<&str>,
        mut progress: impl FnMut(PullProgress) + Send,
    ) -> Result<(), EngineError> {
        let lookup = self.look_up_login(reference).await;
        let login = lookup.login.as_ref();
        let mut pulled = self.pull_with(reference, platform, login, &mut progress).await;
        if lookup.may_be_stale(&pulled) {
            let without = self.pull_with(reference, platform, None, &mut progress).await;
            pulled = lookup.better_of(reference, pulled, without);
        }
        lookup.complete(pulled)?;
        // A stream that ended without an error may still not have delivered an image.
        match self.inspect_image(&reference.to_string()).await {
            Err(EngineError::NotFound(_)) => Err(EngineError::in_stream(&format!(
                "the pull of {reference} ended without an image"
            ))),
            other => other.map(|_| ()),
        }
    }

    async fn create(
        &self,
        name: &str,
        platform: Option<&str>,
        body: &Value,
    ) -> Result<ContainerId, EngineError> {
        let path = ["containers", "create"];
        let request = self.request(Method::POST, &path, WRITE).await?;
        let request = request.query("name", name).query("platform", platform);
        let created: Created = self.json(request.body(body)).await?;
        Ok(ContainerId::new(created.id))
    }

    async fn connect(&self, network: &str, id: &ContainerId, endpoint: &Value) -> Result<(), EngineError> {
        let body = json!({ "Container": id.as_str(), "EndpointConfig": endpoint });
        let path = ["networks", network, "connect"];
        let request = self.request(Method::POST, &path, WRITE).await?;
        match self.send(request.body(&body)).await {
            Err(error) if error.is_connected_already() => Ok(()),
            other => other.map(|_| ()),
        }
    }

    async fn start(&self, id: &ContainerId) -> Result<(), EngineError> {
        let id = checked_id(id)?;
        let call = format!("POST /containers/{id}/start");
        self.command(
            call,
            |docker| async move { docker.start_container(id, None).await },
        )
        .await
    }

    async fn stop(&self, id: &ContainerId, grace: Duration) -> Result<(), EngineError> {
        self.ask_to_stop(id, grace).await
    }

    async fn restart(&self, id: &ContainerId, grace: Duration) -> Result<(), EngineError> {
        self.ask_to_restart(id, grace).await
    }

    async fn rename(&self, id: &ContainerId, name: &str) -> Result<(), EngineError> {
        let id = checked_id(id)?;
        let options = RenameContainerOptions {
            name: name.to_owned(),
        };
        let call = format!("POST /containers/{id}/rename?name={name}");
        self.command(call, |docker| async move {
            docker.rename_container(id, options).await
        })
        .await
    }

    async fn set_restart_policy(&self, id: &ContainerId, policy: &Value) -> Result<(), EngineError> {
        let id = checked_id(id)?;
        let restart_policy = restart_policy(policy)?;
        let update = ContainerUpdateBody {
            restart_policy: Some(restart_policy),
            ..ContainerUpdateBody::default()
        };
        let call = format!("POST /containers/{id}/update");
        self.command(
            call,
            |docker| async move { docker.update_container(id, update).await },
        )
        .await
    }

    async fn remove(&self, id: &ContainerId) -> Result<(), EngineError> {
        let id = checked_id(id)?;
        let options = RemoveContainerOptions {
            v: false,
            force: false,
            link: false,
        };
        let call = format!("DELETE /containers/{id}");
        let removed = self.command(call, |docker| async move {
            docker.remove_container(id, Some(options)).await
        });
        match removed.await {
            Err(EngineError::NotFound(_)) => Ok(()),
            Err(error) if error.is_removal_in_progress() => Ok(()),
            other => other,
        }
    }

    async fn remove_image(&self, id: &ImageId) -> Result<(), EngineError> {
        let path = ["images", id.as_str()];
        let request = self.request(Method::DELETE, &path, WRITE).await?;
        match self.send(request).await {
            Err(EngineError::NotFound(_)) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    async fn logs(&self, id: &ContainerId, lines: usize) -> Result<String, EngineError> {
        let path = ["containers", id.as_str(), "logs"];
        let request = self.request(Method::GET, &path, LOGS).await?;
        let request = request.query("stdout", "1").query("stderr", "1");
        let request = request.query("tail", lines.max(LOG_PIECES).to_string().as_str());
        match self.tail(request, lines).await {
            Err(error) if error.is_unreadable_log() => Ok(String::new()),
            other => other,
        }
    }

    async fn create_exec(&self, id: &ContainerId, command: &[String]) -> Result<String, EngineError> {
        let body = json!({ "AttachStdout": true, "AttachStderr": true, "Cmd": command });
        let path = ["containers", id.as_str(), "exec"];
        let request = self.request(Method::POST, &path, READ).await?;
        let created: Created = self.json(request.body(&body)).await?;
        Ok(created.id)
    }

    async fn start_exec(&self, exec: &str) -> Result<String, EngineError> {
        let path = ["exec", exec, "start"];
        let request = self.request(Method::POST, &path, EXEC).await?;
        let body = json!({ "Detach": false, "Tty": false });
        self.tail(request.body(&body), EXEC_LINES).await
    }

    async fn exec_exit_code(&self, exec: &str) -> Result<Option<i64>, EngineError> {
        let document: Value = self.read(&["exec", exec, "json"]).await?;
        let code = document.get("ExitCode").and_then(Value::as_i64);
        match document.get("Running") {
            Some(Value::Bool(true)) => Ok(None),
            _ if code.is_none() => Err(EngineError::NotFound(format!("exec {exec} was not started"))),
            _ => Ok(code),
        }
    }

    async fn memory_usage(&self, id: &ContainerId) -> Result<u64, EngineError> {
        let path = ["containers", id.as_str(), "stats"];
        let request = self.request(Method::GET, &path, READ).await?;
        let request = request.query("stream", "false").query("one-shot", "true");
        let stats: Value = self.json(request).await?;
        let usage = stats.pointer("/memory_stats/usage").and_then(Value::as_u64);
        usage.ok_or_else(|| EngineError::Malformed(format!("no memory use in the statistics of {id}")))
    }

    async fn copied_files(&self, id: &ContainerId) -> Result<Vec<String>, EngineError> {
        let container = self.inspect(id).await?;
        let path = ["containers", id.as_str(), "changes"];
        let request = self.request(Method::GET, &path, WRITE).await?;
        let mut changed = ChangedFiles::default();
        let note = |change| {
            changed.note(change);
            Ok(())
        };
        self.each(request, note).await?;
        let mut files = Vec::new();
        for path in changed.files() {
            let archive = ["containers", id.as_str(), "archive"];
            let request = self.request(Method::HEAD, &archive, READ).await?;
            let request = request.query("path", path.as_str());
            let (call, http) = (request.to_string(), &self.shared.http);
            match self
                .counted(call, http.header_of(request, copied_files::STAT))
                .await
            {
                Ok(Some(stat)) if copied_files::was_copied(&container, &stat) => files.push(path),
                // 404: the file was removed in the meantime.
                Ok(_) | Err(EngineError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    async fn watch(&self, report: impl FnMut(Happening<'_>) + Send) -> Result<(), EngineError> {
        self.watch_events(report).await
    }

    async fn volumes(&self, label: &str) -> Result<Vec<Volume>, EngineError> {
        let filters = json!({ "label": [label] }).to_string();
        let request = self.request(Method::GET, &["volumes"], READ).await?;
        let request = request
            .at_most(MOST_OF_DOCUMENTS)
            .query("filters", filters.as_str());
        let found: Volumes = self.json(request).await?;
        Ok(found.volumes.unwrap_or_default())
    }

    async fn create_volume(&self, volume: &Volume) -> Result<(), EngineError> {
        let body = json!({ "Name": volume.name, "Labels": volume.labels });
        let request = self.request(Method::POST, &["volumes", "create"], WRITE).await?;
        match self.send(request.body(&body)).await {
            // Podman reports an error for an existing volume, while other engines succeed.
            Err(EngineError::Conflict(_)) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    async fn remove_volume(&self, name: &str) -> Result<(), EngineError> {
        let request = self.request(Method::DELETE, &["volumes", name], WRITE).await?;
        match self.send(request).await {
            Err(EngineError::NotFound(_)) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    async fn distribution(&self, reference: &ImageReference) -> Result<Value, EngineError> {
        let lookup = self.look_up_login(reference).await;
        let mut answer = self.ask_with(reference, lookup.login.as_ref()).await;
        if lookup.may_be_stale(&answer) {
            let without = self.ask_with(reference, None).await;
            answer = lookup.better_of(reference, answer, without);
        }
        lookup.complete(answer)
    }

    async fn services(&self) -> Result<Option<Vec<Value>>, EngineError> {
        let request = self.request(Method::GET, &["services"], READ).await?;
        let request = request.at_most(MOST_OF_DOCUMENTS).query("status", "true");
        match self.json(request).await {
            Ok(services) => Ok(Some(services)),
            // Podman has no services, or a proxy in between refuses the request.
            Err(
                EngineError::NotFound(_)
                | EngineError::Refused {
                    status: 401 | 403, ..
                },
            ) => Ok(None),
            Err(error) if error.is_not_a_manager() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn tasks(&self, services: &[&str]) -> Result<Vec<Value>, EngineError> {
        let filters = json!({ "service": services }).to_string();
        let request = self.request(Method::GET, &["tasks"], READ).await?;
        self.json(
            request
                .at_most(MOST_OF_DOCUMENTS)
                .query("filters", filters.as_str()),
        )
        .await
    }

    async fn nodes(&self) -> Result<Vec<Value>, EngineError> {
        let request = self.request(Method::GET, &["nodes"], READ).await?;
        self.json(request.at_most(MOST_OF_DOCUMENTS)).await
    }

    async fn update_service(&self, update: ServiceUpdate<'_>) -> Result<(), EngineError> {
        let path = ["services", update.id, "update"];
        let request = self.request(Method::POST, &path, WRITE).await?;
        let request = request.query("version", update.version.to_string().as_str());
        let login = match update.image {
            Some(image) => self.look_up_login(image).await.login.zip(Some(image)),
            None => None,
        };
        let request = match &login {
            Some((login, image)) => request.with(Some(login), image.registry()),
            None => request.query("registryAuthFrom", "spec"),
        };
        match self.send(request.body(update.spec)).await {
            Err(EngineError::Refused { message, .. }) if message.contains(messages::OUT_OF_SEQUENCE) => {
                Err(EngineError::Conflict(message))
            }
            other => other.map(|_| ()),
        }
    }
}
