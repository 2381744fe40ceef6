//! `status` and `healthcheck`: the clients of the running daemon.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use chrono::Utc;

use super::environment::Variables;
use super::{Exit, fail, print};
use crate::config::Settings;
use crate::health::http::plain_client;
use crate::net::innermost;
use crate::status::Status;
use crate::status::table::Look;
use crate::status::terminal;
use crate::status::view::{Headline, Tone};

/// How often `status --watch` asks.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

/// The daemon's answer, or what to print and the exit.
async fn get(address: SocketAddr, path: &str) -> Result<String, (String, Exit)> {
    let address = reachable(address);
    let unreachable = |error: reqwest::Error| {
        let cause = innermost(&error);
        let problem = format!("the daemon does not answer at {address} (LISTEN_ADDR): {cause}");
        (problem, Exit::Unavailable)
    };
    let client = plain_client().map_err(unreachable)?;
    let url = format!("http://{address}{path}");
    let answer = client.get(url).send().await.map_err(unreachable)?;
    let status = answer.status();
    let text = answer.text().await.map_err(unreachable)?;
    if status.is_success() {
        Ok(text)
    } else {
        let problem = format!("the daemon answers {status}: {}", text.trim());
        Err((problem, Exit::Unavailable))
    }
}

/// A server that listens on every address is reached at the loopback one.
fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port())
    } else {
        address
    }
}

/// `LISTEN_ADDR`.
fn listen(variables: Variables) -> Result<SocketAddr, (String, Exit)> {
    Settings::listen_from_env(variables).map_err(|errors| (errors.to_string(), Exit::Config))
}

/// Whether a daemon runs at `LISTEN_ADDR`.
pub(super) async fn daemon_answers(listen: SocketAddr) -> bool {
    get(listen, "/livez").await.is_ok()
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
    let text = get(address, "/status")
        .await
        .map_err(|(problem, exit)| fail(problem, exit))?;
    let malformed = |problem| fail(problem, Exit::Unavailable);
    let printed = if json {
        print(text.trim_end())
    } else {
        print(&shown(&text).map_err(malformed)?)
    };
    if !check || printed != Exit::Ok {
        return Ok(printed);
    }
    let tone = Headline::of(&read(&text).map_err(malformed)?, Utc::now()).tone;
    Ok(if matches!(tone, Tone::Good | Tone::Busy) {
        Exit::Ok
    } else {
        Exit::NotServed
    })
}

/// Shows the state again and again, in place. The signal that ends it ends the process, as that of any client.
pub(super) async fn watch(variables: Variables) -> Result<Exit, Exit> {
    let address = listen(variables).map_err(|(problem, exit)| fail(problem, exit))?;
    loop {
        let answer = get(address, "/status").await.map_err(|(problem, _)| problem);
        let shown = answer
            .and_then(|text| shown(&text))
            .unwrap_or_else(|problem| problem);
        // To the top, each line with what was behind it cleared, and all that was below.
        let exit = print(&format!(
            "\x1b[H{}\x1b[K\n\x1b[J",
            shown.replace('\n', "\x1b[K\n")
        ));
        if exit != Exit::Ok {
            return Ok(exit);
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// The daemon's answer as lines for a terminal.
fn shown(answer: &str) -> Result<String, String> {
    Ok(terminal::text(&read(answer)?, Look::of_stdout(), Utc::now()))
}

fn read(answer: &str) -> Result<Status, String> {
    serde_json::from_str(answer).map_err(|error| format!("cannot read the daemon's answer: {error}"))
}
