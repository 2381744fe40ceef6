//! A container's raw document, with typed access to the few fields that decisions depend on.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::net::IpAddr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Map, Value};
use strum::{EnumString, IntoStaticStr};

use super::json::{at, list_at, object_at, text_at};
use super::{ContainerId, ContainerSummary, ImageId, Role, RunState, label, sets};
use crate::text::duration::LONGEST;
use crate::text::time;

/// A container's document from the engine, with an id.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspected {
    document: Value,
    /// Whether our labels on it come from its image, according to the last check.
    pub(crate) has_labels_of_image: bool,
}

/// The outcome of a health check, by the engine or by this program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, IntoStaticStr, EnumString)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum HealthStatus {
    /// The container works.
    Healthy,
    /// Its HEALTHCHECK has not passed yet.
    Starting,
    /// The container does not work.
    #[default]
    Unhealthy,
}

impl HealthStatus {
    /// Returns the word for logs, JSON and metric labels.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl Inspected {
    /// Wraps a document. Returns `None` if it has no id.
    pub fn new(document: Value) -> Option<Self> {
        document.get("Id")?.as_str().filter(|id| !id.is_empty())?;
        Some(Self {
            document,
            has_labels_of_image: false,
        })
    }

    /// Makes a partial document from a row of the list, for a container that cannot be inspected.
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

    /// Makes a partial document of a container with these variables, a list as in Docker's documents.
    pub fn with_variables(env: &Value) -> Self {
        Self {
            document: serde_json::json!({ "Config": { "Env": env } }),
            has_labels_of_image: false,
        }
    }

