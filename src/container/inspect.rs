//! A container's raw document, with typed views of the few fields that decisions rest on.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::net::IpAddr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::json::{at, list_at, object_at, text_at};
use super::{ContainerId, ContainerSummary, ImageId, Role, RunState, label, restart_policy, sets};
use crate::text::duration::LONGEST;
use crate::text::time;

/// A container's document as the engine gave it. It has an id. The second part: whether labels of ours on it are its image's.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspected(Value, bool);

/// The result of a container's HEALTHCHECK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Healthcheck {
    /// The engine's verdict.
    pub status: HealthcheckStatus,
    /// Failures in a row.
    pub failing_streak: u64,
    /// The output of the last probe, trimmed.
    pub last_output: String,
}

/// The engine's verdict on a container with a HEALTHCHECK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthcheckStatus {
    /// In its start period.
    Starting,
    /// The last probe succeeded.
    Healthy,
    /// Too many probes failed in a row.
    Unhealthy,
}

impl Inspected {
    /// The name of the Swarm service whose task it is, if so.
    pub fn service(&self) -> Option<&str> {
        self.label("com.docker.swarm.service.name")
    }

    /// Takes a document; `None` unless it has an id.
    pub fn new(document: Value) -> Option<Self> {
        document.get("Id")?.as_str().filter(|id| !id.is_empty())?;
        Some(Self(document, false))
    }

    /// As much of a document as the list shows, for a container that cannot be inspected.
    pub(crate) fn outline(summary: &ContainerSummary) -> Option<Self> {
        let (image, image_id) = summary.image.clone().unwrap_or_default();
        let created = DateTime::from_timestamp(summary.created, 0).unwrap_or_default();
        Self::new(serde_json::json!({
            "Id": summary.id.as_str(),
            "Name": summary.name,
            "Created": created.to_rfc3339(),
            "Image": image_id,
            "Config": { "Image": image, "Labels": summary.labels },
            "State": { "Status": summary.state.as_str() },
        }))
    }

    /// The whole document.
    pub fn document(&self) -> &Value {
        &self.0
    }

