//! The host at the end of a point, and whether it may be in that state.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use kit::lab::LABEL;
use kit::lab::engine::Engine;

/// The label of a container that the upgrader removes once it has ended.
const AUTO_REMOVE: &str = "io.delegate-upgrader.auto-remove";

/// The images that may be in service at the end, and whether a rejected one may be kept.
pub(crate) struct Expected<'a> {
    pub(crate) images: &'a [String],
    pub(crate) failed_allowed: bool,
}

/// The errors of the delegate `name`; none, hopefully. `before` is its document from before the upgrade.
pub(crate) async fn wrongs(
    engine: &Engine,
    name: &str,
    before: &Value,
    expected: &Expected<'_>,
) -> Vec<String> {
    let mut wrongs = Vec::new();
    let mut failed = 0;
    for row in engine.list(name).await {
        if row.name == name {
            continue;
        }
        let is_failed = row.name.starts_with(&format!("{name}.failed-"));
        failed += usize::from(is_failed);
        let stopped = matches!(row.state.as_str(), "exited" | "created");
        if !(is_failed && expected.failed_allowed && stopped && failed == 1) {
            wrongs.push(format!("left over: {} ({})", row.name, row.state));
        }
    }
    let Some(document) = engine.inspect(name).await else {
        wrongs.push(format!("there is no {name}"));
        return wrongs;
    };
    let image = text(&document, "/Config/Image");
    if !expected.images.contains(&image) {
        wrongs.push(format!("it has the image {image}"));
    }
    let state = text(&document, "/State/Status");
    if state != "running" {
        wrongs.push(format!("it is {state}"));
    } else if let Err(problem) = healthy(&document).await {
        wrongs.push(format!("it is not healthy: {problem}"));
    }
    differences("", &configuration(before), &configuration(&document), &mut wrongs);
    wrongs
}

/// The image of the container in service, if there is one.
pub(crate) async fn image_in_service(engine: &Engine, name: &str) -> Option<String> {
    let document = engine.inspect(name).await?;
    (text(&document, "/State/Status") == "running").then(|| text(&document, "/Config/Image"))
}

/// Whether any container of the delegate `name` is up and healthy, whatever its name.
pub(crate) async fn any_works(engine: &Engine, name: &str) -> bool {
    for row in engine.list(name).await {
        if let Some(document) = engine.inspect(&row.id).await
            && text(&document, "/State/Status") == "running"
            && healthy(&document).await.is_ok()
        {
            return true;
        }
    }
    false
}

pub(crate) fn text(document: &Value, pointer: &str) -> String {
    let text = document.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// Asks the delegate itself.
pub(crate) async fn healthy(document: &Value) -> Result<(), String> {
    let networks = document
        .pointer("/NetworkSettings/Networks")
        .and_then(Value::as_object);
    let address = networks
        .into_iter()
        .flat_map(|networks| networks.values())
        .map(|network| text(network, "/IPAddress"))
        .find(|address| !address.is_empty())
        .ok_or("it has no address")?;
    let ask = async {
        let mut stream = TcpStream::connect((address.as_str(), 3460)).await?;
        stream.write_all(b"GET /api/health HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = match timeout(Duration::from_secs(5), ask).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err("no answer".to_owned()),
    };
    let status = answer.split(' ').nth(1).unwrap_or_default();
    if status == "200" {
        Ok(())
    } else {
        Err(format!("it answers {status:?}"))
    }
}

/// The configuration that a container got, without its image's values and the values that each container has for itself.
/// A successor has a label instead of `--rm`.
fn configuration(document: &Value) -> Value {
    let auto_remove =
        document["HostConfig"]["AutoRemove"] == true || document["Config"]["Labels"][AUTO_REMOVE] == "true";
    let id = text(document, "/Id");
    let own = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        text.len() >= 12 && id.starts_with(text)
    };
    let mut config = document["Config"].clone();
    if let Some(config) = config.as_object_mut() {
        config.remove("Image");
        if config.get("Hostname").is_some_and(own) {
            config.remove("Hostname");
        }
        if let Some(labels) = config.get_mut("Labels").and_then(Value::as_object_mut) {
            labels.retain(|label, _| label == LABEL || !label.starts_with("io.delegate-upgrader."));
        }
        if let Some(variables) = config.get_mut("Env").and_then(Value::as_array_mut) {
            variables.retain(|variable| {
                let text = variable.as_str().unwrap_or_default();
                !text.starts_with("DELEGATE_IMAGE_VERSION=")
            });
            variables.sort_by_key(Value::to_string);
        }
    }
    let mut networks = document["NetworkSettings"]["Networks"].clone();
    for network in networks
        .as_object_mut()
        .into_iter()
        .flat_map(|all| all.values_mut())
    {
        let mut aliases = network["Aliases"].as_array().cloned().unwrap_or_default();
        aliases.retain(|alias| !own(alias));
        *network = json!({
            "Aliases": aliases,
            "IPAMConfig": network["IPAMConfig"],
            "Links": network["Links"],
            "DriverOpts": network["DriverOpts"],
        });
    }
    let mut host_config = document["HostConfig"].clone();
    host_config["AutoRemove"] = json!(auto_remove);
    json!({
        "Config": config,
        "HostConfig": host_config,
        "Mounts": document["Mounts"],
        "Networks": networks,
    })
}

fn differences(path: &str, was: &Value, is: &Value, found: &mut Vec<String>) {
    if let (Some(a), Some(b)) = (was.as_object(), is.as_object()) {
        for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
            differences(&format!("{path}/{key}"), &was[key], &is[key], found);
        }
    } else if was != is && !(is_nothing(was) && is_nothing(is)) {
        found.push(format!("{path} was {was} and is {is}"));
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
