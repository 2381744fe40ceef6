//! One container of the twin: its states, its life, its health.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Value, json};

use super::behaviour::{Behaviour, OnStop};
use super::document::Merged;

/// A point in the twin's time: how long after its beginning.
pub(super) type At = Duration;

/// The engine's first pause before it restarts a container; it doubles from there.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// How many results of its probes the engine keeps for a container.
const PROBES_KEPT: usize = 5;
/// A life this long resets the pause.
const STABLE: Duration = Duration::from_secs(10);

/// A container.
#[derive(Clone, Debug)]
pub(super) struct Container {
    pub id: String,
    pub name: String,
    pub body: Merged,
    pub image_id: String,
    pub image_reference: String,
    pub behaviour: Behaviour,
    pub created: At,
    pub status: Status,
    pub started: Option<At>,
    pub finished: Option<At>,
    pub exit_code: i64,
    pub error: String,
    pub restart_count: u64,
    pub manually_stopped: bool,
    /// It was asked to restart, and another life must follow this one.
    pub starts_again: bool,
    pub backoff: Duration,
    pub addresses: BTreeMap<String, Ipv4Addr>,
    /// The host ports that its last life got.
    pub ports: BTreeSet<u16>,
    /// The results of its last probes, including those of earlier lives.
    pub probed: Vec<(At, bool)>,
    /// The containers it is linked to.
    pub links: Vec<Link>,
    /// The files that were copied into it, and when for the last time.
    pub copied: BTreeMap<String, At>,
    /// The output of its lives.
    pub printed: Vec<String>,
}

/// A link; it refers to the container, not to its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub target: String,
    /// The name that the target has, or had at its end.
    pub name: String,
    pub alias: String,
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Status {
    Created,
    Running(Life),
    Paused(Life),
    Restarting {
        at: At,
    },
    /// Gone at that time; never if it was renamed meanwhile.
    Removing {
        gone: Option<At>,
    },
    Exited,
}

/// One life of a container's process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Life {
    pub since: At,
    pub signalled: Option<At>,
    pub kill_at: Option<At>,
    /// Its port on the host's network is taken: it will not live long.
    pub collides: bool,
    pub probes: Probes,
}

/// The results of the engine's HEALTHCHECK probes in this life.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Probes {
    pub done: u32,
    pub streak: u64,
    pub verdict: Verdict,
}

/// The engine's verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Verdict {
    #[default]
    Starting,
    Healthy,
    Unhealthy,
}

impl Status {
    /// The engine's word for it.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running(_) => "running",
            Self::Paused(_) => "paused",
            Self::Restarting { .. } => "restarting",
            Self::Removing { .. } => "removing",
            Self::Exited => "exited",
        }
    }
}

impl Container {
    /// Whether the engine calls it running, which includes the time between two lives.
    pub(super) fn is_running(&self) -> bool {
        matches!(
            self.status,
            Status::Running(_) | Status::Paused(_) | Status::Restarting { .. }
        )
    }

    /// Its life, if its process runs.
    pub(super) fn life(&self) -> Option<&Life> {
        match &self.status {
            Status::Running(life) | Status::Paused(life) => Some(life),
            _ => None,
        }
    }

    /// Whether its log can be read back.
    pub(super) fn keeps_log(&self) -> bool {
        self.body.host_config["LogConfig"]["Type"] != "none"
    }

    pub(super) fn auto_remove(&self) -> bool {
        self.body.host_config["AutoRemove"] == Value::Bool(true)
    }

    pub(super) fn network_mode(&self) -> &str {
        self.body.host_config["NetworkMode"].as_str().unwrap_or_default()
    }

    /// The port of its process; `None` for an upgrader that takes any free port.
    pub(super) fn listens_on(&self) -> Option<u16> {
        let variables = self.body.config["Env"].as_array();
        let mut variables = variables.into_iter().flatten().filter_map(Value::as_str);
        let is_any =
            variables.any(|variable| variable.starts_with("LISTEN_ADDR=") && variable.ends_with(":0"));
        (!is_any).then_some(self.behaviour.port)
    }

    pub(super) fn policy(&self) -> &str {
        self.body.host_config["RestartPolicy"]["Name"]
            .as_str()
            .unwrap_or("no")
    }

    fn retries(&self) -> u64 {
        self.body.host_config["RestartPolicy"]["MaximumRetryCount"]
            .as_u64()
            .unwrap_or_default()
    }

    /// The host ports that its bindings request: one of each range.
    pub(super) fn published_ports(&self) -> Vec<RangeInclusive<u16>> {
        let bindings = self.body.host_config["PortBindings"].as_object();
        bindings
            .into_iter()
            .flat_map(serde_json::Map::values)
            .filter_map(Value::as_array)
            .flatten()
            .filter_map(|binding| {
                let port = binding["HostPort"].as_str()?;
                let (first, last) = port.split_once('-').unwrap_or((port, port));
                Some(first.parse().ok()?..=last.parse().ok()?)
            })
            .filter(|ports| *ports.start() != 0)
            .collect()
    }

    /// When its next event is due.
    pub(super) fn next_event(&self) -> Option<At> {
        match &self.status {
            Status::Running(life) => life.end(&self.behaviour).map(|(at, _)| at),
            // A paused container makes no progress by itself.
            Status::Paused(life) => life.kill_at,
            Status::Restarting { at } => Some(*at),
            Status::Removing { gone } => *gone,
            Status::Created | Status::Exited => None,
        }
    }

