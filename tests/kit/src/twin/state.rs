//! The twin's host: everything on it, and how it changes with time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use delegate_upgrader::container::ApiVersion;
use delegate_upgrader::engine::{EngineError, Storage, Volume};
use serde_json::Value;
use tokio::sync::watch;

use super::calls::{Call, FaultHook, Operation};
use super::container::{At, Container, Status};
use super::events::{Cause, Event, Happened};
use super::execs::Exec;
use super::images::Images;
use super::outages::Down;

/// The kind of the twin's engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwinSettings {
    /// Its newest API version: 1.44 and later take several endpoints at create.
    pub api: ApiVersion,
    /// Its release.
    pub version: String,
    /// Whether it says that it is Podman.
    pub is_podman: bool,
    /// The time that every call takes; half of it before it takes effect.
    pub latency: Duration,
    /// The time that an auto-removal takes.
    pub removal_time: Duration,
}

impl Default for TwinSettings {
    fn default() -> Self {
        Self {
            api: ApiVersion::new(1, 47),
            version: "27.5.1".to_owned(),
            is_podman: false,
            latency: Duration::from_millis(2),
            removal_time: Duration::from_millis(100),
        }
    }
}

/// Everything on the host.
pub(super) struct State {
    pub settings: TwinSettings,
    pub now: At,
    pub containers: Vec<Container>,
    pub images: Images,
    pub networks: BTreeSet<String>,
    pub storage: Storage,
    /// The volumes, by name.
    pub volumes: BTreeMap<String, Volume>,
    pub manager_reachable: bool,
    /// A variable with which the Manager rejects delegates, and since when.
    pub rejected: Option<(String, At)>,
    /// The time until which the engine is down.
    pub down_until: Option<At>,
    /// The way in which it last went down.
    pub down: Down,
    /// The number of times that the engine has gone down.
    pub restarts: u32,
    /// The cause of the events that are being logged.
    pub cause: Cause,
    /// The shifts of the wall clock against the twin's time, each with its beginning.
    clock: Vec<(At, TimeDelta)>,
    pub calls: Arc<Vec<Call>>,
    pub execs: Vec<Exec>,
    pub events: Arc<Vec<Event>>,
    /// Is notified of each event.
    pub told: watch::Sender<()>,
    /// The hook that chooses a fault for each call.
    pub faults: Option<FaultHook>,
    /// Changes the configuration of each new container.
    pub garble: Option<Garble>,
    /// The containers, by id, on which a call of this kind fails.
    pub broken: Vec<(String, Operation)>,
    /// The reason why no process can start.
    pub runtime_error: Option<String>,
    serial: u64,
}

/// Changes the configuration of a container that is being created.
pub(super) type Garble = Box<dyn FnMut(&mut Value) + Send>;

impl State {
    pub(super) fn new(settings: TwinSettings) -> Self {
        Self {
            settings,
            now: At::ZERO,
            containers: Vec::new(),
            images: Images::default(),
            storage: Storage::new("/var/lib/docker", "overlay2", &[]),
            volumes: BTreeMap::new(),
            networks: ["bridge", "host", "none"].map(str::to_owned).into(),
            manager_reachable: true,
            rejected: None,
            down_until: None,
            down: Down::InOrder,
            restarts: 0,
            cause: Cause::Itself,
            clock: Vec::new(),
            calls: Arc::default(),
            execs: Vec::new(),
            events: Arc::default(),
            told: watch::channel(()).0,
            faults: None,
            garble: None,
            broken: Vec::new(),
            runtime_error: None,
            serial: 0,
        }
    }

