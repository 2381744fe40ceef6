//! The health check that an update adds if neither the service nor the image has one. Pure.
//!
//! Without a health check, Swarm assumes that a running task works, so an image that never connects would replace every
//! task. But Swarm also ends each task whose health check fails later, even though a delegate that loses the Manager for a
//! while still has tasks to finish. So this check proves the start of a task, and never fails after that.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::config::ProbeKind;

/// Docker's default number of failures in a row for a health check.
const RETRIES: u32 = 3;
/// The longest interval between two checks, which is Docker's default.
const LONGEST_INTERVAL: Duration = Duration::from_secs(30);
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// Part of every check that uses a shell.
const MARK: &str = "delegate-upgrader";

/// `$0` is the time, in seconds, until which the check counts, and `$@` is the command. `/dev/shm` belongs to the container
/// and is writable even if its root is not. A missing command (126 or 127 from a shell) passes, since it proves nothing.
const SCRIPT: &str = "m=/dev/shm/delegate-upgrader-healthy; \
                      if [ -e $m ] || [ ! -w /dev/shm ] || [ \"$(date +%s)\" -ge \"$0\" ]; then exit 0; fi; \
                      \"$@\"; case $? in 0|126|127) : >$m;; *) exit 1;; esac";

const CHECK: &str = "/TaskTemplate/ContainerSpec/Healthcheck";

/// The tools in an image that a health check can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tools {
    /// A shell, or the tools are unknown.
    Shell,
    /// The command, but no shell.
    Command,
}

/// Proves that new tasks of services work.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The command that proves a task.
    pub command: Vec<String>,
    /// The setting `HEALTH_PROBE`.
    pub probe: ProbeKind,
    /// The time in which a task must become healthy.
    pub deadline: Duration,
}

impl Gate {
    /// Returns the command to prove a task with. `None` if `HEALTH_PROBE` or the owner's own check excludes it.
    pub fn command(&self, spec: &Value) -> Option<&[String]> {
        let is_wanted = matches!(self.probe, ProbeKind::Auto | ProbeKind::Exec);
        (is_wanted && !has_owners(spec)).then_some(&self.command[..])
    }

    /// Returns the health check. It no longer counts after `until`, so later starts of a task do not depend on it.
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
            // The container cannot remember that it was healthy, so the check never makes it unhealthy. If a task does not
            // become healthy, the upgrader itself rolls back.
            Tools::Command => check["Retries"] = json!(i32::MAX),
        }
        check
    }

    /// Describes briefly how well a new task of this service is proven.
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

pub(super) fn nanoseconds(duration: Duration) -> Value {
    json!(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

/// Whether an image has a health check.
pub fn has_health_check(image: &Value) -> bool {
    let test = image
        .pointer("/Config/Healthcheck/Test")
        .and_then(Value::as_array);
    test.is_some_and(|test| !test.is_empty())
}

/// Whether the service has a health check of its owner. Our own checks name this program or never fail.
pub(super) fn has_owners(spec: &Value) -> bool {
    let check = spec.pointer(CHECK).filter(|check| !check.is_null());
    check.is_some_and(|check| {
        let script = check["Test"][3].as_str().unwrap_or_default();
        let is_ours = script.contains(MARK) || check["Test"][0] == "CMD" && check["Retries"] == i32::MAX;
        !is_ours
    })
}
