//! The Docker Engine API: bollard for what is only commanded, raw JSON for what is read and written.

mod commands;
mod copied_files;
pub(super) mod http;
mod logs;
mod mac_address;
mod pull;
mod registry;
mod responses;
mod stop;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error as BollardError;
use bollard::models::{ContainerUpdateBody, RestartPolicy};
use bollard::query_parameters::{
    RemoveContainerOptions, RemoveImageOptions, RenameContainerOptions, StopContainerOptions,
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::timeout;

use responses::{Created, Row, VersionAnswer};
use stop::kills_when_the_client_leaves;

use commands::{in_stream, translate};
use http::{Call, Raw};

use super::credentials::Credentials;
use super::permissions::{self, Right};
use super::{Engine, EngineError, EngineHost, EngineInfo, PullProgress, Storage};
use crate::container::{ApiVersion, ContainerId, ContainerSummary, ImageId, Inspected};
use crate::image::ImageReference;

/// For what the engine reads from its own memory.
const READ: Duration = Duration::from_secs(10);
/// For what makes the engine work: creating, starting, renaming, removing.
const WRITE: Duration = Duration::from_secs(60);
/// For what the engine must ask a registry.
const REGISTRY: Duration = Duration::from_secs(60);
/// How long a stop is waited for; the engine finishes it without us.
const STOP_WAIT: Duration = Duration::from_secs(1);
/// For a container's last lines: nobody waits for evidence.
const LOGS: Duration = Duration::from_secs(2);
/// As much of a log as is read; an engine keeps lines in pieces of 16 KiB, and may be asked for dozens of them.
const MOST_LOGS: usize = 1024 * 1024;

/// A Docker engine: cheap to clone, connected anew by every call, so that it may go away and come back.
#[derive(Clone)]
pub struct DockerEngine {
    shared: Arc<Shared>,
}

struct Shared {
    host: EngineHost,
    raw: Raw,
    logins: Credentials,
    session: Mutex<Option<Session>>,
}

/// What holds for as long as the same engine answers.
#[derive(Clone)]
struct Session {
    info: EngineInfo,
    docker: Docker,
}

impl fmt::Debug for DockerEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DockerEngine")
            .field("host", &self.shared.host)
            .finish_non_exhaustive()
    }
}

impl DockerEngine {
    /// Prepares the way to an engine. Nothing is sent yet: an engine that is not there is
    /// [`EngineError::Unreachable`] from each call until it is.
    ///
    /// Errs only where a TLS directory cannot be read.
    pub fn connect(host: &EngineHost) -> Result<Self, EngineError> {
        Ok(Self {
            shared: Arc::new(Shared {
                host: host.clone(),
                raw: Raw::new(host)?,
                logins: Credentials::default(),
                session: Mutex::new(None),
            }),
        })
    }

    /// The same engine, with accounts for the registries it pulls from.
    #[must_use]
    pub fn with_logins(self, logins: Credentials) -> Self {
        Self {
            shared: Arc::new(Shared {
                host: self.shared.host.clone(),
                raw: self.shared.raw.clone(),
                logins,
                session: Mutex::new(None),
            }),
        }
    }

    /// Asks the engine for its version, once: later calls use the answer until the engine goes away.
    async fn session(&self) -> Result<Session, EngineError> {
        let mut slot = self.shared.session.lock().await;
        if let Some(session) = &*slot {
            return Ok(session.clone());
        }
        let session = self.meet().await.map_err(|error| self.located(error))?;
        *slot = Some(session.clone());
        Ok(session)
    }

    async fn meet(&self) -> Result<Session, EngineError> {
        let raw = &self.shared.raw;
        let answer: VersionAnswer = raw.fetch(raw.call(Method::GET, None, &["version"], READ)).await?;
        let info = EngineInfo {
            api: answer.api.parse().map_err(EngineError::Malformed)?,
            version: answer.release,
            os: answer.os,
            architecture: answer.architecture,
        };
        let docker =
            commands::client(&self.shared.host, info.api).map_err(|error| translate(error, WRITE))?;
        Ok(Session { info, docker })
    }

    /// Forgets what was learned of the engine when the one that answers may be another.
    async fn noting<T>(&self, outcome: Result<T, EngineError>) -> Result<T, EngineError> {
        if let Err(error) = &outcome
            && may_be_another_engine(error)
        {
            *self.shared.session.lock().await = None;
        }
        outcome.map_err(|error| self.located(error))
    }

