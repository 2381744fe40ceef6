//! `status` and `healthcheck`: the clients of the running daemon.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use chrono::Utc;

use super::{Exit, fail, print};
use crate::config::Settings;
use crate::health::http::plain_client;
use crate::net::innermost;
use crate::status::table::Look;
use crate::status::terminal;

/// How often `status --watch` asks.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

/// The daemon's answer, or what to print and the exit.
async fn get(path: &str) -> Result<String, (String, Exit)> {
    let address = Settings::listen_from_process_env().map_err(|errors| (errors.to_string(), Exit::Config))?;
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

/// Whether a daemon runs at `LISTEN_ADDR`.
pub(super) async fn daemon_answers() -> bool {
    get("/livez").await.is_ok()
}

pub(super) async fn healthcheck() -> Exit {
    match get("/livez").await {
        Ok(_) => Exit::Ok,
        // Docker expects 1 for every failure.
        Err((problem, _)) => fail(problem, Exit::NotServed),
    }
}

pub(super) async fn status(json: bool) -> Result<Exit, Exit> {
    let text = get("/status")
        .await
        .map_err(|(problem, exit)| fail(problem, exit))?;
    if json {
        return Ok(print(text.trim_end()));
    }
    let shown = shown(&text).map_err(|problem| fail(problem, Exit::Unavailable))?;
    Ok(print(&shown))
}

/// Shows the state again and again, in place. The signal that ends it ends the process, as that of any client.
pub(super) async fn watch() -> Exit {
    loop {
        let answer = get("/status").await.map_err(|(problem, _)| problem);
        let shown = answer
            .and_then(|text| shown(&text))
            .unwrap_or_else(|problem| problem);
        // To the top, each line with what was behind it cleared, and all that was below.
        let exit = print(&format!(
            "\x1b[H{}\x1b[K\n\x1b[J",
            shown.replace('\n', "\x1b[K\n")
        ));
        if exit != Exit::Ok {
            return exit;
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// The daemon's answer as lines for a terminal.
fn shown(answer: &str) -> Result<String, String> {
    let status =
        serde_json::from_str(answer).map_err(|error| format!("cannot read the daemon's answer: {error}"))?;
    Ok(terminal::text(&status, Look::of_stdout(), Utc::now()))
}
