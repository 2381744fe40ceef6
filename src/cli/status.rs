//! `status` and `healthcheck`: the commands that query the running daemon.

use std::io::IsTerminal as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use super::environment::Variables;
use super::{Exit, fail, print};
use crate::config::Settings;
use crate::health::http::plain_client;
use crate::net::innermost;
use crate::status::layout::Look;

/// The interval of `status --watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// How long the other commands wait for the daemon's answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most bytes to read of an answer, since another program may listen at the address.
const LONGEST: usize = 16 << 20;

/// The daemon's answer, or the problem to print and the exit.
async fn get(address: SocketAddr, path: &str) -> Result<String, (String, Exit)> {
    let address = reachable(address);
    let unreachable = |error: reqwest::Error| {
        let cause = innermost(&error);
        let problem = format!("the daemon does not answer at {address} (LISTEN_ADDR): {cause}");
        (problem, Exit::Unavailable)
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
        let problem = format!("the daemon answers {status}: {}", text.trim());
        Err((problem, Exit::Unavailable))
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

/// The address in `LISTEN_ADDR`.
fn listen(variables: Variables) -> Result<SocketAddr, (String, Exit)> {
    Settings::listen_from_env(variables).map_err(|errors| (errors.to_string(), Exit::Config))
}

/// The state of the daemon at `LISTEN_ADDR`; `None` if it does not answer within two seconds, or another program answers.
pub(super) async fn daemon_state(listen: SocketAddr) -> Option<Value> {
    let answer = timeout(PATIENCE, get(listen, "/status")).await.ok()?.ok()?;
    let state: Value = serde_json::from_str(&answer).ok()?;
    state["all_well"].is_boolean().then_some(state)
}

pub(super) async fn healthcheck(variables: Variables) -> Exit {
    let answer = match listen(variables) {
        Ok(address) => get(address, "/livez").await,
        Err(problem) => Err(problem),
    };
    match answer {
        Ok(_) => Exit::Ok,
        // Docker expects 1 for every failure.
        Err((problem, _)) => fail(problem, Exit::NotServed),
    }
}

pub(super) async fn status(variables: Variables, json: bool, check: bool) -> Result<Exit, Exit> {
    let address = listen(variables).map_err(|(problem, exit)| fail(problem, exit))?;
    let failed = |(problem, exit)| fail(problem, exit);
    let text = get(address, "/status").await.map_err(failed)?;
    let state: Value = serde_json::from_str(&text).map_err(|error| {
        let problem = format!("cannot read the daemon's answer: {error}");
        fail(problem, Exit::Unavailable)
    })?;
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
    let address = listen(variables).map_err(|(problem, exit)| fail(problem, exit))?;
    loop {
        let shown = get(address, &lines()).await;
        let shown = shown.unwrap_or_else(|(problem, _)| problem);
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
