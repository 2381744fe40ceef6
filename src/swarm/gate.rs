//! The health check that an update carries where neither service nor image has one. Pure.
//!
//! Without a health check Swarm takes a task that runs for one that works, so an image that never connects would replace every
//! task. But Swarm also ends each task whose health check fails later, and a delegate that loses the Manager for a while has
//! tasks to finish. So this check proves the start of a task, and never fails after that.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::spec::{Defaults, nanoseconds, with_image};
use crate::config::{HealthSettings, ProbeKind};

/// Docker's number of failures in a row, where a health check has none of its own.
const RETRIES: u32 = 3;
/// The longest pause between two checks: Docker's own.
const LONGEST_INTERVAL: Duration = Duration::from_secs(30);
/// The shortest one.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// In each check with a shell.
const MARK: &str = "delegate-upgrader";

/// `$0` is the second until which the check counts, and `$@` is the command. Shared memory is a directory of the container's own
/// that can be written even if its root cannot. A command that is not in the image, a shell's 126 and 127, proves nothing.
const SCRIPT: &str = "m=/dev/shm/delegate-upgrader-healthy; \
                      if [ -e $m ] || [ ! -w /dev/shm ] || [ \"$(date +%s)\" -ge \"$0\" ]; then exit 0; fi; \
                      \"$@\"; case $? in 0|126|127) : >$m;; *) exit 1;; esac";

/// The pointer to a service's health check in its spec.
const CHECK: &str = "/TaskTemplate/ContainerSpec/Healthcheck";

/// The tools of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tools {
    /// It has a shell, or is not known.
    Shell,
    /// It has the command, and no shell.
    Command,
}

/// How new tasks of services are proven.
#[derive(Clone, Debug)]
pub struct Gate {
    command: Vec<String>,
    probe: ProbeKind,
    deadline: Duration,
}

impl Gate {
    /// By these settings; a task may take so long to be healthy.
    pub fn new(health: &HealthSettings, deadline: Duration) -> Self {
        Self {
            command: health.command.clone(),
            probe: health.probe,
            deadline,
        }
    }

    /// How long a task may take to be healthy.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The command to prove a task of this service with; `None` where `HEALTH_PROBE` or the owner's own check leaves no room.
    pub fn command(&self, spec: &Value) -> Option<&[String]> {
        let is_wanted = matches!(self.probe, ProbeKind::Auto | ProbeKind::Exec);
        (is_wanted && !has_owners(spec)).then_some(&self.command[..])
    }

    /// The health check. After `until` it counts no more: no later start of a task hangs on it.
    pub fn check(&self, tools: Tools, until: DateTime<Utc>) -> Value {
        let interval = (self.deadline / 20).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
        let mut test = vec!["CMD".to_owned()];
        if tools == Tools::Shell {
            let script = ["sh", "-c", SCRIPT].map(str::to_owned);
            test.extend(script.into_iter().chain([until.timestamp().to_string()]));
        }
        test.extend_from_slice(&self.command);
        let mut check = json!({ "Test": test, "Interval": nanoseconds(interval) });
        match tools {
            Tools::Shell => {
                let start = self.deadline.saturating_sub(interval * RETRIES);
                check["StartPeriod"] = nanoseconds(start);
            }
            // Nothing in the container remembers that it was healthy, so it never becomes unhealthy, and a task that does not
            // become healthy is rolled back here.
            Tools::Command => check["Retries"] = json!(i32::MAX),
        }
        check
    }

    /// How well a new task of this service is proven, in a few words.
    pub fn proof(&self, spec: &Value) -> String {
        let disabled = spec
            .pointer(CHECK)
            .is_some_and(|check| check["Test"][0] == "NONE");
        if disabled {
            return "its health check is switched off, so it is enough that a new task runs".to_owned();
        }
        if has_owners(spec) {
            return "its own health check proves each new task".to_owned();
        }
        if self.command(spec).is_some() {
            return "the image's HEALTHCHECK proves each new task, or else HEALTH_COMMAND, where the image has that command".to_owned();
        }
        format!(
            "the image's HEALTHCHECK proves each new task; without one it is enough that it runs, since HEALTH_PROBE is {}",
            self.probe
        )
    }
}

/// Whether an image has a health check.
pub fn has_health_check(image: &Value) -> bool {
    let test = image
        .pointer("/Config/Healthcheck/Test")
        .and_then(Value::as_array);
    test.is_some_and(|test| !test.is_empty())
}

/// Whether the service has a health check that was not written here: such a one names this program, or never fails.
fn has_owners(spec: &Value) -> bool {
    let check = spec.pointer(CHECK).filter(|check| !check.is_null());
    check.is_some_and(|check| {
        let script = check["Test"][3].as_str().unwrap_or_default();
        let is_ours = script.contains(MARK) || check["Test"][0] == "CMD" && check["Retries"] == i32::MAX;
        !is_ours
    })
}

/// The same spec with this health check, or without one. The owner's stays.
pub fn with_health_check(spec: &Value, check: Option<Value>) -> Value {
    let mut spec = spec.clone();
    if !has_owners(&spec)
        && let Some(container) = spec.pointer_mut("/TaskTemplate/ContainerSpec")
        && let Some(container) = container.as_object_mut()
    {
        match check {
            Some(check) => container.insert("Healthcheck".to_owned(), check),
            None => container.remove("Healthcheck"),
        };
    }
    spec
}

/// The spec that goes back to this image: with the tasks of before as Swarm remembers them, so that those which still run are not
/// replaced. If someone changed the service since, only image and health check go back.
pub fn way_back(service: &Value, image: &str, defaults: Defaults) -> Value {
    let (spec, before) = (&service["Spec"], &service["PreviousSpec"]["TaskTemplate"]);
    if before.pointer("/ContainerSpec/Image").and_then(Value::as_str) != Some(image) {
        return with_image(&with_health_check(spec, None), image, defaults);
    }
    let mut spec = spec.clone();
    spec["TaskTemplate"] = before.clone();
    spec
}
