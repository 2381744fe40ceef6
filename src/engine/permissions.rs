//! Every call that is made to an engine, and a way to ask whether it is let through that does nothing: about a container,
//! an image or a network that does not exist. The engine answers that it is not there; a proxy that refuses the call
//! never asks the engine.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::EngineError;
use super::docker::http::Raw;
use crate::container::ApiVersion;

/// For whom a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// For health checks, and so always.
    Watch,
    /// To replace a delegate.
    Upgrade,
    /// To replace some delegates, or for what is told beside; the work goes on without it.
    Some(&'static str),
}

/// A call of the engine's API.
#[derive(Clone, Copy, Debug)]
pub struct Right {
    /// `GET`, `HEAD`, `POST`, `DELETE`.
    pub method: &'static str,
    /// Its path below the version, with `{id}` for a container and `{name}` for an image or a network.
    pub path: &'static str,
    /// What it is for.
    pub need: Need,
    /// Whether it is made where there are health checks only, too: for tags that move, and they go on without it.
    pub compares_tags: bool,
}

const fn right(method: &'static str, path: &'static str, need: Need) -> Right {
    Right {
        method,
        path,
        need,
        compares_tags: false,
    }
}

const fn comparing_tags(right: Right) -> Right {
    Right {
        compares_tags: true,
        ..right
    }
}

/// What those calls are for.
pub const MUTABLE_TAGS: &str = "tags that move";

/// All of them. What is not here is not called.
pub const API_CALLS: [Right; 21] = [
    right("GET", "/version", Need::Watch),
    right("GET", "/containers/json", Need::Watch),
    right("GET", "/containers/{id}/json", Need::Watch),
    comparing_tags(right("GET", "/images/{name}/json", Need::Upgrade)),
    right("POST", "/images/create", Need::Upgrade),
    right("POST", "/containers/create", Need::Upgrade),
    right("POST", "/containers/{id}/start", Need::Upgrade),
    right("POST", "/containers/{id}/stop", Need::Upgrade),
    right("POST", "/containers/{id}/rename", Need::Upgrade),
    right("POST", "/containers/{id}/update", Need::Upgrade),
    right("DELETE", "/containers/{id}", Need::Upgrade),
    right(
        "POST",
        "/networks/{name}/connect",
        Need::Some("delegates on several networks, below API 1.44"),
    ),
    right(
        "POST",
        "/containers/{id}/kill",
        Need::Some("stops, on engines 23.0 to 24.0.2"),
    ),
    comparing_tags(right(
        "GET",
        "/distribution/{name}/json",
        Need::Some(MUTABLE_TAGS),
    )),
    right(
        "GET",
        "/containers/{id}/logs",
        Need::Some("the last words of rejected candidates"),
    ),
    right(
        "GET",
        "/containers/{id}/stats",
        Need::Some("the memory of delegates without a limit"),
    ),
    right(
        "GET",
        "/containers/{id}/changes",
        Need::Some("files that compose copied in"),
    ),
    right(
        "HEAD",
        "/containers/{id}/archive",
        Need::Some("files that compose copied in"),
    ),
    right("GET", "/info", Need::Some("the room on the engine's disk")),
    right(
        "DELETE",
        "/images/{name}",
        Need::Some("the images of replaced and rejected containers"),
    ),
    right(
        "GET",
        "/v1.51/containers/{id}/json",
        Need::Some("an owner's MAC address, from API 1.52"),
    ),
];

/// No engine gives this id away.
const NOBODY: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// No image and no network can be called so, in capitals, and so nobody asks a registry for it.
const NOTHING: &str = "delegate-upgrader/ASKS-FOR-NOTHING";
const LIMIT: Duration = Duration::from_secs(10);

