//! The Docker Engine API: bollard for what is only commanded, raw JSON for what is read and written.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bollard::errors::Error as BollardError;
use bollard::models::{ContainerUpdateBody, CreateImageInfo, RestartPolicy};
use bollard::query_parameters::{
    CreateImageOptions, KillContainerOptions, RemoveContainerOptions, RemoveImageOptions,
    RenameContainerOptions, StopContainerOptions,
};
use bollard::{ClientVersion, Docker};
use futures_util::StreamExt;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::auth::{self, Login};
use super::raw::{Call, Raw, refusal};
use super::{
    ApiVersion, ContainerSummary, Engine, EngineError, EngineHost, EngineInfo, EngineSettings, Inspected,
    PullProgress, RunState,
};
use crate::delegate::{ContainerId, ImageId};
use crate::image::ImageReference;
use crate::secret::Secret;

/// For what the engine reads from its own memory.
const READ: Duration = Duration::from_secs(10);
/// For what makes the engine work: creating, starting, renaming, removing.
const WRITE: Duration = Duration::from_secs(60);
/// For what the engine must ask a registry.
const REGISTRY: Duration = Duration::from_secs(60);
/// How long a stop is waited for; the engine finishes it without us.
const STOP_WAIT: Duration = Duration::from_secs(5);
/// A pull may take any time, but not stand still for longer than this.
const PULL_IDLE: Duration = Duration::from_secs(120);

/// A Docker engine: cheap to clone, connected anew by every call, so that it may go away and come back.
#[derive(Clone)]
pub struct DockerEngine {
    shared: Arc<Shared>,
}

struct Shared {
    host: EngineHost,
    raw: Raw,
    login: Option<Login>,
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
    pub fn connect(settings: &EngineSettings) -> Result<Self, EngineError> {
        Ok(Self {
            shared: Arc::new(Shared {
                host: settings.host.clone(),
                raw: Raw::new(&settings.host)?,
                login: None,
                session: Mutex::new(None),
            }),
        })
    }

