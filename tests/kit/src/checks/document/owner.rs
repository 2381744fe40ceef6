//! A possible request of an owner, and a possible image, built from any document.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::paths::{bind_destination, clean};
use super::{ENDPOINT_REPORTS, object, text};

/// A create body from the contents of an inspect document.
pub(super) fn of(container: &Value) -> Value {
    let mut owner = config(container.get("Config"));
    for engines_own in ["HostConfig", "NetworkingConfig", "Image"] {
        owner.remove(engines_own);
    }
    for field in ["Hostname", "Domainname", "MacAddress"] {
        text_or_nothing(&mut owner, field);
    }
    let host_config = host_config(container.get("HostConfig"));
    let mode = text(&json!({ "HostConfig": &host_config }), "/HostConfig/NetworkMode").to_owned();
    if mode.starts_with("container:") {
        owner.remove("MacAddress");
    }
    let alone = matches!(mode.as_str(), "host" | "none") || mode.starts_with("container:");
    let endpoints = if alone { Map::new() } else { endpoints(container) };
    owner.insert("HostConfig".to_owned(), Value::Object(host_config));
    owner.insert(
        "NetworkingConfig".to_owned(),
        json!({ "EndpointsConfig": endpoints }),
    );
    Value::Object(owner)
}

/// The settings that an owner or an image can give for the container itself.
pub(super) fn config(given: Option<&Value>) -> Map<String, Value> {
    let mut config = given.and_then(Value::as_object).cloned().unwrap_or_default();
    // Windows only.
    config.remove("ArgsEscaped");
    for field in ["User", "WorkingDir", "StopSignal"] {
        text_or_nothing(&mut config, field);
    }
    let env = strings(config.get("Env")).into_iter().flatten();
    let named = |entry: &String| !entry.is_empty() && !entry.starts_with('=');
    config.insert("Env".to_owned(), json!(env.filter(named).collect::<Vec<_>>()));
    for field in ["Entrypoint", "Cmd"] {
        let words = strings(config.get(field));
        config.insert(field.to_owned(), json!(words));
    }
    let labels = entries(&config, "Labels").filter(|(_, value)| value.is_string());
    config.insert("Labels".to_owned(), Value::Object(labels.collect()));
    let ports = entries(&config, "ExposedPorts").map(|(port, _)| (port, json!({})));
    config.insert("ExposedPorts".to_owned(), Value::Object(ports.collect()));
    let volumes = entries(&config, "Volumes")
        .filter(|(path, _)| is_destination(path))
        .map(|(path, _)| (path, json!({})));
    config.insert("Volumes".to_owned(), Value::Object(volumes.collect()));
    let check = match config.get("Healthcheck") {
        Some(Value::Object(check)) => Value::Object(healthcheck(check)),
        _ => Value::Null,
    };
    config.insert("Healthcheck".to_owned(), check);
    config
}

fn healthcheck(given: &Map<String, Value>) -> Map<String, Value> {
    let fields = given.iter().filter_map(|(field, value)| {
        let value = match field.as_str() {
            "Test" => json!(strings(Some(value))?),
            _ => json!(value.as_u64()?),
        };
        Some((field.clone(), value))
    });
    fields.collect()
}

fn host_config(given: Option<&Value>) -> Map<String, Value> {
    let mut config = given.and_then(Value::as_object).cloned().unwrap_or_default();
    for field in ["NetworkMode", "UTSMode", "PidMode", "IpcMode"] {
        text_or_nothing(&mut config, field);
    }
    config.remove("VolumesFrom");
    restart_policy(&mut config);
    let auto_remove = config.get("AutoRemove") == Some(&json!(true));
    config.insert("AutoRemove".to_owned(), json!(auto_remove));
    let ports = Value::Object(entries(&config, "PortBindings").collect());
    config.insert("PortBindings".to_owned(), ports);
    if config.contains_key("Links") {
        let links = strings(config.get("Links"));
        config.insert("Links".to_owned(), json!(links));
    }
    let mut taken = BTreeSet::new();
    let mut binds = strings(config.get("Binds")).unwrap_or_default();
    binds.retain(|bind| is_bind(bind) && taken.insert(clean(bind_destination(bind))));
    config.insert("Binds".to_owned(), json!(binds));
    let mut mounts = config
        .get("Mounts")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    mounts.retain(|mount| is_mount(mount) && taken.insert(clean(text(mount, "/Target"))));
    config.insert("Mounts".to_owned(), json!(mounts));
    config
}

