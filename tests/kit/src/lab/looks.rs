//! The engine's view of containers. A test looks several times a second, for which the `docker` command would need more
//! processor time than all upgraders together, so the tests ask the engine itself.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::engine::engine_socket;
use super::{eventually, wire};

/// Status and body of the engine's answer to a request.
fn ask(path: &str) -> io::Result<(u16, String)> {
    wire::exchange(&mut UnixStream::connect(engine_socket())?, "docker", path)
}

/// The containers in the engine's list that match a filter, with further parameters of the query.
pub(super) fn listed(parameters: &str, filter: &str, value: &str) -> Vec<Value> {
    let filters = serde_json::json!({ filter: [value] }).to_string();
    let encoded: Vec<String> = filters.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let encoded = encoded.concat();
    let (status, body) =
        ask(&format!("containers/json?{parameters}filters={encoded}")).expect("the engine answers");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("a list")
}

/// The name in a row of the list; the names of links to it contain another name before it.
pub(super) fn name(row: &Value) -> &str {
    let mut names = row["Names"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    names
        .find_map(|name| name.strip_prefix('/').filter(|name| !name.contains('/')))
        .unwrap_or_default()
}

/// The names, images and addresses of the running containers that match a filter.
pub fn running(filter: &str, value: &str) -> Vec<(String, String, Option<String>)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let addresses = |row: &Value| {
        let networks = row["NetworkSettings"]["Networks"].as_object();
        let addresses = networks.into_iter().flatten();
        addresses
            .map(|(_, network)| text(&network["IPAddress"]))
            .find(|address| !address.is_empty())
    };
    listed("", filter, value)
        .iter()
        .map(|row| (name(row).to_owned(), text(&row["Image"]), addresses(row)))
        .collect()
}

/// A container's document, if there is such a container.
fn document(name: &str) -> Option<Value> {
    let (status, body) = ask(&format!("containers/{name}/json")).expect("the engine answers");
    match status {
        200 => Some(serde_json::from_str(&body).expect("a document")),
        404 => None,
        _ => panic!("{name}: {status} {body}"),
    }
}

pub fn inspect(name: &str) -> Value {
    document(name).unwrap_or_else(|| panic!("there is no container {name}"))
}

/// The facts that tell one life of one container from another.
pub fn life(name: &str) -> (String, String, bool, String) {
    let container = inspect(name);
    let text = |pointer| {
        let text = container.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    (
        text("/Id"),
        text("/State/StartedAt"),
        container["State"]["Running"] == true,
        text("/HostConfig/RestartPolicy/Name"),
    )
}

pub fn image_of(name: &str) -> String {
    let image = inspect(name)["Config"]["Image"].clone();
    image.as_str().unwrap_or_default().to_owned()
}

/// Waits until a container no longer runs, or is gone. Returns the time from the engine, if the container still exists.
pub fn end_of(id: &str, limit: Duration) -> DateTime<Utc> {
    let mut finished_at = None;
    eventually(&format!("{id} has ended"), limit, || {
        let Some(container) = document(id) else {
            return true;
        };
        let state = &container["State"];
        let ended = state["FinishedAt"].as_str().filter(|_| state["Running"] == false);
        finished_at = ended.and_then(|time| time.parse().ok());
        finished_at.is_some()
    });
    finished_at.unwrap_or_else(Utc::now)
}
