//! The paths that docs/development/rollout.md opens with, replayed: what is decided, by which row, and what Docker is
//! asked to do.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use kit::page;
use kit::twin::{Behaviour, Call, Operation, Twin};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use super::host::{Host, NEW, auto_remove, host_network};

const PAGE: &str = "docs/development/rollout.md";

/// One decision, as the log shows it, and how many calls were made before.
#[derive(Clone, Debug, Default)]
struct Logged {
    row: Option<String>,
    decision: String,
    topic: Option<String>,
    calls_before: usize,
}

impl Visit for Logged {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "row" => self.row = Some(value.to_owned()),
            "decision" => value.clone_into(&mut self.decision),
            "topic" => self.topic = Some(value.to_owned()),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// Keeps the decisions that are logged.
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
            logged.calls_before = self.twin.writes().len();
            self.logged.lock().unwrap().push(logged);
        }
    }
}

/// A call as one would type it.
fn command(call: &Call) -> String {
    let (subject, detail) = (undated(&call.subject), undated(&call.detail));
    match call.operation {
        Operation::Pull => format!("docker pull {subject}"),
        Operation::Create => format!("docker create --name {subject} … {detail}"),
        Operation::Start => format!("docker start {subject}"),
        Operation::Stop => format!("docker stop -t {} {subject}", detail.trim_end_matches('s')),
        Operation::Rename => format!("docker rename {subject} {detail}"),
        Operation::SetRestartPolicy => format!("docker update --restart {detail} {subject}"),
        Operation::Remove => format!("docker rm {subject}"),
        Operation::RemoveImage => format!("docker rmi {subject}"),
        Operation::Connect => format!("docker network connect {detail} {subject}"),
        operation => panic!("{operation:?} changes nothing"),
    }
}

/// Without the second in a name.
fn undated(name: &str) -> String {
    match name.split_once(".draining-") {
        Some((base, _)) => format!("{base}.draining-…"),
        None => name.to_owned(),
    }
}

/// A run to its end, as a table.
async fn replay(host: &Host) -> String {
    let decisions = Decisions {
        twin: host.twin.clone(),
        logged: Arc::default(),
    };
    let subscriber = tracing_subscriber::registry().with(decisions.clone());
    let guard = tracing::subscriber::set_default(subscriber);
    host.once(NEW).await;
    drop(guard);
    let (logged, calls) = (decisions.logged.lock().unwrap().clone(), host.twin.writes());
    let mut table = String::from("| row | decision | Docker |\n|---|---|---|\n");
    for (index, entry) in logged.iter().enumerate() {
        let commands = calls.iter().enumerate().filter(|(number, call)| {
            let last = logged.iter().rposition(|entry| entry.calls_before <= *number);
            // A pull runs beside what is decided next.
            let last = last.map(|last| last - usize::from(call.operation == Operation::Pull));
            last == Some(index)
        });
        let commands: Vec<String> = commands.map(|(_, call)| format!("`{}`", command(call))).collect();
        let row = entry.row.as_deref().unwrap_or_default();
        let topic = entry
            .topic
            .as_ref()
            .map(|topic| format!(" ({topic})"))
            .unwrap_or_default();
        let _ = writeln!(
            table,
            "| {row} | {}{topic} | {} |",
            entry.decision,
            commands.join(", ")
        );
    }
    table
}

#[tokio::test(start_paused = true)]
async fn start_first() {
    let host = Host::new();
    host.run("dd");
    page::has(PAGE, "start-first", &replay(&host).await);
}

#[tokio::test(start_paused = true)]
async fn stop_first() {
    let host = Host::new();
    host.run_with("dd", host_network);
    page::has(PAGE, "stop-first", &replay(&host).await);
}

#[tokio::test(start_paused = true)]
async fn auto_remove_with_a_standby() {
    let host = Host::new();
    host.run_with("dd", auto_remove);
    page::has(PAGE, "auto-remove", &replay(&host).await);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_is_never_healthy() {
    let host = Host::new();
    host.run("dd");
    host.publish(NEW, Behaviour::never_healthy());
    page::has(PAGE, "failure", &replay(&host).await);
}