/// A policy that engines accept; they always show it.
fn restart_policy(config: &mut Map<String, Value>) {
    let given = config.get("RestartPolicy").unwrap_or(&Value::Null);
    let name = match text(given, "/Name") {
        name @ ("always" | "unless-stopped" | "on-failure" | "") => name,
        _ => "no",
    };
    let retries = given.get("MaximumRetryCount").and_then(Value::as_u64);
    let retries = retries.filter(|_| name == "on-failure").unwrap_or_default();
    let policy = json!({"Name": name, "MaximumRetryCount": retries});
    config.insert("RestartPolicy".to_owned(), policy);
}

/// Endpoints in the form in which they may be requested.
fn endpoints(container: &Value) -> Map<String, Value> {
    let networks = object(container, "/NetworkSettings/Networks");
    let named = networks
        .into_iter()
        .flatten()
        .filter(|(name, _)| !name.is_empty());
    named
        .map(|(name, endpoint)| {
            let mut endpoint = endpoint.as_object().cloned().unwrap_or_default();
            endpoint.retain(|field, _| field != "MacAddress" && !ENDPOINT_REPORTS.contains(&field.as_str()));
            let aliases = strings(endpoint.get("Aliases"));
            endpoint.insert("Aliases".to_owned(), json!(aliases));
            (name.clone(), Value::Object(endpoint))
        })
        .collect()
}

fn text_or_nothing(config: &mut Map<String, Value>, field: &str) {
    if !config.get(field).is_some_and(Value::is_string) {
        config.remove(field);
    }
}

fn strings(value: Option<&Value>) -> Option<Vec<String>> {
    let entries = value?.as_array()?.iter();
    Some(
        entries
            .filter_map(|entry| entry.as_str().map(str::to_owned))
            .collect(),
    )
}

fn entries(config: &Map<String, Value>, field: &str) -> impl Iterator<Item = (String, Value)> {
    let entries = config.get(field).and_then(Value::as_object).cloned();
    entries.into_iter().flatten()
}

fn is_destination(path: &str) -> bool {
    path.starts_with('/') && clean(path) != clean("/")
}

pub(super) fn is_volume_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

fn is_bind(bind: &str) -> bool {
    let parts: Vec<_> = bind.split(':').collect();
    match parts.as_slice() {
        [destination] => is_destination(destination),
        [source, destination] | [source, destination, _] => {
            is_destination(destination) && (source.starts_with('/') || is_volume_name(source))
        }
        _ => false,
    }
}

fn is_mount(mount: &Value) -> bool {
    let source = mount.get("Source").filter(|source| !source.is_null());
    let named = |source: &Value| {
        source
            .as_str()
            .is_some_and(|name| name.is_empty() || is_volume_name(name))
    };
    let source_fits = match text(mount, "/Type") {
        "volume" => source.is_none_or(named),
        "bind" => source
            .and_then(Value::as_str)
            .is_some_and(|path| path.starts_with('/')),
        "tmpfs" => source.is_none(),
        _ => false,
    };
    source_fits && is_destination(text(mount, "/Target"))
}

/// An image document with the same contents, as far as they make sense.
pub(super) fn image(given: &Value) -> Value {
    let config = Value::Object(config(given.get("Config")));
    let mut image = crate::document::image(&config);
    for field in ["Os", "Architecture"] {
        if let Some(value) = given.get(field).filter(|value| value.is_string()) {
            image[field] = value.clone();
        }
    }
    image
}
