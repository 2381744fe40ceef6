//! New settings for a container that is recreated with the same image: variables, labels and the memory limit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value, json};

use super::defaults::env_name;
use crate::container::{ACCOUNT_ID_VARIABLE, DELEGATE_NAME_VARIABLE, Inspected, restart_policy_document};
use crate::text::redact::{Redactor, looks_secret};
use crate::text::size;

/// The prefix of a variable in the list of names.
const ENV: &str = "env.";
/// The prefix of a label in the list of names.
const LABEL: &str = "label.";
/// The variables by which a delegate is found.
pub const IDENTITY: [&str; 3] = [DELEGATE_NAME_VARIABLE, "HARNESS_NAME", ACCOUNT_ID_VARIABLE];
/// The memory limit in the list of names.
const MEMORY: &str = "memory";

/// Settings by name, as they shall be. The values may be secrets: `Debug` and the list of names show none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct NewSettings {
    /// Environment variables; `None` removes one.
    pub env: BTreeMap<String, Option<String>>,
    /// Labels; `None` removes one.
    pub labels: BTreeMap<String, Option<String>>,
    /// The memory limit.
    pub memory: Option<MemoryLimit>,
    /// The variables whose values came from the command line, where everyone may read them.
    pub public: BTreeSet<String>,
}

/// A memory limit, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// `HostConfig.Memory`; 0 for none.
    pub memory: u64,
    /// `HostConfig.MemorySwap`; `None` keeps what the owner chose, also no swap at all, and lets the engine choose again what it chose
    /// before: twice the memory.
    pub swap: Option<i64>,
}

impl NewSettings {
    /// The values that a container has for the settings of these [names](Self::names).
    pub fn of(names: &str, container: &Inspected) -> Self {
        let mut settings = Self::default();
        for name in names.split(',') {
            if let Some(name) = name.strip_prefix(ENV) {
                let value = container.env(name).map(str::to_owned);
                settings.env.insert(name.to_owned(), value);
            } else if let Some(name) = name.strip_prefix(LABEL) {
                let labels = container.object("/Config/Labels");
                let value = labels.and_then(|labels| labels.get(name)?.as_str());
                settings.labels.insert(name.to_owned(), value.map(str::to_owned));
            } else if name == MEMORY {
                settings.memory = Some(limit_of(container));
            }
        }
        settings
    }

    /// The names of the settings, such as `env.JAVA_OPTS,label.team,memory`: the value of the label
    /// [`RECONFIGURED`](crate::container::label::RECONFIGURED).
    pub fn names(&self) -> String {
        let env = self.env.keys().map(|name| format!("{ENV}{name}"));
        let labels = self.labels.keys().map(|name| format!("{LABEL}{name}"));
        let memory = self.memory.map(|_| MEMORY.to_owned());
        env.chain(labels).chain(memory).collect::<Vec<_>>().join(",")
    }

    /// The container's document with these settings.
    pub fn applied_to(&self, container: &Inspected) -> Inspected {
        let mut container = container.clone();
        if !self.env.is_empty() {
            container.replace("/Config/Env", self.variables(container.list("/Config/Env")));
        }
        if !self.labels.is_empty() {
            let mut labels: Map<_, _> = container.object("/Config/Labels").cloned().unwrap_or_default();
            for (name, value) in &self.labels {
                match value {
                    Some(value) => drop(labels.insert(name.clone(), Value::from(value.as_str()))),
                    None => drop(labels.remove(name)),
                }
            }
            container.replace("/Config/Labels", Value::Object(labels));
        }
        if let Some(MemoryLimit { memory, swap }) = self.memory {
            let before = limit_of(&container);
            let is = |limit: u64| i64::try_from(limit).is_ok_and(|limit| before.swap == Some(limit));
            let kept = match before.swap {
                _ if is(before.memory * 2) => Some(0),
                // Without swap before, without swap again.
                _ if is(before.memory) => i64::try_from(memory).ok(),
                owners => owners,
            };
            let swap = swap.or(kept);
            container.replace("/HostConfig/Memory", Value::from(memory));
            if let Some(swap) = swap {
                container.replace("/HostConfig/MemorySwap", Value::from(swap));
            }
        }
        container
    }

    /// The list of a container's or service's variables with the new ones.
    pub(crate) fn variables(&self, entries: &[Value]) -> Value {
        let is_kept = |entry: &&Value| {
            !entry
                .as_str()
                .is_some_and(|it| self.env.contains_key(env_name(it)))
        };
        let set = self
            .env
            .iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let set = set.map(|(name, value)| Value::from(format!("{name}={value}")));
        entries.iter().filter(is_kept).cloned().chain(set).collect()
    }