    /// Returns the whole document.
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// Returns the string at a JSON pointer, or an empty one if there is none.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        text_at(&self.document, pointer)
    }

    /// Returns the object at a JSON pointer.
    pub(crate) fn object(&self, pointer: &str) -> Option<&Map<String, Value>> {
        object_at(&self.document, pointer)
    }

    /// Returns the list at a JSON pointer, or an empty one if there is none.
    pub(crate) fn list(&self, pointer: &str) -> &[Value] {
        list_at(&self.document, pointer)
    }

    pub(super) fn number(&self, pointer: &str) -> Option<u64> {
        at(&self.document, pointer).and_then(Value::as_u64)
    }

    pub(crate) fn flag(&self, pointer: &str) -> bool {
        at(&self.document, pointer) == Some(&Value::Bool(true))
    }

    /// Sets a field of an existing object. The last part of the pointer must not need escapes.
    pub(crate) fn replace(&mut self, pointer: &str, value: Value) {
        let (object, field) = pointer.rsplit_once('/').unwrap_or_default();
        if let Some(Value::Object(object)) = self.document.pointer_mut(object) {
            object.insert(field.to_owned(), value);
        }
    }

    /// Sets a field of each object in the object at a JSON pointer, and in its lists.
    pub(crate) fn replace_in_each(&mut self, pointer: &str, field: &str, value: &Value) {
        let object = self.document.pointer_mut(pointer).and_then(Value::as_object_mut);
        let values = object.into_iter().flat_map(Map::values_mut);
        let values = values.flat_map(|value| match value {
            Value::Array(list) => list.as_mut_slice(),
            one => std::slice::from_mut(one),
        });
        for object in values.filter_map(Value::as_object_mut) {
            object.insert(field.to_owned(), value.clone());
        }
    }

    /// Returns a fingerprint of the settings that an owner can change at run time: limits, restart policy and networks.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hasher = DefaultHasher::new();
        let mut settings = self.object("/HostConfig").cloned().unwrap_or_default();
        // A link contains the container's own name, which we change.
        settings.remove("Links");
        sets::sort(&mut settings);
        settings.hash(&mut hasher);
        for (network, endpoint) in self.object("/NetworkSettings/Networks").into_iter().flatten() {
            let aliases: BTreeSet<&str> = list_at(endpoint, "/Aliases")
                .iter()
                .filter_map(Value::as_str)
                .collect();
            // Leave out the addresses, since the engine releases them when the container stops.
            (network, aliases, endpoint.get("IPAMConfig")).hash(&mut hasher);
        }
        format!("{:016x}", hasher.finish())
    }

    fn time(&self, pointer: &str) -> Option<DateTime<Utc>> {
        let time = time::parse(self.text(pointer))?;
        // The engine writes the year 1 for "never".
        (time.timestamp() > 0).then_some(time)
    }

    /// Returns the full id.
    pub fn id(&self) -> ContainerId {
        ContainerId::new(self.text("/Id"))
    }

    /// Returns the name without the leading slash.
    pub fn name(&self) -> &str {
        self.text("/Name").trim_start_matches('/')
    }

    /// Returns its state.
    pub fn state(&self) -> RunState {
        RunState::from(self.text("/State/Status"))
    }

    /// Returns the image reference it was created from, as its owner wrote it. If we had to create it by the image's id, the
    /// reference is in a label.
    pub fn image_reference(&self) -> &str {
        let image = self.text("/Config/Image");
        if image.starts_with("sha256:") {
            self.label(label::IMAGE).unwrap_or(image)
        } else {
            image
        }
    }

    /// Whether this container replaced a delegate with `--rm`, and so is removed after it has ended. A container that was
    /// given a restart policy since is kept, because no engine creates a container with both.
    pub fn emulates_auto_remove(&self) -> bool {
        self.label(label::AUTO_REMOVE) == Some("true") && self.restart_policy_text() == "no"
    }

    /// Returns the id of the image it runs.
    pub fn image_id(&self) -> ImageId {
        ImageId::new(self.text("/Image"))
    }

    /// Returns the value of an environment variable. If it occurs twice the last one wins, as in the container.
    pub fn env(&self, name: &str) -> Option<&str> {
        let last = self.environment().rfind(|(key, _)| *key == name);
        last.map(|(_, value)| value)
    }

    /// Returns its environment variables with their values.
    pub fn environment(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        let entries = self.list("/Config/Env").iter();
        entries.filter_map(|entry| entry.as_str()?.split_once('='))
    }

    /// Returns the value of a label. An empty value counts as none, and so does a label of ours that comes from its image.
    pub fn label(&self, name: &str) -> Option<&str> {
        let value = self.object("/Config/Labels")?.get(name)?.as_str();
        value.filter(|value| !(value.is_empty() || self.has_labels_of_image && label::OURS.contains(&name)))
    }

    /// Whether only the image can show if our labels belong to this container, since a commit copies them to an image. This
    /// is so if they name another container, or if their effect could harm an owner's container.
    pub(crate) fn has_doubtful_labels(&self) -> bool {
        let asks = |name| self.label(name) == Some("true");
        label::OURS.iter().any(|name| self.label(name).is_some())
            && (!self.is_ours() || asks(label::AUTO_REMOVE) || asks(label::COPY))
    }

    /// Whether this program created it for the delegate `base`: see [`label::are_ours`].
    pub(crate) fn is_made_for(&self, base: &str) -> bool {
        label::are_ours(|name| self.label(name), base)
    }

    /// Whether its labels and its name show that this program created it.
    pub(crate) fn is_ours(&self) -> bool {
        let mut names = [self.name(), Role::parse(self.name()).0].into_iter();
        names.any(|name| self.is_made_for(name))
    }

    /// Marks our labels as the image's if the image has them, or, without an image, if they do not match the name.
    pub(crate) fn check_labels(&mut self, image: Option<&Value>) {
        let replaces = |labels: &Map<String, Value>| labels.get(label::REPLACES).cloned();
        self.has_labels_of_image = match image {
            Some(image) => object_at(image, "/Config/Labels").is_some_and(|labels| {
                let has_ours = label::OURS.iter().any(|name| labels.contains_key(*name));
                has_ours && self.object("/Config/Labels").and_then(replaces) == replaces(labels)
            }),
            None => !self.is_ours(),
        };
    }

    /// Returns when it was created.
    pub fn created_at(&self) -> Option<DateTime<Utc>> {
        self.time("/Created")
    }

    /// Returns when its current run started.
    pub fn started_at(&self) -> Option<DateTime<Utc>> {
        self.time("/State/StartedAt")
    }

    /// Returns when its last run ended.
    pub fn finished_at(&self) -> Option<DateTime<Utc>> {
        self.time("/State/FinishedAt")
    }

    /// Returns the exit code of its last run.
    pub fn exit_code(&self) -> i64 {
        at(&self.document, "/State/ExitCode")
            .and_then(Value::as_i64)
            .unwrap_or_default()
    }

    /// Returns the engine's message about a failed start. Empty if no start failed.
    pub fn error(&self) -> &str {
        self.text("/State/Error")
    }

    /// Whether the kernel killed it because it ran out of memory.
    pub fn oom_killed(&self) -> bool {
        self.flag("/State/OOMKilled")
    }

    /// Returns how many times its restart policy has restarted it.
    pub fn restart_count(&self) -> u64 {
        self.number("/RestartCount").unwrap_or_default()
    }

    /// Whether the engine removes it when it stops (`--rm`).
    pub fn auto_remove(&self) -> bool {
        self.flag("/HostConfig/AutoRemove")
    }

    /// Marks it as a container with `--rm`, as it was read before.
    pub(crate) fn set_auto_remove(&mut self) {
        self.replace("/HostConfig/AutoRemove", Value::Bool(true));
    }

    /// Returns its network mode: `default`, `bridge`, `host`, `none`, `container:<id>`, or a network's name or id.
    pub fn network_mode(&self) -> &str {
        self.text("/HostConfig/NetworkMode")
    }

    /// Returns the networks to connect it to before its start, with the endpoints' settings. A label lists the networks that
    /// its create call did not accept; those that it is connected to are left out.
    pub fn networks_to_connect(&self) -> Vec<(String, Value)> {
        let text = self.label(label::NETWORKS).unwrap_or("{}");
        let networks: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
        let missing = networks.into_iter().filter(|(network, _)| !self.is_in(network));
        missing.collect()
    }

    /// Whether it is connected to the network with this name, or will be when it starts.
    pub fn is_in(&self, network: &str) -> bool {
        self.networks()
            .is_some_and(|networks| networks.contains_key(network))
    }

    fn networks(&self) -> Option<&Map<String, Value>> {
        self.object("/NetworkSettings/Networks")
    }

    /// Returns the stop timeout that its owner set (`--stop-timeout`), at most [`LONGEST`], even if it is unlimited.
    pub fn stop_timeout(&self) -> Option<Duration> {
        let seconds = self.stop_seconds()?.try_into();
        Some(seconds.map_or(LONGEST, Duration::from_secs).min(LONGEST))
    }

    /// Whether its owner lets it take any time to stop (`--stop-timeout=-1`).
    pub fn has_endless_stop(&self) -> bool {
        self.stop_seconds().is_some_and(i64::is_negative)
    }

    fn stop_seconds(&self) -> Option<i64> {
        at(&self.document, "/Config/StopTimeout")?.as_i64()
    }

    /// Returns its memory limit in bytes, if it has one.
    pub fn memory_limit(&self) -> Option<u64> {
        self.number("/HostConfig/Memory").filter(|bytes| *bytes > 0)
    }

    /// Returns its IP addresses in all networks, in the order of the networks' names.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let endpoints = self.networks().into_iter().flat_map(Map::values);
        let addresses = endpoints
            .flat_map(|endpoint| ["/IPAddress", "/GlobalIPv6Address"].map(|key| text_at(endpoint, key)));
        addresses.filter_map(|address| address.parse().ok()).collect()
    }

    /// Returns the exit codes and outputs of up to `last` recent probes of its HEALTHCHECK, the latest last.
    pub fn health_log(&self, last: usize) -> impl Iterator<Item = (i64, &str)> {
        let log = self.list("/State/Health/Log");
        log.iter().skip(log.len().saturating_sub(last)).map(|entry| {
            let code = entry.get("ExitCode").and_then(Value::as_i64);
            let output = entry.get("Output").and_then(Value::as_str);
            (code.unwrap_or_default(), output.unwrap_or_default().trim())
        })
    }

    /// Returns when the last probe of its HEALTHCHECK ended, in the engine's format.
    pub fn last_probe_end(&self) -> Option<&str> {
        let last = self.list("/State/Health/Log").last()?;
        last.get("End")?.as_str()
    }

    /// Returns the result of its HEALTHCHECK. `None` if it has none.
    pub fn health_status(&self) -> Option<HealthStatus> {
        self.text("/State/Health/Status").parse().ok()
    }

    /// Returns how many times in a row its HEALTHCHECK has failed.
    pub fn failing_streak(&self) -> u64 {
        self.number("/State/Health/FailingStreak").unwrap_or_default()
    }
}