    /// The same engine, with an account for the registries it pulls from.
    #[must_use]
    pub fn with_login(self, login: Option<(String, Secret)>) -> Self {
        Self {
            shared: Arc::new(Shared {
                host: self.shared.host.clone(),
                raw: self.shared.raw.clone(),
                login: login.map(|(username, password)| Login::new(username, password)),
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
        let raw = &self.shared.raw;
        let answer: VersionAnswer = raw.fetch(raw.call(Method::GET, None, &["version"], READ)).await?;
        let info = EngineInfo {
            api: answer.api.parse().map_err(EngineError::Malformed)?,
            version: answer.release,
            os: answer.os,
            architecture: answer.architecture,
        };
        let docker = bollard(&self.shared.host, info.api).map_err(|error| translate(error, WRITE))?;
        let session = Session { info, docker };
        *slot = Some(session.clone());
        Ok(session)
    }

    /// Forgets what was learned of the engine when the one that answers may be another.
    async fn noting<T>(&self, outcome: Result<T, EngineError>) -> Result<T, EngineError> {
        if let Err(error) = &outcome
            && may_be_another_engine(error)
        {
            *self.shared.session.lock().await = None;
        }
        outcome
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

    async fn pull_stream(
        &self,
        reference: &ImageReference,
        platform: Option<&str>,
        mut progress: impl FnMut(PullProgress) + Send,
    ) -> Result<(), EngineError> {
        let session = self.session().await?;
        let (from_image, tag) = pull_source(reference);
        let options = CreateImageOptions {
            from_image: Some(from_image),
            tag,
            platform: platform.unwrap_or_default().to_owned(),
            ..CreateImageOptions::default()
        };
        let credentials = self
            .shared
            .login
            .as_ref()
            .map(|login| login.credentials(&registry_of(reference)));
        let mut stream = std::pin::pin!(session.docker.create_image(Some(options), None, credentials));
        let mut layers = Layers::default();
        loop {
            match timeout(PULL_IDLE, stream.next()).await {
                Err(_) => return Err(EngineError::TimedOut(PULL_IDLE)),
                Ok(None) => return Ok(()),
                // bollard reports the end of a stream without a final line break as an error; whether
                // the pull succeeded is for the image to tell.
                Ok(Some(Err(BollardError::IOError { err }))) if err.kind() == std::io::ErrorKind::Other => {
                    return Ok(());
                }
                Ok(Some(Err(error))) => return Err(translate(error, PULL_IDLE)),
                // `{"error": …}` alone: bollard knows no such field, so the line comes out blank.
                Ok(Some(Ok(line))) if line == CreateImageInfo::default() => {
                    return Err(in_stream("the engine broke the pull off".to_owned()));
                }
                Ok(Some(Ok(line))) => {
                    if let Some(now) = layers.take(line) {
                        progress(now);
                    }
                }
            }
        }
    }
}

impl Engine for DockerEngine {
    async fn info(&self) -> Result<EngineInfo, EngineError> {
        Ok(self.session().await?.info)
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
        let document: Value = self
            .json(|raw, api| raw.call(Method::GET, Some(api), &["containers", id.as_str(), "json"], READ))
            .await?;
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
        let pulled = self.pull_stream(reference, platform, progress).await;
        self.noting(pulled).await?;
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

    async fn registry_digest(&self, reference: &ImageReference) -> Result<String, EngineError> {
        let name = reference.to_string();
        let answer: Value = self
            .json(|raw, api| {
                let call = raw.call(
                    Method::GET,
                    Some(api),
                    &reference_path("distribution", &name),
                    REGISTRY,
                );
                match &self.shared.login {
                    Some(login) => call.header(auth::HEADER, login.header(&registry_of(reference))),
                    None => call,
                }
            })
            .await?;
        answer
            .pointer("/Descriptor/digest")
            .and_then(Value::as_str)
            .map(str::to_owned)
            .ok_or_else(|| EngineError::Malformed(format!("no digest for {reference}")))
    }
}

impl DockerEngine {
    /// The stop signal alone, for engines that would kill at once when the client of a stop goes away. The
    /// end of the grace is then for the caller to bring, with a grace of zero.
    async fn signal_to_stop(&self, id: &ContainerId) -> Result<(), EngineError> {
        let inspected = self.inspect(id).await?;
        if !matches!(
            inspected.state(),
            RunState::Running | RunState::Paused | RunState::Restarting
        ) {
            return Ok(());
        }
        let signal = inspected
            .document()
            .pointer("/Config/StopSignal")
            .and_then(Value::as_str)
            .filter(|signal| !signal.is_empty())
            .unwrap_or("SIGTERM")
            .to_owned();
        let options = KillContainerOptions { signal };
        let id = plain(id)?;
        match self
            .command(|docker| async move { docker.kill_container(id, Some(options)).await })
            .await
        {
            // 409: it stopped in between.
            Err(EngineError::Conflict(_)) => Ok(()),
            other => other,
        }
    }
}

/// Engines 23.0 and 24.0.0 to 24.0.2 end the grace of a stop when its client disconnects and send SIGKILL
/// (moby 45731).
fn kills_when_the_client_leaves(version: &str) -> bool {
    let mut parts = version
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(Ok(23)), Some(Ok(0)), _) => true,
        (Some(Ok(24)), Some(Ok(0)), Some(Ok(patch))) => patch <= 2,
        _ => false,
    }
}

/// bollard's client, with two faults repaired: it leaves out the version prefix, and writes registry
/// credentials in an alphabet that engines do not read.
fn bollard(host: &EngineHost, api: ApiVersion) -> Result<Docker, BollardError> {
    let newest = ApiVersion::new(
        u16::try_from(bollard::API_DEFAULT_VERSION.major_version).unwrap_or(u16::MAX),
        u16::try_from(bollard::API_DEFAULT_VERSION.minor_version).unwrap_or(u16::MAX),
    );
    let api = api.min(newest);
    let version = ClientVersion {
        major_version: api.major.into(),
        minor_version: api.minor.into(),
    };
    let seconds = WRITE.max(PULL_IDLE).as_secs();
    let docker = match host {
        EngineHost::Unix(path) => Docker::connect_with_unix(&path.to_string_lossy(), seconds, &version)?,
        EngineHost::Tcp { address, tls: None } => Docker::connect_with_http(address, seconds, &version)?,
        EngineHost::Tcp {
            address,
            tls: Some(directory),
        } => {
            let file = |name: &str| Path::join(directory, name);
            Docker::connect_with_ssl(
                address,
                &file("key.pem"),
                &file("cert.pem"),
                &file("ca.pem"),
                seconds,
                &version,
            )?
        }
    };
    Ok(docker.with_request_modifier(move |mut request| {
        if let Some(uri) =
            with_version_prefix(&request.uri().to_string(), api).and_then(|uri| uri.parse().ok())
        {
            *request.uri_mut() = uri;
        }
        if let Some(header) = request.headers_mut().get_mut(auth::HEADER)
            && let Some(repaired) = header
                .to_str()
                .ok()
                .and_then(|text| auth::url_safe(text).parse().ok())
        {
            *header = repaired;
        }
        request
    }))
}

/// The address with `/v1.41` before its path; `None` where it has a version already.
fn with_version_prefix(uri: &str, api: ApiVersion) -> Option<String> {
    let (scheme, rest) = uri.split_once("://")?;
    let (authority, path) = rest.split_once('/')?;
    let versioned = path
        .strip_prefix('v')
        .and_then(|rest| rest.split('/').next())
        .is_some_and(|version| version.parse::<ApiVersion>().is_ok());
    (!versioned).then(|| format!("{scheme}://{authority}/v{api}/{path}"))
}

fn translate(error: BollardError, limit: Duration) -> EngineError {
    match error {
        BollardError::DockerResponseServerError { status_code, message } => refusal(status_code, message),
        BollardError::RequestTimeoutError => EngineError::TimedOut(limit),
        BollardError::DockerStreamError { error } => in_stream(error),
        BollardError::JsonDataError { message, .. } => EngineError::Malformed(message),
        BollardError::JsonSerdeError { err } => EngineError::Malformed(err.to_string()),
        other => {
            let mut cause: &dyn std::error::Error = &other;
            while let Some(next) = cause.source() {
                cause = next;
            }
            EngineError::Unreachable(cause.to_string())
        }
    }
}

/// An error told inside a stream whose status was 200.
fn in_stream(message: String) -> EngineError {
    EngineError::Refused { status: 200, message }
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

/// `fromImage` and `tag` of a pull. Without a tag the engine would pull every tag there is.
fn pull_source(reference: &ImageReference) -> (String, Option<String>) {
    let text = reference.to_string();
    let last = text.rsplit('/').next().unwrap_or_default();
    let tag = (!last.contains([':', '@'])).then(|| "latest".to_owned());
    (text, tag)
}

/// The registry a reference names.
fn registry_of(reference: &ImageReference) -> String {
    let text = reference.to_string();
    match text.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host.to_owned(),
        _ => "docker.io".to_owned(),
    }
}

/// How far each layer of a pull has come.
#[derive(Default)]
struct Layers(HashMap<String, PullProgress>);

impl Layers {
    fn take(&mut self, line: CreateImageInfo) -> Option<PullProgress> {
        let id = line.id?;
        // Extraction counts its own bytes again.
        match line.status.as_deref()? {
            "Downloading" => {
                let detail = line.progress_detail?;
                let layer = PullProgress {
                    current: u64::try_from(detail.current?).ok()?,
                    total: u64::try_from(detail.total.unwrap_or_default()).ok()?,
                };
                self.0.insert(id, layer);
            }
            "Download complete" => {
                let layer = self.0.get_mut(&id)?;
                layer.current = layer.total;
            }
            _ => return None,
        }
        Some(
            self.0
                .values()
                .fold(PullProgress::default(), |sum, layer| PullProgress {
                    current: sum.current.saturating_add(layer.current),
                    total: sum.total.saturating_add(layer.total),
                }),
        )
    }
}

#[derive(Deserialize)]
struct VersionAnswer {
    #[serde(rename = "ApiVersion")]
    api: String,
    #[serde(rename = "Version", default)]
    release: String,
    #[serde(rename = "Os", default)]
    os: String,
    #[serde(rename = "Arch", default)]
    architecture: String,
}

#[derive(Deserialize)]
struct Created {
    #[serde(rename = "Id")]
    id: String,
}

/// A row of the container list, as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Row {
    id: String,
    #[serde(default)]
    names: Option<Vec<String>>,
    #[serde(default)]
    state: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

impl From<Row> for ContainerSummary {
    fn from(row: Row) -> Self {
        let names = row.names.unwrap_or_default();
        // A link shows as `/other/alias`.
        let name = names
            .iter()
            .map(|name| name.trim_start_matches('/'))
            .find(|name| !name.contains('/'));
        Self {
            id: ContainerId::new(row.id),
            name: name.unwrap_or_default().to_owned(),
            state: RunState::from(row.state.as_str()),
            labels: row.labels.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_prefix_is_added_once() {
        let api = ApiVersion::new(1, 41);
        for (given, expected) in [
            (
                "unix://2f64/containers/json?all=1",
                Some("unix://2f64/v1.41/containers/json?all=1"),
            ),
            ("http://h:2375/version", Some("http://h:2375/v1.41/version")),
            ("unix://2f64/v1.41/containers/json", None),
            ("unix://2f64/v1.53/info", None),
        ] {
            assert_eq!(with_version_prefix(given, api).as_deref(), expected, "{given}");
        }
    }

    #[test]
    fn engines_that_kill_when_the_client_of_a_stop_leaves_are_known() {
        for version in ["23.0.0", "23.0.6", "24.0.0", "24.0.2", "24.0.0-rc.1"] {
            assert!(kills_when_the_client_leaves(version), "{version}");
        }
        for version in [
            "20.10.24+dfsg1",
            "24.0.3",
            "24.0.9",
            "25.0.0",
            "26.1.5",
            "28.5.2",
            "5.8.0",
            "",
        ] {
            assert!(!kills_when_the_client_leaves(version), "{version}");
        }
    }

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

    #[test]
    fn a_linked_container_keeps_its_own_name() {
        let row: Row = serde_json::from_value(json!({
            "Id": "f00", "Names": ["/other/alias", "/own"], "State": "running", "Labels": null, "Unknown": 1,
        }))
        .unwrap();
        let summary = ContainerSummary::from(row);
        assert_eq!((summary.name.as_str(), summary.state), ("own", RunState::Running));
    }

    #[test]
    fn progress_adds_up_over_layers() {
        let line = |id: &str, status: &str, current: i64, total: i64| -> CreateImageInfo {
            serde_json::from_value(json!({
                "id": id, "status": status, "progressDetail": { "current": current, "total": total },
            }))
            .unwrap()
        };
        let mut layers = Layers::default();
        layers.take(line("a", "Downloading", 10, 100));
        let both = layers.take(line("b", "Downloading", 5, 50));
        assert_eq!(
            both,
            Some(PullProgress {
                current: 15,
                total: 150
            })
        );
        assert_eq!(layers.take(line("a", "Extracting", 1, 900)), None);
        let done = layers.take(line("a", "Download complete", 0, 0));
        assert_eq!(
            done,
            Some(PullProgress {
                current: 105,
                total: 150
            })
        );
    }

    #[tokio::test]
    async fn an_engine_that_is_not_there_is_out_of_reach_at_each_call() {
        let directory = tempfile::tempdir().unwrap();
        let host = EngineHost::Unix(directory.path().join("docker.sock"));
        let engine = DockerEngine::connect(&EngineSettings { host }).unwrap();
        for _ in 0..2 {
            assert!(matches!(engine.info().await, Err(EngineError::Unreachable(_))));
            let stopped = engine.stop(&ContainerId::new("a"), Duration::ZERO).await;
            assert!(matches!(stopped, Err(EngineError::Unreachable(_))));
        }
    }
}