    /// The settings for which this container has other values.
    #[must_use]
    pub fn missing_in(&self, container: &Inspected) -> Self {
        let mut missing = self.clone();
        let found = Self::of(&self.names(), container);
        missing
            .env
            .retain(|name, value| found.env.get(name) != Some(value));
        missing
            .labels
            .retain(|name, value| found.labels.get(name) != Some(value));
        missing.memory = missing.memory.filter(|wanted| {
            let is_found = |it: MemoryLimit| {
                it.memory == wanted.memory && (wanted.swap.is_none() || wanted.swap == it.swap)
            };
            !found.memory.is_some_and(is_found)
        });
        missing
    }

    /// Whether it names no setting.
    pub fn is_empty(&self) -> bool {
        self.env.is_empty() && self.labels.is_empty() && self.memory.is_none()
    }

    /// The changes to a container, for people. Only the new values of public variables and labels are shown: others may be secrets.
    pub fn as_changes_of(&self, container: &Inspected) -> String {
        let former = Self::of(&self.names(), container);
        let change = |what: String, is_public, former: Option<&Option<String>>, value: &Option<String>| {
            let value = value.as_deref().map(|value| Redactor::default().within(value));
            match (former, value) {
                (_, None) => what + " is removed",
                (Some(Some(_)), Some(value)) if is_public => format!("{what} becomes {value}"),
                (_, Some(value)) if is_public => format!("{what}={value} is added"),
                (Some(Some(_)), Some(_)) => what + " changes",
                (_, Some(_)) => what + " is added",
            }
        };
        let env = self.env.iter().map(|(name, value)| {
            let is_public = self.public.contains(name);
            change(name.clone(), is_public, former.env.get(name), value)
        });
        let labels = self.labels.iter().map(|(name, value)| {
            let (what, is_public) = (format!("the label {name}"), !looks_secret(name));
            change(what, is_public, former.labels.get(name), value)
        });
        let limit = |it: MemoryLimit| {
            if it.memory == 0 {
                "no limit".to_owned()
            } else {
                size::text(it.memory)
            }
        };
        let memory = former.memory.zip(self.memory);
        let memory = memory.map(|(from, to)| format!("memory: {} becomes {}", limit(from), limit(to)));
        env.chain(labels).chain(memory).collect::<Vec<_>>().join("; ")
    }
}

/// Shows no values.
impl fmt::Debug for NewSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewSettings({})", self.names())
    }
}

/// The document of a container that keeps these settings of an old one and could not run. It also has the old one's identity, by which
/// it is found, and nothing by which another tool would take it for the delegate.
pub fn of_former(old: &Inspected, names: &str) -> Inspected {
    let kept = NewSettings::of(names, old);
    let is_kept = |name: &str| IDENTITY.contains(&name) || kept.env.contains_key(name);
    let env = old.environment().filter(|(name, _)| is_kept(name));
    let env: Vec<String> = env.map(|(name, value)| format!("{name}={value}")).collect();
    let labels = kept
        .labels
        .into_iter()
        .filter_map(|(name, value)| Some((name, Value::from(value?))));
    let MemoryLimit { memory, swap } = kept.memory.unwrap_or(MemoryLimit {
        memory: 0,
        swap: None,
    });
    let mut former = old.clone();
    former.replace(
        "/Config",
        json!({
            "Image": old.text("/Config/Image"),
            "Env": env,
            "Labels": labels.collect::<Map<_, _>>(),
            "Entrypoint": ["/former-settings-only"],
            "Healthcheck": { "Test": ["NONE"] },
        }),
    );
    former.replace(
        "/HostConfig",
        json!({ "Memory": memory, "MemorySwap": swap, "NetworkMode": "none", "RestartPolicy": restart_policy_document("no") }),
    );
    former.replace("/NetworkSettings/Networks", json!({}));
    former.replace("/Mounts", json!([]));
    former
}

fn limit_of(container: &Inspected) -> MemoryLimit {
    let host_config = container.object("/HostConfig");
    let number = |field: &str| host_config.and_then(|it| it.get(field)?.as_i64());
    MemoryLimit {
        memory: number("Memory")
            .and_then(|memory| memory.try_into().ok())
            .unwrap_or_default(),
        swap: number("MemorySwap"),
    }
}