    /// The string at a JSON pointer; empty if there is none.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        text_at(&self.0, pointer)
    }

    /// The object at a JSON pointer.
    pub(crate) fn object(&self, pointer: &str) -> Option<&Map<String, Value>> {
        object_at(&self.0, pointer)
    }

    /// The list at a JSON pointer; empty if there is none.
    pub(crate) fn list(&self, pointer: &str) -> &[Value] {
        list_at(&self.0, pointer)
    }

    fn number(&self, pointer: &str) -> Option<u64> {
        at(&self.0, pointer).and_then(Value::as_u64)
    }

    pub(crate) fn flag(&self, pointer: &str) -> bool {
        at(&self.0, pointer) == Some(&Value::Bool(true))
    }

    /// Sets a field of an object that is there. The last part of the pointer has nothing to escape.
    pub(crate) fn replace(&mut self, pointer: &str, value: Value) {
        let (object, field) = pointer.rsplit_once('/').unwrap_or_default();
        if let Some(Value::Object(object)) = self.0.pointer_mut(object) {
            object.insert(field.to_owned(), value);
        }
    }

    /// A fingerprint of what an owner can change of a running container: its limits, restart policy, and networks.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hasher = DefaultHasher::new();
        let mut settings = self.object("/HostConfig").cloned().unwrap_or_default();
        // A link has the container's own name, which we change.
        settings.remove("Links");
        sets::sort(&mut settings);
        settings.hash(&mut hasher);
        for (network, endpoint) in self.object("/NetworkSettings/Networks").into_iter().flatten() {
            let aliases: BTreeSet<&str> = list_at(endpoint, "/Aliases")
                .iter()
                .filter_map(Value::as_str)
                .collect();
            // The engine takes the addresses back when it stops.
            (network, aliases, endpoint.get("IPAMConfig")).hash(&mut hasher);
        }
        format!("{:016x}", hasher.finish())
    }

    fn time(&self, pointer: &str) -> Option<DateTime<Utc>> {
        let time = time::parse(self.text(pointer))?;
        // The engine writes the year 1 for "never".
        (time.timestamp() > 0).then_some(time)
    }

    /// The full id.
    pub fn id(&self) -> ContainerId {
        ContainerId::new(self.text("/Id"))
    }

    /// The name, without the leading slash.
    pub fn name(&self) -> &str {
        self.text("/Name").trim_start_matches('/')
    }

    /// The state it is in.
    pub fn state(&self) -> RunState {
        RunState::from(self.text("/State/Status"))
    }

    /// The image reference it was created from, as its owner wrote it. Where we had to create it by the image's id, the
    /// reference is on a label.
    pub fn image_reference(&self) -> &str {
        let image = self.text("/Config/Image");
        if image.starts_with("sha256:") {
            self.label(label::IMAGE).unwrap_or(image)
        } else {
            image
        }
    }

    /// Whether this container replaced a delegate with `--rm`, and so is removed once it has ended. A container that was
    /// given a restart policy stays: no engine creates a container with both.
    pub fn emulates_auto_remove(&self) -> bool {
        self.label(label::AUTO_REMOVE) == Some("true") && self.restart_policy_text() == "no"
    }

    /// The id of the image it runs.
    pub fn image_id(&self) -> ImageId {
        ImageId::new(self.text("/Image"))
    }

    /// The value of a variable in its environment; the last one wins, as in the container.
    pub fn env(&self, name: &str) -> Option<&str> {
        let last = self.environment().rfind(|(key, _)| *key == name);
        last.map(|(_, value)| value)
    }

    /// Its environment, each variable with its value.
    pub fn environment(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        let entries = self.list("/Config/Env").iter();
        entries.filter_map(|entry| entry.as_str()?.split_once('='))
    }

    /// The value of a label; an empty one is none, and so is one of ours that came with its image.
    pub fn label(&self, name: &str) -> Option<&str> {
        let value = self.object("/Config/Labels")?.get(name)?.as_str();
        value.filter(|value| !(value.is_empty() || self.1 && label::OURS.contains(&name)))
    }

    /// Whether its image has to say whose its labels of ours are, since a commit copies them: they are those of another name,
    /// or what they ask for would harm a container of its owner's.
    pub(crate) fn has_doubtful_labels(&self) -> bool {
        let asks = |name| self.label(name) == Some("true");
        label::OURS.iter().any(|name| self.label(name).is_some())
            && (!self.is_ours() || asks(label::AUTO_REMOVE) || asks(label::COPY))
    }

    /// Whether its labels and its name say that this program created it: see [`label::are_ours`].
    fn is_ours(&self) -> bool {
        let mut names = [self.name(), Role::parse(self.name()).0].into_iter();
        names.any(|name| label::are_ours(|label| self.label(label), name))
    }

    /// Whether its labels of ours came with its image, as far as that was asked.
    pub(crate) fn has_labels_of_image(&self) -> bool {
        self.1
    }

    /// Notes whether they did.
    pub(crate) fn set_labels_of_image(&mut self, are_of_image: bool) {
        self.1 = are_of_image;
    }

    /// Its labels of ours do not count if its image has them, or, without an image, if the name does not fit.
    pub(crate) fn check_labels(&mut self, image: Option<&Value>) {
        let replaces = |labels: &Map<String, Value>| labels.get(label::REPLACES).cloned();
        self.1 = match image {
            Some(image) => object_at(image, "/Config/Labels").is_some_and(|labels| {
                let has_ours = label::OURS.iter().any(|name| labels.contains_key(*name));
                has_ours && self.object("/Config/Labels").and_then(replaces) == replaces(labels)
            }),
            None => !self.is_ours(),
        };
    }

    /// When it was created.
    pub fn created_at(&self) -> Option<DateTime<Utc>> {
        self.time("/Created")
    }

    /// When its current life started.
    pub fn started_at(&self) -> Option<DateTime<Utc>> {
        self.time("/State/StartedAt")
    }

    /// When its last life ended.
    pub fn finished_at(&self) -> Option<DateTime<Utc>> {
        self.time("/State/FinishedAt")
    }

    /// How its last life ended.
    pub fn exit_code(&self) -> i64 {
        at(&self.0, "/State/ExitCode")
            .and_then(Value::as_i64)
            .unwrap_or_default()
    }

    /// The engine's message about a start that failed; empty if none did.
    pub fn error(&self) -> &str {
        self.text("/State/Error")
    }

    /// Whether the kernel killed it because its memory ran out.
    pub fn oom_killed(&self) -> bool {
        self.flag("/State/OOMKilled")
    }

    /// How often its restart policy has restarted it.
    pub fn restart_count(&self) -> u64 {
        self.number("/RestartCount").unwrap_or_default()
    }

    /// Its restart policy as `docker run --restart` takes it: `no`, `always`, `on-failure:5`.
    pub fn restart_policy_text(&self) -> String {
        restart_policy::text(&self.0)
    }

    /// Whether the engine removes it when it stops (`--rm`).
    pub fn auto_remove(&self) -> bool {
        self.flag("/HostConfig/AutoRemove")
    }

    /// Shows it with `--rm`, as it was read before.
    pub(crate) fn set_auto_remove(&mut self) {
        self.replace("/HostConfig/AutoRemove", Value::Bool(true));
    }

    /// Its network mode: `default`, `bridge`, `host`, `none`, `container:<id>`, or a network's name or id.
    pub fn network_mode(&self) -> &str {
        self.text("/HostConfig/NetworkMode")
    }

    /// The networks that it is to be connected to before its start, with the endpoints' settings, as its label says: those
    /// that its create call did not take, and that it is not connected to.
    pub fn networks_to_connect(&self) -> Vec<(String, Value)> {
        let text = self.label(label::NETWORKS).unwrap_or("{}");
        let networks: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
        let missing = networks.into_iter().filter(|(network, _)| !self.is_in(network));
        missing.collect()
    }

    /// Whether it is connected to the network of this name, or will be when it starts.
    pub fn is_in(&self, network: &str) -> bool {
        self.networks()
            .is_some_and(|networks| networks.contains_key(network))
    }

    fn networks(&self) -> Option<&Map<String, Value>> {
        self.object("/NetworkSettings/Networks")
    }

    /// The time to stop that its owner gave it (`--stop-timeout`), at most [`LONGEST`]; also if it has no end.
    pub fn stop_timeout(&self) -> Option<Duration> {
        let seconds = self.stop_seconds()?.try_into();
        Some(seconds.map_or(LONGEST, Duration::from_secs).min(LONGEST))
    }

    /// Whether its owner lets it take however long it takes to stop (`--stop-timeout=-1`).
    pub fn has_endless_stop(&self) -> bool {
        self.stop_seconds().is_some_and(i64::is_negative)
    }

    fn stop_seconds(&self) -> Option<i64> {
        at(&self.0, "/Config/StopTimeout")?.as_i64()
    }

    /// Its memory limit in bytes, if it has one.
    pub fn memory_limit(&self) -> Option<u64> {
        self.number("/HostConfig/Memory").filter(|bytes| *bytes > 0)
    }

    /// Its addresses, one per network it is connected to, in the order of the networks' names.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let mut addresses = Vec::new();
        for endpoint in self.networks().into_iter().flat_map(Map::values) {
            for key in ["IPAddress", "GlobalIPv6Address"] {
                addresses.extend(
                    endpoint
                        .get(key)
                        .and_then(|address| address.as_str()?.parse::<IpAddr>().ok()),
                );
            }
        }
        addresses
    }

    /// The exit code and the output of the last probes of its HEALTHCHECK, this many, the latest at the end.
    pub fn health_log(&self, last: usize) -> impl Iterator<Item = (i64, &str)> {
        let log = self.list("/State/Health/Log");
        log.iter().skip(log.len().saturating_sub(last)).map(|entry| {
            let code = entry.get("ExitCode").and_then(Value::as_i64);
            let output = entry.get("Output").and_then(Value::as_str);
            (code.unwrap_or_default(), output.unwrap_or_default().trim())
        })
    }

    /// When the last probe of its HEALTHCHECK ended, as the engine writes it.
    pub fn last_probe_end(&self) -> Option<&str> {
        let last = self.list("/State/Health/Log").last()?;
        last.get("End")?.as_str()
    }

    /// The engine's verdict on its HEALTHCHECK; `None` if it has none.
    pub fn health(&self) -> Option<Healthcheck> {
        let status = match self.text("/State/Health/Status") {
            "starting" => HealthcheckStatus::Starting,
            "healthy" => HealthcheckStatus::Healthy,
            "unhealthy" => HealthcheckStatus::Unhealthy,
            _ => return None,
        };
        let last_output = self.health_log(1).next().map(|(_, output)| output);
        Some(Healthcheck {
            status,
            failing_streak: self.number("/State/Health/FailingStreak").unwrap_or_default(),
            last_output: last_output.unwrap_or_default().to_owned(),
        })
    }
}
