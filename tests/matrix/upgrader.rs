//! The upgrader as a process behind a proxy, which may ask for its death.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use crate::proxy::Proxy;
use crate::scenario::{Scenario, Successor};
use crate::story::Story;
use kit::lab::static_binary;

/// A run that takes longer hangs. Against a lasting fault, a run gives up after five minutes, and must then clean up, on a
/// machine with all the other runs.
const LONGEST: Duration = Duration::from_secs(600);

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(Option<i32>),
    Killed,
    Hung,
}

/// The audit log of the upgraders behind this proxy.
pub(crate) fn audit_log(proxy: &Proxy) -> PathBuf {
    proxy.socket.with_extension("audit")
}

/// Runs `delegate-upgrader once` for the delegates of this name; its output is part of the story.
pub(crate) async fn once(name: &str, scenario: Scenario, proxy: &Proxy, story: &Arc<Story>) -> Ended {
    let healthy_deadline = match scenario.successor {
        // No machine is this slow, and no engine is away for this long.
        Successor::Good => "5m",
        Successor::NeverHealthy | Successor::Crashes => "6s",
    };
    let mut child = Command::new(static_binary("delegate-upgrader"))
        .arg("once")
        .env_clear()
        .env("DOCKER_HOST", format!("unix://{}", proxy.socket.display()))
        .env("UPGRADER_WORKLOAD_NAME", name)
        .env("PUBLISHED_IMAGE", scenario.published())
        .env("UPGRADE_HEALTHY_TIME", "1s")
        .env("UPGRADE_HEALTHY_DEADLINE", healthy_deadline)
        .env("HEALTH_INTERVAL", "1s")
        .env("AUDIT_LOG", audit_log(proxy))
        .env("CONTAINER_STOP_TIMEOUT", "60s")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the upgrader starts");
    listen(child.stdout.take(), story);
    listen(child.stderr.take(), story);
    let end = async {
        tokio::select! {
            status = child.wait() => Ended::Exited(status.expect("a child of ours").code()),
            () = proxy.shared.kill.notified() => {
                let _ = child.start_kill();
                let _ = child.wait().await;
                proxy.shared.dead.notify_one();
                Ended::Killed
            }
        }
    };
    timeout(LONGEST, end).await.unwrap_or(Ended::Hung)
}

fn listen(output: Option<impl AsyncRead + Unpin + Send + 'static>, story: &Arc<Story>) {
    let story = Arc::clone(story);
    let Some(output) = output else { return };
    tokio::spawn(async move {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            story.tell(format_args!("  | {line}"));
        }
    });
}