    /// An engine that is out of reach is told with its address.
    fn located(&self, error: EngineError) -> EngineError {
        match error {
            EngineError::Unreachable(cause) => {
                EngineError::Unreachable(format!("{}: {cause}", self.shared.host))
            }
            other => other,
        }
    }

    /// Sends a raw call, given how to make it from the engine's own API version.
    async fn raw(&self, make: impl FnOnce(&Raw, ApiVersion) -> Call) -> Result<Vec<u8>, EngineError> {
        let session = self.session().await?;
        let call = make(&self.shared.raw, session.info.api);
        self.noting(self.shared.raw.send(call).await).await
    }

    /// The same for an answer in JSON.
    async fn json<T: serde::de::DeserializeOwned>(
        &self,
        make: impl FnOnce(&Raw, ApiVersion) -> Call,
    ) -> Result<T, EngineError> {
        let body = self.raw(make).await?;
        serde_json::from_slice(&body).map_err(|error| EngineError::Malformed(error.to_string()))
    }

    /// Runs a command of bollard's within [`WRITE`].
    async fn command<T, F>(&self, run: impl FnOnce(Docker) -> F) -> Result<T, EngineError>
    where
        F: Future<Output = Result<T, BollardError>>,
    {
        let session = self.session().await?;
        let outcome = match timeout(WRITE, run(session.docker)).await {
            Ok(outcome) => outcome.map_err(|error| translate(error, WRITE)),
            Err(_) => Err(EngineError::TimedOut(WRITE)),
        };
        self.noting(outcome).await
    }
}

impl Engine for DockerEngine {
    async fn info(&self) -> Result<EngineInfo, EngineError> {
        Ok(self.session().await?.info)
    }

    async fn storage(&self) -> Result<Storage, EngineError> {
        self.json(|raw, api| raw.call(Method::GET, Some(api), &["info"], READ))
            .await
    }

    async fn containers(&self) -> Result<Vec<ContainerSummary>, EngineError> {
        let rows: Vec<Row> = self
            .json(|raw, api| {
                raw.call(Method::GET, Some(api), &["containers", "json"], READ)
                    .query("all", "1")
            })
            .await?;
        Ok(rows.into_iter().map(ContainerSummary::from).collect())
    }

    async fn inspect(&self, id: &ContainerId) -> Result<Inspected, EngineError> {
        let mut document: Value = self
            .json(|raw, api| raw.call(Method::GET, Some(api), &["containers", id.as_str(), "json"], READ))
            .await?;
        let api = self.session().await?.info.api;
        let read = mac_address::add_mac(&self.shared.raw, api, id, &mut document, READ).await;
        self.noting(read).await?;
        Inspected::new(document)
            .ok_or_else(|| EngineError::Malformed(format!("the document of container {id} has no Id")))
    }

    async fn inspect_image(&self, reference_or_id: &str) -> Result<Value, EngineError> {
        self.json(|raw, api| {
            raw.call(
                Method::GET,
                Some(api),
                &reference_path("images", reference_or_id),
                READ,
            )
        })
        .await
    }

