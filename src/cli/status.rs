//! `status` and `healthcheck`: the commands that query the running daemon.

use std::io::IsTerminal as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use super::environment::Variables;
use super::{Exit, fail, print, print_json};
use crate::config::Settings;
use crate::health::http::plain_client;
use crate::net::innermost;
use crate::status::layout::Look;
use crate::text::one_line;

const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// How long the other commands wait for the daemon's answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most bytes to read of an answer, since another program may listen at the address.
const LONGEST: usize = 16 << 20;

/// The daemon's answer.
///
/// # Errors
/// The problem.
async fn get(address: SocketAddr, path: &str) -> Result<String, String> {
    let address = reachable(address);
    let unreachable = |error: reqwest::Error| {
        let cause = innermost(&error);
        let there = "a daemon in a container answers there: `docker exec NAME delegate-upgrader status`";
        format!("the daemon does not answer at {address} (LISTEN_ADDR): {cause}; {there}")
    };
    let client = plain_client().map_err(unreachable)?;
    let url = format!("http://{address}{path}");
    let mut answer = client.get(url).send().await.map_err(unreachable)?;
    let (status, mut text) = (answer.status(), Vec::new());
    while text.len() < LONGEST
        && let Some(chunk) = answer.chunk().await.map_err(unreachable)?
    {
        text.extend_from_slice(&chunk);
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    if status.is_success() {
        Ok(text)
    } else {
        Err(format!("the daemon answers {status}: {}", text.trim()))
    }
}

/// The loopback address if the server listens on all addresses, and otherwise the server's own address.
fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port())
    } else {
        address
    }
}

/// The address in `LISTEN_ADDR`, or the exit after the problem was printed.
fn listen(variables: Variables) -> Result<SocketAddr, Exit> {
    Settings::listen_from_env(variables).map_err(|errors| fail(errors, Exit::Config))
}

/// The state of the daemon at `LISTEN_ADDR`; `None` if it does not answer within two seconds, or another program answers.
pub(super) async fn daemon_state(listen: SocketAddr) -> Option<Value> {
    let answer = timeout(PATIENCE, get(listen, "/status")).await.ok()?.ok()?;
    let state: Value = serde_json::from_str(&answer).ok()?;
    state["all_well"].is_boolean().then_some(state)
}

pub(super) async fn healthcheck(variables: Variables) -> Exit {
    let answer = match Settings::listen_from_env(variables) {
        Ok(address) => get(address, "/livez").await,
        Err(errors) => Err(errors.to_string()),
    };
    // Docker expects 1 for every failure.
    answer.map_or_else(|problem| fail(problem, Exit::NotServed), |_| Exit::Ok)
}

/// Whether an operator means this delegate of a daemon's answer: by its name, or by its id.
pub(super) fn is_named(delegate: &Value, given: &str) -> bool {
    let id = delegate["container_id"].as_str();
    let has_id = id.is_some_and(|id| !id.is_empty() && (given.starts_with(id) || id.starts_with(given)));
    delegate["container"] == given || given.len() >= 4 && has_id
}

/// Prints everything that the daemon knows about one delegate.
fn one(state: &Value, given: &str, json: bool, check: bool) -> Result<Exit, Exit> {
    let report = &state["report"];
    let lists = ["delegates", "not_delegates"].map(|list| report[list].as_array());
    let upgrader = report.get("upgrader").filter(|upgrader| upgrader.is_object());
    let rows: Vec<&Value> = lists.into_iter().flatten().flatten().chain(upgrader).collect();
    let Some(found) = rows.iter().find(|delegate| is_named(delegate, given)) else {
        let names = rows.iter().filter_map(|delegate| delegate["container"].as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        return Err(fail(
            format!("no managed delegate {given:?}; managed: {names}"),
            Exit::Usage,
        ));
    };
    let is_old = state["engine_error"].is_string();
    let printed = if json {
        print_json(found)
    } else {
        let mut lines = Vec::new();
        // Without the engine, the rest is what was seen last.
        for field in ["engine_error", "observed_at"] {
            flatten(
                field,
                state.get(field).or(report.get(field)).unwrap_or(&Value::Null),
                &mut lines,
            );
        }
        flatten("", found, &mut lines);
        print(&lines.join("\n"))
    };
    match printed {
        Exit::Ok if check && (found["health"] != "healthy" || found["failed"] == true || is_old) => {
            Ok(Exit::NotServed)
        }
        printed => Ok(printed),
    }
}

/// The values in a JSON document, one a line, after the names that lead to each.
fn flatten(name: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                flatten(format!("{name} {field}").trim_start(), value, lines);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| flatten(name, value, lines)),
        Value::Null => {}
        Value::String(text) => lines.push(format!("{name:24}{}", one_line(text, LONGEST))),
        other => lines.push(format!("{name:24}{other}")),
    }
}

pub(super) async fn status(
    variables: Variables,
    container: Option<&str>,
    json: bool,
    check: bool,
) -> Result<Exit, Exit> {
    let address = listen(variables)?;
    let failed = |problem| fail(problem, Exit::Unavailable);
    let text = get(address, "/status").await.map_err(failed)?;
    let unread = |error| failed(format!("cannot read the daemon's answer: {error}"));
    let state: Value = serde_json::from_str(&text).map_err(unread)?;
    if let Some(container) = container {
        return one(&state, container, json, check);
    }
    let shown = if json {
        text
    } else {
        get(address, &lines()).await.map_err(failed)?
    };
    let printed = print(shown.trim_end());
    if !check || printed != Exit::Ok {
        return Ok(printed);
    }
    Ok(if state["all_well"] == true {
        Exit::Ok
    } else {
        Exit::NotServed
    })
}

/// Shows the state every two seconds until a signal ends the process. On a terminal, each replaces the last.
pub(super) async fn watch(variables: Variables) -> Result<Exit, Exit> {
    let address = listen(variables)?;
    loop {
        let (Ok(shown) | Err(shown)) = get(address, &lines()).await;
        let shown = shown.trim_end();
        let exit = print(&if std::io::stdout().is_terminal() {
            // Move the cursor to the top, clear the rest of each line, and clear everything below.
            format!("\x1b[H{}\x1b[K\n\x1b[J", shown.replace('\n', "\x1b[K\n"))
        } else {
            format!("{shown}\n")
        });
        if exit != Exit::Ok {
            return Ok(exit);
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// The path of the daemon's state as text that fits this terminal.
fn lines() -> String {
    format!("/status.txt?{}", Look::of_stdout().query())
}
