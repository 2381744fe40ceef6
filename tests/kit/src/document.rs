//! The part of an engine that these tests need: the result of a create body, modelled on `daemon/commit.go` (`merge`) and
//! `daemon/create.go`, independently of the code under test.

use delegate_upgrader::container::Inspected;
use serde_json::{Map, Value, json};

/// The configuration of a container created with `owner` from an image with `defaults`.
pub fn merge(owner: &Value, defaults: &Value) -> Value {
    let mut config = owner.clone();
    for field in ["User", "WorkingDir", "StopSignal"] {
        if config[field].as_str().unwrap_or_default().is_empty() {
            config[field] = json!(defaults[field].as_str().unwrap_or_default());
        }
    }
    for field in ["ExposedPorts", "Volumes", "Labels"] {
        let mut all = object(&defaults[field]);
        all.extend(object(&config[field]));
        config[field] = Value::Object(all);
    }
    let own = strings(&config["Env"]);
    let mut env = own.clone();
    for entry in strings(&defaults["Env"]) {
        if own.is_empty() || !env.iter().any(|other| name(other) == name(&entry)) {
            env.push(entry);
        }
    }
    config["Env"] = json!(env);
    if strings(&config["Entrypoint"]).is_empty() {
        if strings(&config["Cmd"]).is_empty() {
            config["Cmd"] = defaults["Cmd"].clone();
        }
        if config["Entrypoint"].is_null() {
            config["Entrypoint"] = defaults["Entrypoint"].clone();
        }
    }
    if config["Entrypoint"] == json!([""]) {
        config["Entrypoint"] = Value::Null;
    }
    if config["Healthcheck"].is_null() {
        config["Healthcheck"] = defaults["Healthcheck"].clone();
    } else if defaults["Healthcheck"].is_object() {
        for (field, value) in object(&defaults["Healthcheck"]) {
            let own = &mut config["Healthcheck"][&field];
            if own.is_null() || *own == json!(0) || *own == json!([]) {
                *own = value;
            }
        }
    }
    config
}

/// The inspect document of a container with this id, created from `body` and an image with `defaults`.
pub fn inspect(id: &str, body: &Value, defaults: &Value) -> Value {
    let mut owner = body.clone();
    let host_config = object(&owner["HostConfig"].take());
    let networking = owner["NetworkingConfig"].take();
    let owner = object(&owner)
        .into_iter()
        .filter(|(field, _)| field != "HostConfig" && field != "NetworkingConfig")
        .collect::<Map<_, _>>();
    let mut config = merge(&Value::Object(owner), defaults);
    if config["Hostname"].as_str().unwrap_or_default().is_empty() {
        config["Hostname"] = json!(id[..12]);
    }
    let mut networks = object(&networking["EndpointsConfig"]);
    for endpoint in networks.values_mut() {
        endpoint["EndpointID"] = json!(format!("endpoint-of-{id}"));
        endpoint["IPAddress"] = json!("172.17.0.2");
        let mut aliases = strings(&endpoint["Aliases"]);
        aliases.push(id[..12].to_owned());
        endpoint["Aliases"] = json!(aliases);
    }
    json!({
        "Id": id,
        "Config": config,
        "HostConfig": host_config,
        "NetworkSettings": {"Networks": networks},
        "Mounts": [],
    })
}

/// A document with an id, in the form that the code under test accepts.
pub fn inspected(document: &Value) -> Inspected {
    Inspected::new(document.clone()).unwrap()
}

/// An image document with these defaults.
pub fn image(defaults: &Value) -> Value {
    json!({"Id": "sha256:0", "Os": "linux", "Architecture": "amd64", "Config": defaults})
}

pub fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

pub fn strings(value: &Value) -> Vec<String> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.as_str().map(str::to_owned))
        .collect()
}

fn name(entry: &str) -> &str {
    entry.split('=').next().unwrap_or_default()
}