    /// Whether the restart policy brings it back after an exit with that code.
    pub(super) fn comes_back(&self, code: i64) -> bool {
        if self.manually_stopped {
            return false;
        }
        match self.policy() {
            "always" | "unless-stopped" => true,
            "on-failure" => code != 0 && (self.retries() == 0 || self.restart_count < self.retries()),
            _ => false,
        }
    }

    /// Whether it is started when the engine itself starts: `always` even if it was stopped by hand.
    pub(super) fn starts_with_engine(&self) -> bool {
        self.started.is_some() && (self.policy() == "always" || self.comes_back(self.exit_code))
    }

    /// The pause before the next life, after one of that length.
    pub(super) fn next_backoff(&mut self, lived: Duration) -> Duration {
        self.backoff = if self.backoff.is_zero() || lived > STABLE {
            FIRST_BACKOFF
        } else {
            (self.backoff * 2).min(LONGEST_BACKOFF)
        };
        self.backoff
    }

    /// The result of a probe of its health endpoint; `None` if nothing listens.
    pub(super) fn answers(&self, now: At, manager_reachable: bool) -> Option<bool> {
        match &self.status {
            Status::Running(life) if !life.collides => {
                Some(manager_reachable && self.behaviour.is_healthy_at(now.saturating_sub(life.since)))
            }
            _ => None,
        }
    }

    /// Brings the engine's own probes up to date.
    pub(super) fn probe_until(&mut self, now: At, manager_reachable: bool) {
        let check = &self.body.config["Healthcheck"];
        let Some(test) = check["Test"].as_array().filter(|test| !test.is_empty()) else {
            return;
        };
        if test[0] == "NONE" {
            return;
        }
        let nanos = |key: &str| Duration::from_nanos(check[key].as_u64().unwrap_or_default());
        let interval = Some(nanos("Interval"))
            .filter(|i| !i.is_zero())
            .unwrap_or(Duration::from_secs(30));
        let start_period = nanos("StartPeriod");
        let retries = check["Retries"].as_u64().filter(|n| *n > 0).unwrap_or(3);
        let Status::Running(life) = &mut self.status else {
            return;
        };
        loop {
            let age = interval * (life.probes.done + 1);
            if life.since + age > now {
                return;
            }
            let probes = &mut life.probes;
            let found = manager_reachable && self.behaviour.is_healthy_at(age);
            probes.done += 1;
            self.probed.push((life.since + age, found));
            let seen = self.probed.len();
            self.probed.drain(..seen.saturating_sub(PROBES_KEPT));
            if found {
                probes.streak = 0;
                probes.verdict = Verdict::Healthy;
            } else if probes.verdict != Verdict::Starting || age > start_period {
                probes.streak += 1;
                if probes.streak >= retries {
                    probes.verdict = Verdict::Unhealthy;
                }
            }
        }
    }

    /// Whether its image or its owner gave it a HEALTHCHECK.
    pub(super) fn has_healthcheck(&self) -> bool {
        self.body.config["Healthcheck"]["Test"]
            .as_array()
            .is_some_and(|test| !test.is_empty() && test[0] != "NONE")
    }

    /// The engine's verdict, in the words of its document.
    pub(super) fn health_document(&self, time: impl Fn(At) -> String) -> Option<Value> {
        let probes = self.life().map(|life| &life.probes);
        (self.has_healthcheck() && self.started.is_some()).then(|| {
            let log: Vec<Value> = self
                .probed
                .iter()
                .map(|(at, found)| {
                    json!({
                        "Start": time(*at),
                        "End": time(*at),
                        "ExitCode": i32::from(!found),
                        "Output": if *found { "healthy\n" } else { "unhealthy\n" },
                    })
                })
                .collect();
            let status = match probes.map(|probes| probes.verdict) {
                Some(Verdict::Starting) => "starting",
                Some(Verdict::Healthy) => "healthy",
                Some(Verdict::Unhealthy) | None => "unhealthy",
            };
            let streak = probes.map_or(0, |probes| probes.streak);
            json!({ "Status": status, "FailingStreak": streak, "Log": log })
        })
    }
}

impl Life {
    pub(super) fn new(since: At, collides: bool) -> Self {
        Self {
            since,
            signalled: None,
            kill_at: None,
            collides,
            probes: Probes::default(),
        }
    }

    /// The time and the exit code of this life's end.
    fn end(&self, behaviour: &Behaviour) -> Option<(At, i64)> {
        let drained = match (self.signalled, behaviour.on_stop) {
            (Some(at), OnStop::Drain(time)) => Some((at + time, 0)),
            _ => None,
        };
        let by_itself = behaviour.exits.map(|exit| (self.since + exit.after, exit.code));
        let collision = self.collides.then_some((self.since + Duration::from_secs(1), 1));
        let killed = self.kill_at.map(|at| (at, 137));
        // At the same moment, the first of these wins: a process that finished in time was not killed.
        [drained, by_itself, collision, killed]
            .into_iter()
            .flatten()
            .min_by_key(|(at, _)| *at)
    }

    /// The code this life ends with.
    pub(super) fn exit_code(&self, behaviour: &Behaviour) -> i64 {
        self.end(behaviour).map_or(0, |(_, code)| code)
    }
}