    /// 64 hex digits: new at each call, and the same in each run of a test.
    pub(super) fn new_id(&mut self) -> String {
        self.serial += 1;
        // SplitMix64: spreads the serial number over all digits.
        let part = |part: u64| {
            let mut z = (self.serial * 4 + part).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        format!("{:016x}{:016x}{:016x}{:016x}", part(0), part(1), part(2), part(3))
    }

    /// The wall clock at a point in the twin's time.
    pub(super) fn wall(&self, at: At) -> DateTime<Utc> {
        let shifted = self.clock.iter().rev().find(|(since, _)| *since <= at);
        let shift = shifted.map_or_else(TimeDelta::zero, |(_, shift)| *shift);
        Utc.with_ymd_and_hms(2026, 1, 1, 0, 0, 0).unwrap() + at + shift
    }

    pub(super) fn jump_clock(&mut self, by: TimeDelta) {
        let shift = self
            .clock
            .last()
            .map_or_else(TimeDelta::zero, |(_, shift)| *shift);
        self.clock.push((self.now, shift + by));
    }

    /// Applies, in order, every event that is due by then.
    pub(super) fn settle(&mut self, to: At) {
        loop {
            let boot = self.down_until.map(|at| (at, usize::MAX));
            let next = self
                .containers
                .iter()
                .enumerate()
                .filter(|_| boot.is_none())
                .filter_map(|(index, container)| Some((container.next_event()?, index)))
                .chain(boot)
                .min();
            let Some((at, index)) = next.filter(|(at, _)| *at <= to) else {
                break;
            };
            self.now = self.now.max(at);
            if index == usize::MAX {
                self.boot();
            } else {
                self.happen(index);
            }
        }
        self.now = self.now.max(to);
    }

    /// The time at which the next event is due.
    pub(super) fn next_event(&self) -> Option<At> {
        self.containers
            .iter()
            .filter_map(Container::next_event)
            .chain(self.down_until)
            .min()
    }

    pub(super) fn happen(&mut self, index: usize) {
        let container = &mut self.containers[index];
        match &container.status {
            Status::Running(life) => {
                let code = life.exit_code(&container.behaviour);
                self.exit(index, code);
            }
            Status::Restarting { .. } => {
                if let Err(error) = self.start_process(index) {
                    let container = &mut self.containers[index];
                    container.status = Status::Exited;
                    container.error = error.to_string();
                }
            }
            Status::Paused(_) => self.exit(index, 137),
            Status::Removing { .. } => self.take_away(index),
            Status::Created | Status::Exited => {}
        }
    }

    /// The engine's answer to a call that it cannot carry out on this container.
    pub(super) fn check_broken(&self, call: usize) -> Result<(), EngineError> {
        let Call {
            id: Some(id),
            operation,
            ..
        } = &self.calls[call]
        else {
            return Ok(());
        };
        let mut broken = self.broken.iter();
        if broken.any(|(broken, kind)| broken == id.as_str() && kind == operation) {
            let message = match operation {
                Operation::Remove => "driver failed to remove root filesystem: device or resource busy",
                Operation::Start => "error mounting: no such file or directory",
                Operation::SetRestartPolicy => "Cannot update container: cannot update a stopping container",
                _ => "stat: transport endpoint is not connected",
            };
            return Err(EngineError::Refused {
                status: 500,
                message: message.to_owned(),
            });
        }
        Ok(())
    }

    pub(super) fn log(&mut self, index: usize, what: Happened) {
        let container = &self.containers[index];
        Arc::make_mut(&mut self.events).push(Event {
            at: self.now,
            id: container.id.clone(),
            name: container.name.clone(),
            image: container.image_id.clone(),
            what,
            cause: self.cause,
        });
        self.told.send_replace(());
    }

    /// Ends the process of a container.
    pub(super) fn exit(&mut self, index: usize, code: i64) {
        self.log(index, Happened::Exited { code });
        let (now, removal_time) = (self.now, self.settings.removal_time);
        let container = &mut self.containers[index];
        let lived = now.saturating_sub(container.life().map_or(now, |life| life.since));
        container.finished = Some(now);
        container.exit_code = code;
        container.addresses.clear();
        if std::mem::take(&mut container.starts_again) {
            container.status = Status::Exited;
            let id = container.id.clone();
            // The container's document shows an error.
            let _ = self.start(&id);
            return;
        }
        container.status = if container.auto_remove() {
            Status::Removing {
                gone: Some(now + removal_time),
            }
        } else if container.comes_back(code) {
            container.restart_count += 1;
            Status::Restarting {
                at: now + container.next_backoff(lived),
            }
        } else {
            Status::Exited
        };
    }

    pub(super) fn take_away(&mut self, index: usize) {
        self.log(index, Happened::Removed);
        self.containers.remove(index);
    }
}