    async fn pull(
        &self,
        reference: &ImageReference,
        platform: Option<&str>,
        progress: impl FnMut(PullProgress) + Send,
    ) -> Result<(), EngineError> {
        let session = self.session().await?;
        let found = self.login(reference).await;
        let pulled = pull::pull(
            &session.docker,
            reference,
            platform,
            found.login.as_ref(),
            progress,
        )
        .await;
        found.explain(self.noting(pulled).await)?;
        // A stream that ended without a word of an error may still have brought nothing.
        match self.inspect_image(&reference.to_string()).await {
            Err(EngineError::NotFound(_)) => Err(in_stream(format!(
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
        let created: Created = self
            .json(|raw, api| {
                let call = raw
                    .call(Method::POST, Some(api), &["containers", "create"], WRITE)
                    .query("name", name)
                    .body(body);
                match platform {
                    Some(platform) => call.query("platform", platform),
                    None => call,
                }
            })
            .await?;
        Ok(ContainerId::new(created.id))
    }

    async fn connect(&self, network: &str, id: &ContainerId, endpoint: &Value) -> Result<(), EngineError> {
        let body = json!({ "Container": id.as_str(), "EndpointConfig": endpoint });
        let outcome = self
            .raw(|raw, api| {
                raw.call(Method::POST, Some(api), &["networks", network, "connect"], WRITE)
                    .body(&body)
            })
            .await;
        match outcome {
            Err(EngineError::Refused { status: 403, message }) if is_connected_already(&message) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    async fn start(&self, id: &ContainerId) -> Result<(), EngineError> {
        let id = plain(id)?;
        self.command(|docker| async move { docker.start_container(id, None).await })
            .await
    }

    async fn stop(&self, id: &ContainerId, grace: Duration) -> Result<(), EngineError> {
        let name = plain(id)?;
        let session = self.session().await?;
        if !grace.is_zero() && kills_when_the_client_leaves(&session.info.version) {
            return self.signal_to_stop(id).await;
        }
        let seconds = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
        let options = StopContainerOptions {
            t: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
            ..StopContainerOptions::default()
        };
        match timeout(STOP_WAIT, session.docker.stop_container(name, Some(options))).await {
            Ok(outcome) => {
                self.noting(outcome.map_err(|error| translate(error, STOP_WAIT)))
                    .await
            }
            Err(_) => Ok(()),
        }
    }

    async fn rename(&self, id: &ContainerId, name: &str) -> Result<(), EngineError> {
        let id = plain(id)?;
        let options = RenameContainerOptions {
            name: name.to_owned(),
        };
        self.command(|docker| async move { docker.rename_container(id, options).await })
            .await
    }

    async fn set_restart_policy(&self, id: &ContainerId, policy: &Value) -> Result<(), EngineError> {
        let id = plain(id)?;
        let restart_policy = restart_policy(policy)?;
        let update = ContainerUpdateBody {
            restart_policy: Some(restart_policy),
            ..ContainerUpdateBody::default()
        };
        self.command(|docker| async move { docker.update_container(id, update).await })
            .await
    }

    async fn remove(&self, id: &ContainerId) -> Result<(), EngineError> {
        let id = plain(id)?;
        let options = RemoveContainerOptions {
            v: false,
            force: false,
            link: false,
        };
        let removed = self
            .command(|docker| async move { docker.remove_container(id, Some(options)).await })
            .await;
        match removed {
            Err(EngineError::NotFound(_)) => Ok(()),
            Err(EngineError::Conflict(message)) if message.contains("already in progress") => Ok(()),
            other => other,
        }
    }

    async fn remove_image(&self, id: &ImageId) -> Result<(), EngineError> {
        let options = RemoveImageOptions {
            force: false,
            ..RemoveImageOptions::default()
        };
        let removed = self
            .command(|docker| async move { docker.remove_image(id.as_str(), Some(options), None).await })
            .await;
        match removed {
            Err(EngineError::NotFound(_)) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    async fn logs(&self, id: &ContainerId, lines: usize) -> Result<String, EngineError> {
        let session = self.session().await?;
        let raw = &self.shared.raw;
        let call = raw
            .call(
                Method::GET,
                Some(session.info.api),
                &["containers", id.as_str(), "logs"],
                LOGS,
            )
            .query("stdout", "1")
            .query("stderr", "1")
            .query("tail", &lines.to_string());
        match self.noting(raw.send_at_most(call, MOST_LOGS).await).await {
            Ok(body) => Ok(logs::text(&body)),
            // A log driver that only writes.
            Err(EngineError::Refused { message, .. }) if message.contains("does not support reading") => {
                Ok(String::new())
            }
            Err(error) => Err(error),
        }
    }

    async fn memory_usage(&self, id: &ContainerId) -> Result<u64, EngineError> {
        let stats: Value = self
            .json(|raw, api| {
                raw.call(
                    Method::GET,
                    Some(api),
                    &["containers", id.as_str(), "stats"],
                    READ,
                )
                .query("stream", "false")
                .query("one-shot", "true")
            })
            .await?;
        let usage = stats.pointer("/memory_stats/usage").and_then(Value::as_u64);
        usage.ok_or_else(|| EngineError::Malformed(format!("no memory use in the statistics of {id}")))
    }

    async fn copied_files(&self, id: &ContainerId) -> Result<Vec<String>, EngineError> {
        let container = self.inspect(id).await?;
        let changes = self
            .json(|raw, api| {
                raw.call(
                    Method::GET,
                    Some(api),
                    &["containers", id.as_str(), "changes"],
                    WRITE,
                )
            })
            .await?;
        let mut files = Vec::new();
        for path in copied_files::written(changes) {
            let session = self.session().await?;
            let raw = &self.shared.raw;
            let archive = ["containers", id.as_str(), "archive"];
            let call = raw.call(Method::HEAD, Some(session.info.api), &archive, READ);
            match self
                .noting(raw.header_of(call.query("path", &path), copied_files::STAT).await)
                .await
            {
                Ok(Some(stat)) if copied_files::was_put_there(&container, &stat) => files.push(path),
                // Of 404: it was removed meanwhile.
                Ok(_) | Err(EngineError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    async fn registry_digest(&self, reference: &ImageReference) -> Result<String, EngineError> {
        let answer = self.distribution(reference).await?;
        answer
            .pointer("/Descriptor/digest")
            .and_then(Value::as_str)
            .map(str::to_owned)
            .ok_or_else(|| EngineError::Malformed(format!("no digest for {reference}")))
    }
}

impl DockerEngine {
    /// Whether a call is let through, found out by one that does nothing: why it is not.
    pub async fn refusal(&self, right: &Right) -> Result<Option<String>, EngineError> {
        let api = self.session().await?.info.api;
        self.noting(permissions::refusal(&self.shared.raw, api, right).await)
            .await
    }
}

/// Whether the engine went away, or answers that our API version is none of its own.
fn may_be_another_engine(error: &EngineError) -> bool {
    match error {
        EngineError::Unreachable(_) => true,
        EngineError::Refused { status: 400, message } => message.contains("client version"),
        _ => false,
    }
}

fn is_connected_already(message: &str) -> bool {
    (message.contains("endpoint with name") && message.contains("already exists in network"))
        || message.contains("already attached to network")
}

/// bollard builds paths by pasting: an id that needs encoding is no id.
fn plain(id: &ContainerId) -> Result<&str, EngineError> {
    let text = id.as_str();
    let sound = !text.is_empty()
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    if sound {
        Ok(text)
    } else {
        Err(EngineError::NotFound(format!("no such container: {text}")))
    }
}

/// A restart policy from the words of a container document, where none at all is written as an empty name:
/// an update takes that for "leave as it is".
fn restart_policy(policy: &Value) -> Result<RestartPolicy, EngineError> {
    let mut policy = policy.clone();
    if policy
        .get("Name")
        .and_then(Value::as_str)
        .is_none_or(str::is_empty)
    {
        policy = json!({ "Name": "no" });
    }
    serde_json::from_value(policy).map_err(|error| EngineError::Malformed(format!("restart policy: {error}")))
}

/// The segments of `/{kind}/{reference}/json`; the slashes of a reference stay slashes, as every client sends them.
fn reference_path<'a>(kind: &'a str, reference: &'a str) -> Vec<&'a str> {
    std::iter::once(kind)
        .chain(reference.split('/'))
        .chain(std::iter::once("json"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unset_restart_policy_is_written_out() {
        for unset in [
            json!({ "Name": "", "MaximumRetryCount": 0 }),
            json!({}),
            Value::Null,
        ] {
            let written = serde_json::to_value(restart_policy(&unset).unwrap()).unwrap();
            assert_eq!(written, json!({ "Name": "no" }), "{unset}");
        }
        let on_failure = json!({ "Name": "on-failure", "MaximumRetryCount": 3 });
        assert_eq!(
            serde_json::to_value(restart_policy(&on_failure).unwrap()).unwrap(),
            on_failure
        );
        assert!(restart_policy(&json!({ "Name": "sometimes" })).is_err());
    }

    #[test]
    fn ids_that_would_alter_a_path_are_no_containers() {
        for id in ["", "../images/prune", "a/b", "a?force=1", "..", "a%2f"] {
            let error = plain(&ContainerId::new(id)).unwrap_err();
            assert!(matches!(error, EngineError::NotFound(_)), "{id}");
        }
        assert!(plain(&ContainerId::new("docker-delegate.draining-17")).is_ok());
    }

    #[tokio::test]
    async fn an_engine_that_is_not_there_is_out_of_reach_at_each_call() {
        let directory = tempfile::tempdir().unwrap();
        let host = EngineHost::Unix(directory.path().join("docker.sock"));
        let engine = DockerEngine::connect(&host).unwrap();
        for _ in 0..2 {
            let error = engine.info().await.unwrap_err();
            assert!(
                matches!(&error, EngineError::Unreachable(why) if why.contains("docker.sock")),
                "{error}"
            );
            let stopped = engine.stop(&ContainerId::new("a"), Duration::ZERO).await;
            assert!(matches!(stopped, Err(EngineError::Unreachable(_))));
        }
    }
}
