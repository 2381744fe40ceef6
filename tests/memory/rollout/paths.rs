//! Replays the examples of docs/development/rollout.md: each decision, its row, and the Docker calls for it.

use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kit::page;
use kit::twin::{Behaviour, Call, Fault, Operation, OperatorAction, Twin, Wellness};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use super::faults::killed_when;
use super::health_restarts::live;
use super::host::{HOUR, Host, NEW, OLD, auto_remove, host_network};
use super::upgraders::{EXCHANGE, World, ready};

/// One decision, as the log shows it, and the number of writes before it.
#[derive(Clone, Debug, Default)]
struct Logged {
    row: Option<String>,
    decision: String,
    topic: Option<String>,
    writes_before: usize,
}

impl Visit for Logged {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "decision" => value.clone_into(&mut self.decision),
            "topic" => self.topic = Some(value.to_owned()),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "row" {
            self.row = Some(format!("{value:?}"));
        }
    }
}

/// Records the logged decisions.
#[derive(Clone)]
struct Decisions {
    twin: Twin,
    logged: Arc<Mutex<Vec<Logged>>>,
}

impl<S: Subscriber> Layer<S> for Decisions {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut logged = Logged::default();
        event.record(&mut logged);
        if logged.row.is_some() {
            logged.writes_before = self.twin.writes().len();
            self.logged.lock().unwrap().push(logged);
        }
    }
}

/// A call in the form of a command that a user could type.
fn command(call: &Call) -> String {
    let (subject, detail) = (undated(&call.subject), undated(&call.detail));
    let seconds = detail.trim_end_matches('s');
    match call.operation {
        Operation::Pull => format!("docker pull {subject}"),
        Operation::Create => format!("docker create --name {subject} … {detail}"),
        Operation::Start => format!("docker start {subject}"),
        Operation::Stop => format!("docker stop -t {seconds} {subject}"),
        Operation::Restart => format!("docker restart -t {seconds} {subject}"),
        Operation::Rename => format!("docker rename {subject} {detail}"),
        Operation::SetRestartPolicy => format!("docker update --restart {detail} {subject}"),
        Operation::Remove => format!("docker rm {subject}"),
        Operation::CreateVolume => format!("docker volume create {subject}"),
        Operation::RemoveImage => format!("docker rmi {subject}"),
        Operation::Connect => format!("docker network connect {detail} {subject}"),
        operation => panic!("{operation:?} changes nothing"),
    }
}

/// A name without its second or id.
fn undated(name: &str) -> String {
    for part in [".draining-", ".withdrawn-", ".rejected-", ".trial-"] {
        if let Some((base, _)) = name.split_once(part) {
            return format!("{base}{part}…");
        }
    }
    name.to_owned()
}

/// Asserts that the decisions of this work, from this row on, equal the example on the page.
async fn replay<T>(twin: &Twin, mark: &str, from: &str, work: impl Future<Output = T>) {
    // Other tests run at the same time without a subscriber: see `log_of`.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
    let decisions = Decisions {
        twin: twin.clone(),
        logged: Arc::default(),
    };
    let subscriber = tracing_subscriber::registry().with(decisions.clone());
    let guard = tracing::subscriber::set_default(subscriber);
    work.await;
    drop(guard);
    let (logged, calls) = (decisions.logged.lock().unwrap().clone(), twin.writes());
    let mut table = String::from("| row | decision | Docker |\n|---|---|---|\n");
    let first = logged.iter().position(|entry| entry.row.as_deref() == Some(from));
    let first = first.unwrap_or_else(|| panic!("no {from} in {logged:#?}"));
    for (index, entry) in logged.iter().enumerate().skip(first) {
        let commands = calls.iter().enumerate().filter(|(number, call)| {
            let last = logged.iter().rposition(|entry| entry.writes_before <= *number);
            // A pull runs during the next decision.
            let last = last.map(|last| last - usize::from(call.operation == Operation::Pull));
            last == Some(index)
        });
        let commands: Vec<String> = commands.map(|(_, call)| format!("`{}`", command(call))).collect();
        let row = entry.row.as_deref().unwrap_or_default();
        let topic = entry.topic.as_ref().map(|topic| format!(" ({topic})"));
        let (decision, topic) = (&entry.decision, topic.unwrap_or_default());
        let _ = writeln!(table, "| `{row}` | {decision}{topic} | {} |", commands.join(", "));
    }
    page::has("docs/development/rollout.md", mark, &table);
}

