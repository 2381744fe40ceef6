//! What engines fill in at the create, discard, and add to what they show: `daemon/daemon_unix.go`, `daemon/logs.go` and
//! `daemon/inspect.go`, written down apart from the code under test.

use serde_json::{Map, Value, json};

use kit::document::object;

/// An engine as it is at one time: its age, its host, and what is configured for all containers.
#[derive(Clone, Debug)]
pub(crate) struct Daemon {
    /// It fills in what the first ones left blank.
    pub(crate) fills_in: bool,
    /// The host's cgroups are of version 2.
    pub(crate) cgroup_v2: bool,
    /// `log-opts`
    pub(crate) log_options: Map<String, Value>,
}

impl Daemon {
    /// What it keeps of a host configuration at the create.
    pub(crate) fn create(&self, asked: &Value) -> Value {
        let mut kept = object(asked);
        if self.fills_in {
            for (field, default) in [
                ("CgroupnsMode", json!("private")),
                ("IpcMode", json!("private")),
                ("MaskedPaths", json!(["/proc/kcore"])),
                ("ReadonlyPaths", json!(["/proc/sys"])),
                ("Runtime", json!("runc")),
                ("ShmSize", json!(67_108_864)),
            ] {
                let slot = kept.entry(field).or_insert(Value::Null);
                if slot.is_null() || *slot == json!("") || *slot == json!(0) {
                    *slot = default;
                }
            }
        }
        let mut options = self.log_options.clone();
        options.extend(object(&asked["LogConfig"]["Config"]));
        kept.insert(
            "LogConfig".to_owned(),
            json!({"Type": "json-file", "Config": options}),
        );
        if asked["PidsLimit"].as_i64().is_none_or(|limit| limit <= 0) {
            kept.insert("PidsLimit".to_owned(), Value::Null);
        }
        if self.cgroup_v2 {
            kept.insert("OomKillDisable".to_owned(), Value::Null);
        } else if asked["OomKillDisable"].is_null() {
            kept.insert("OomKillDisable".to_owned(), json!(false));
        }
        Value::Object(kept)
    }
}

/// What inspect shows of a host configuration: with `default-ulimits` added, in the order in which they come this time.
pub(crate) fn show(kept: &Value, default_ulimits: &[Value]) -> Value {
    let mut shown = kept.clone();
    let mut ulimits = kept["Ulimits"].as_array().cloned().unwrap_or_default();
    for default in default_ulimits {
        if ulimits.iter().all(|own| own["Name"] != default["Name"]) {
            ulimits.push(default.clone());
        }
    }
    shown["Ulimits"] = json!(ulimits);
    shown
}