/// Why a call is not let through; `None` where it is.
pub(super) async fn refusal(
    raw: &Raw,
    api: ApiVersion,
    right: &Right,
) -> Result<Option<String>, EngineError> {
    let method = Method::from_bytes(right.method.as_bytes()).unwrap_or(Method::GET);
    let filled: Vec<&str> = right
        .path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .flat_map(|segment| match segment {
            "{id}" => vec![NOBODY],
            "{name}" => NOTHING.split('/').collect(),
            other => vec![other],
        })
        .collect();
    let is_versioned = filled.first().is_some_and(|first| first.starts_with("v1."));
    let mut call = raw.call(method, (!is_versioned).then_some(api), &filled, LIMIT);
    for (name, value) in query(right.path) {
        call = call.query(name, value);
    }
    if let Some(body) = body(right.path) {
        call = call.body(&body);
    }
    match raw.send(call).await {
        Err(EngineError::Refused {
            status: status @ (401 | 403 | 405 | 501 | 502 | 503),
            message,
        }) => {
            // A page often repeats the status.
            let status = status.to_string();
            let words = message.strip_prefix(&status).unwrap_or(&message).trim();
            Ok(Some(format!("{status} {words}").trim().to_owned()))
        }
        Err(error @ (EngineError::Unreachable(_) | EngineError::TimedOut(_))) => Err(error),
        _ => Ok(None),
    }
}

fn query(path: &str) -> &'static [(&'static str, &'static str)] {
    match path {
        "/images/create" => &[("fromImage", NOTHING), ("tag", "none")],
        "/containers/create" | "/containers/{id}/rename" => &[("name", "delegate-upgrader-asks-for-nothing")],
        "/containers/{id}/logs" => &[("stdout", "1"), ("tail", "1")],
        "/containers/{id}/stats" => &[("stream", "false")],
        "/containers/{id}/archive" => &[("path", "/")],
        _ => &[],
    }
}

fn body(path: &str) -> Option<Value> {
    match path {
        "/containers/create" => Some(json!({ "Image": NOTHING })),
        "/containers/{id}/update" => Some(json!({})),
        "/networks/{name}/connect" => Some(json!({ "Container": NOBODY })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;
    use std::sync::{Mutex, PoisonError};
    use std::{env, fs};

    use super::*;

    /// One pattern for each method, as a proxy with rules for methods and paths takes them.
    fn patterns(is_needed: fn(Need) -> bool) -> String {
        let mut lines = String::new();
        for method in ["GET", "HEAD", "POST", "DELETE"] {
            let mut paths: Vec<String> = Vec::new();
            for right in API_CALLS
                .iter()
                .filter(|right| right.method == method && is_needed(right.need))
            {
                let path = right.path.strip_prefix("/v1.51").unwrap_or(right.path);
                let path = path
                    .trim_start_matches('/')
                    .replace("{id}", "[^/]+")
                    .replace("{name}", ".+");
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
            if !paths.is_empty() {
                let _ = writeln!(
                    lines,
                    "      - '-allow{method}=(/v1\\.[0-9]+)?/({})'",
                    paths.join("|")
                );
            }
        }
        format!("\n    command:\n{lines}\n")
    }

    /// Who writes the page writes what is between the other marks, too.
    static PAGE: Mutex<()> = Mutex::new(());

    /// What stands between two marks of the page. With `UPDATE_DOCS=1` it is written anew.
    fn the_page_has(mark: &str, expected: &str) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/usage/permissions.md");
        let _alone = PAGE.lock().unwrap_or_else(PoisonError::into_inner);
        let text = fs::read_to_string(&file).unwrap();
        let (begin, end) = (format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->\n"));
        let (before, rest) = text.split_once(&begin).unwrap();
        let (listed, after) = rest.split_once(&end).unwrap();
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&file, format!("{before}{begin}{expected}{end}{after}")).unwrap();
            return;
        }
        assert_eq!(listed, expected, "UPDATE_DOCS=1 writes it anew");
    }

    #[test]
    fn the_documentation_lists_every_call() {
        let mut table = String::from("| call | needed for |\n|---|---|\n");
        for right in API_CALLS {
            let need = match right.need {
                Need::Watch => "everything",
                Need::Upgrade => "upgrades",
                Need::Some(what) => what,
            };
            let watching = match (right.compares_tags, need) {
                (false, _) => String::new(),
                (true, MUTABLE_TAGS) => ", with health checks only too".to_owned(),
                (true, _) => format!("; with health checks only, {MUTABLE_TAGS}"),
            };
            let _ = writeln!(table, "| `{} {}` | {need}{watching} |", right.method, right.path);
        }
        the_page_has("calls", &table);
    }

    #[test]
    fn the_documentation_has_the_patterns_of_every_call() {
        the_page_has("watch", &patterns(|need| need == Need::Watch));
        the_page_has("upgrade", &patterns(|_| true));
    }
}