#[tokio::test(start_paused = true)]
async fn start_first() {
    let host = Host::new();
    host.run("dd");
    replay(&host.twin, "start-first", "obstacle_unknown", host.once(NEW)).await;
}

/// Docker answers 500 to the create call once.
#[tokio::test(start_paused = true)]
async fn guards() {
    let host = Host::new();
    host.run("dd");
    let mut creates = 0;
    host.fault_where(Fault::Refuse(500), move |call| {
        creates += usize::from(call.operation == Operation::Create);
        call.operation == Operation::Create && creates == 1
    });
    let mut upgrader = host.starting(NEW);
    let begin = host.continue_for(&mut upgrader, Duration::from_secs(6));
    replay(&host.twin, "example-guards", "create", begin).await;
}

/// A candidate never becomes healthy.
#[tokio::test(start_paused = true)]
async fn failed_and_withdrawn() {
    let host = Host::new();
    host.run("dd");
    host.publish(NEW, Behaviour::never_healthy());
    let mark = "example-failed-and-withdrawn";
    replay(&host.twin, mark, "candidate_start", host.once(NEW)).await;
}

/// The upgrader was killed right after the commit, and starts again.
#[tokio::test(start_paused = true)]
async fn old_ones() {
    let host = Host::new();
    host.run("dd");
    let is_drain = |call: &Call| call.detail.starts_with("dd.draining-");
    assert!(killed_when(&host, is_drain).await);
    replay(&host.twin, "example-old", "retired_drain", host.once(NEW)).await;
}

/// The successor of a delegate with `--rm` is stopped by its owner.
#[tokio::test(start_paused = true)]
async fn in_service() {
    let host = Host::new();
    host.run_with("dd", auto_remove);
    let mut upgrader = host.upgrader(NEW);
    host.scheduled_run(&mut upgrader).await;
    host.by_hand(OperatorAction::Kill, "dd");
    let rest = host.finish(&mut upgrader);
    replay(&host.twin, "example-in-service", "auto_remove", rest).await;
}

#[tokio::test(start_paused = true)]
async fn unhealthy() {
    let mut host = Host::new();
    host.settings.policy.restarts_unhealthy = true;
    let health = Wellness::For(Duration::from_secs(300));
    host.twin.set_behaviour(
        OLD,
        &Behaviour::drains(Duration::from_secs(20)).with_health(health),
    );
    host.run("dd");
    let mut upgrader = host.upgrader(OLD);
    let lives = live(&host, &mut upgrader, Duration::from_secs(500));
    replay(&host.twin, "example-unhealthy", "restart_deferred", lives).await;
}

/// The owner changes the delegate while its candidate proves itself.
#[tokio::test(start_paused = true)]
async fn side_by_side() {
    let host = Host::new();
    host.run("dd");
    host.publish(NEW, Behaviour::default().ready_in(HOUR));
    let change = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        host.twin
            .update("dd", |config| config["Memory"] = json!(300 << 20));
    };
    let run = async { tokio::join!(host.once(NEW), change) };
    replay(&host.twin, "example-side-by-side", "prepare", run).await;
}

#[tokio::test(start_paused = true)]
async fn name_is_free() {
    let host = Host::new();
    host.run_with("dd", host_network);
    replay(&host.twin, "example-name-is-free", "prepare", host.once(NEW)).await;
}

/// Stop-first, the candidate crashes.
#[tokio::test(start_paused = true)]
async fn restoring() {
    let host = Host::new();
    host.run_with("dd", host_network);
    host.publish(NEW, Behaviour::exits(Duration::from_secs(1), 3));
    replay(&host.twin, "example-restoring", "free_start", host.once(NEW)).await;
}

/// Two upgraders cannot run at once.
#[tokio::test(start_paused = true)]
async fn upgrader() {
    let mut world = World::with(ready(), |body| {
        let port = json!([{ "HostIp": "", "HostPort": "9464" }]);
        body["HostConfig"]["PortBindings"] = json!({ "9464/tcp": port });
    });
    let twin = world.host.twin.clone();
    replay(&twin, "example-upgrader", "prepare", world.run_for(EXCHANGE)).await;
}
