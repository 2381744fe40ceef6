//! Interprets the documents of a service and its tasks.

use std::time::Duration;

use serde_json::Value;

use crate::container::Inspected;
use crate::image::{ImageName, is_delegate_image};
use crate::managed::label::SETTINGS;
use crate::managed::{Managed, Object, Orchestrator, Progress, Record, SettingsChange, TaskFailure, Tasks};
use crate::observe::{self, Scope};
use crate::rollout::reason::Reason;
use crate::text::time;

/// How long Swarm monitors each task by default, in nanoseconds; from swarmkit's api/defaults/service.go.
const DEFAULT_MONITOR: u64 = 5_000_000_000;

/// Returns the services that belong to the scope's workloads.
pub fn objects(services: impl IntoIterator<Item = Value>, tasks: &[Value], scope: &Scope) -> Vec<Object> {
    let object = |document: Value| {
        let managed = read(&document, tasks, scope)?;
        Some(Object { managed, document })
    };
    services.into_iter().filter_map(object).collect()
}

/// Returns the image and the last change of the settings in a task's spec.
pub fn version(task: &Value) -> Option<(&str, SettingsChange)> {
    let container = task.get("ContainerSpec")?;
    let mark = container
        .get("Labels")
        .and_then(|labels| labels.get(SETTINGS)?.as_str());
    Some((container["Image"].as_str()?, SettingsChange::read(mark)))
}

/// Returns the variables in a task's spec.
pub(super) fn settings_of(task: &Value) -> Inspected {
    Inspected::with_variables(&task["ContainerSpec"]["Env"])
}

/// Reads a service if it belongs to one of the scope's workloads. `tasks` are the tasks of all services.
pub fn read(service: &Value, tasks: &[Value], scope: &Scope) -> Option<Managed> {
    let text = |path: &str| service.pointer(path).and_then(Value::as_str);
    let variables = settings_of(&service["Spec"]["TaskTemplate"]);
    let workload = scope.workload(|name| variables.env(name))?;
    let id = text("/ID")?;
    let (image, settings) = version(&service["Spec"]["TaskTemplate"])?;
    // Unlike a container, a service is not asked whether it answers like a delegate.
    if scope.has_every_workload() && !is_delegate_image(&image.into(), &scope.known_images) {
        return None;
    }
    let labels = service.pointer("/Spec/Labels").and_then(Value::as_object);
    let label = |name: &str| labels?.get(name)?.as_str();
    let mode = service.pointer("/Spec/Mode").and_then(Value::as_object);
    let is = |kind: &str| mode.is_some_and(|mode| mode.contains_key(kind));
    let own = tasks.iter().filter(|task| task["ServiceID"].as_str() == Some(id));
    let record = Record::read(label);
    let tried = record.attempt.as_ref().map(|attempt| attempt.to.as_str());
    let is_job = is("ReplicatedJob") || is("GlobalJob");
    let job = is_job.then_some(Reason::NotUpgradable {
        kind: "a Swarm job, which starts again with each update",
    });
    let ours = scope.account.as_deref();
    let limits = observe::owner_by(label, variables.env("ACCOUNT_ID"), ours, &scope.zone);
    Some(Managed {
        orchestrator: Orchestrator::Swarm,
        id: id.to_owned(),
        name: text("/Spec/Name")?.to_owned(),
        workload: workload.to_owned(),
        image: ImageName::from(image),
        revision: None,
        updated_at: time::of(&service["UpdateStatus"]["StartedAt"]),
        progress: progress(service),
        tasks: tasks_of(service, (image, &settings), tried, &own),
        settings,
        record,
        left_alone: limits.left_alone().or(job),
        limits,
        pace: pace(service),
    })
}

/// Returns how long Swarm itself waits between two tasks.
fn pace(service: &Value) -> Duration {
    let nanoseconds = |name: &str| service.pointer(&format!("/Spec/UpdateConfig/{name}"))?.as_u64();
    let delay = nanoseconds("Delay").unwrap_or_default();
    let monitor = nanoseconds("Monitor").unwrap_or(DEFAULT_MONITOR);
    Duration::from_nanos(delay.saturating_add(monitor))
}

fn progress(service: &Value) -> Progress {
    let status = &service["UpdateStatus"];
    let message = || status["Message"].as_str().unwrap_or_default().to_owned();
    // Each update except a rollback first clears the status.
    match status["State"].as_str().unwrap_or_default() {
        "updating" => Progress::Updating,
        "paused" => {
            let message = message();
            Progress::Paused {
                by_failure: message.contains("failure"),
                message,
            }
        }
        "rollback_started" => Progress::RollingBack,
        "rollback_paused" => Progress::RollbackPaused { message: message() },
        "rollback_completed" => Progress::RolledBack { message: message() },
        _ => Progress::Settled {
            completed_at: time::of(&status["CompletedAt"]),
        },
    }
}

fn tasks_of<'a>(
    service: &Value,
    (image, settings): (&str, &SettingsChange),
    tried: Option<&str>,
    own: &(impl Iterator<Item = &'a Value> + Clone),
) -> Tasks {
    let state = |task: &Value| task["Status"]["State"].as_str().unwrap_or_default().to_owned();
    let is_desired = |task: &&Value| task["DesiredState"].as_str() == Some("running");
    let is_present =
        |task: &&Value| is_desired(task) && version(&task["Spec"]) == Some((image, settings.clone()));
    let in_state = |wanted: &'static str| {
        let present = own.clone().filter(is_present);
        present.filter(move |task| state(task) == wanted)
    };
    let running = in_state("running");
    let count = |path: &str| service.pointer(path).and_then(Value::as_u64);
    let wanted = count("/Spec/Mode/Replicated/Replicas")
        .or_else(|| count("/ServiceStatus/DesiredTasks"))
        .unwrap_or_else(|| own.clone().filter(is_desired).count() as u64);
    let failures = own.clone().filter_map(|task| {
        let state = state(task);
        let has_failed = matches!(state.as_str(), "failed" | "rejected" | "orphaned" | "complete");
        let error = task["Status"]["Err"]
            .as_str()
            .or(task["Status"]["Message"].as_str());
        has_failed.then_some(())?;
        let at = time::of(&task["Status"]["Timestamp"])?;
        let (image, settings) = version(&task["Spec"])?;
        Some(TaskFailure {
            at,
            image: image.to_owned(),
            settings: settings.release,
            error: error.unwrap_or(&state).to_owned(),
            ran_for: time::of(&task["CreatedAt"]).and_then(|created| (at - created).to_std().ok()),
        })
    });
    // Tasks of another image may fail later, for example with their node, which says nothing about the image that was tried.
    // The same holds for the settings that were changed last.
    let last_failure = failures.max_by_key(|failure| {
        (
            tried == Some(failure.image.as_str()),
            failure.settings,
            failure.at,
        )
    });
    // A health check counts from the container's start, after the pull. But after a failure, repeated starts do not count.
    let has_failed = last_failure
        .as_ref()
        .is_some_and(|failure| failure.image == image && failure.settings == settings.release);
    let starting = in_state("starting").filter(|_| !has_failed);
    Tasks {
        wanted,
        running: running.clone().count() as u64,
        last_started_at: running
            .chain(starting)
            .filter_map(|task| time::of(&task["Status"]["Timestamp"]))
            .max(),
        last_failure,
    }
}
