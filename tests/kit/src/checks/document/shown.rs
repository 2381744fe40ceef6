//! The inspect document of a created container, with the volumes that the engine made for it.

use delegate_upgrader::document::CreateRequest;
use serde_json::{Value, json};

use super::paths::{bind_destination, clean};
use super::{list, object, text};
use crate::document as engine;

/// The inspect document of a container with this id and body, from an image with this `Config`.
pub(super) fn created(id: &str, body: &Value, image: &Value) -> Value {
    let mut shown = engine::inspect(id, body, &image["Config"]);
    if text(&shown, "/HostConfig/UTSMode") == "host" {
        shown["Config"]["Hostname"] = json!("the-hosts-own");
    }
    // Until API 1.52, the address appears in the field in which it was given up to API 1.43.
    let given = object(body, "/NetworkingConfig/EndpointsConfig")
        .into_iter()
        .flatten()
        .find_map(|(_, endpoint)| endpoint.get("MacAddress"));
    if let Some(mac) = given {
        shown["Config"]["MacAddress"] = mac.clone();
    }
    shown["Mounts"] = Value::from(mounts(id, &shown));
    shown
}

/// The inspect document of a successor that is connected to all of its networks.
pub(super) fn connected(id: &str, made: &CreateRequest, image: &Value) -> Value {
    let mut body = made.body.clone();
    for (network, endpoint) in &made.connect {
        body["NetworkingConfig"]["EndpointsConfig"][network] = endpoint.clone();
    }
    created(id, &body, image)
}

/// Binds, then mounts, then the configuration's volumes at paths without a mount.
fn mounts(id: &str, shown: &Value) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    let volume = |name: &str, destination: &str, writable: bool| {
        // The engine names volumes without a name.
        let name = match name {
            "" => format!("made-for-{}-{}", &id[..12], destination.replace('/', "-")),
            name => name.to_owned(),
        };
        json!({
            "Type": "volume", "Name": name, "Destination": clean(destination), "RW": writable,
            "Source": format!("/var/lib/docker/volumes/{name}/_data"),
        })
    };
    let plain = |kind: &str, source: &Value, destination: &str, writable: bool| json!({"Type": kind, "Source": source, "Destination": clean(destination), "RW": writable});
    for bind in list(shown, "/HostConfig/Binds").iter().filter_map(Value::as_str) {
        let destination = bind_destination(bind);
        let source = bind.split(':').next().filter(|_| bind.contains(':'));
        let writable = bind
            .split(':')
            .nth(2)
            .is_none_or(|options| !options.split(',').any(|option| option == "ro"));
        all.push(match source {
            Some(path) if path.starts_with('/') => plain("bind", &json!(path), destination, writable),
            name => volume(name.unwrap_or_default(), destination, writable),
        });
    }
    for mount in list(shown, "/HostConfig/Mounts") {
        let (target, writable) = (text(mount, "/Target"), mount["ReadOnly"] != json!(true));
        all.push(match text(mount, "/Type") {
            "volume" => volume(text(mount, "/Source"), target, writable),
            kind => plain(kind, &mount["Source"], target, writable),
        });
    }
    for path in object(shown, "/Config/Volumes")
        .into_iter()
        .flatten()
        .map(|(path, _)| path)
    {
        let is_taken = |mount: &Value| mount["Destination"] == json!(clean(path));
        if !all.iter().any(is_taken) {
            all.push(volume("", path, true));
        }
    }
    all
}
