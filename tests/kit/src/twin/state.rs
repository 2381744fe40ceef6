//! The twin's host: what is on it, and how it changes with time and by command.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use delegate_upgrader::container::ApiVersion;
use delegate_upgrader::engine::{EngineError, Storage};
use serde_json::{Value, json};

use super::behaviour::OnStop;
use super::calls::{Call, FaultHook};
use super::container::{At, Container, Life, Link, Status};
use super::document::{self, merge};
use super::images::Images;

/// How long an engine that is told to end waits for its containers.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(15);
/// How long an engine that comes back after its death waits for each container that it finds running.
const RESTORE_PATIENCE: Duration = Duration::from_secs(10);

/// What kind of engine the twin is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwinSettings {
    /// Its newest API version: 1.44 and later take several endpoints at create.
    pub api: ApiVersion,
    /// Its release.
    pub version: String,
    /// How long every call takes; half of it before it has its effect.
    pub latency: Duration,
    /// How long an auto-removal takes.
    pub removal_time: Duration,
}

impl Default for TwinSettings {
    fn default() -> Self {
        Self {
            api: ApiVersion::new(1, 47),
            version: "27.5.1".to_owned(),
            latency: Duration::from_millis(2),
            removal_time: Duration::from_millis(100),
        }
    }
}

/// Something that happened on the host, by command or by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub at: At,
    pub id: String,
    /// Its name at that time.
    pub name: String,
    /// The id of its image.
    pub image: String,
    pub what: Happened,
    pub cause: Cause,
}

/// Who made something happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// Its process, its restart policy, or the deadline of a stop.
    #[default]
    Itself,
    /// The call of that index.
    Call(usize),
    /// The engine, as it went away or came back.
    Engine,
    /// A person.
    OperatorAction,
}

/// How an engine goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Down {
    /// It ends its containers, and waits a while for them.
    InOrder,
    /// It leaves its containers alone: `live-restore`.
    Live,
    /// It is killed; its containers are ended by the next one.
    Killed,
    /// All is gone at once.
    PowerLoss,
}

/// What happened to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    Created,
    Started,
    /// Its stop signal arrived for the first time in this life.
    Signalled,
    Exited {
        code: i64,
    },
    Renamed {
        from: String,
    },
    Removed,
}

/// Everything there is on the host.
pub(super) struct State {
    pub settings: TwinSettings,
    pub now: At,
    pub containers: Vec<Container>,
    pub images: Images,
    pub networks: BTreeSet<String>,
    pub storage: Storage,
    pub manager_reachable: bool,
    /// The engine is away until then.
    pub down_until: Option<At>,
    /// How it went away last.
    pub down: Down,
    /// How often the engine has gone away.
    pub restarts: u32,
    /// Who makes happen what happens now.
    pub cause: Cause,
    /// From when on the wall clock is how far from where it was at the beginning.
    clock: Vec<(At, TimeDelta)>,
    pub calls: Vec<Call>,
    pub events: Vec<Event>,
    pub faults: Option<FaultHook>,
    /// Changes the configuration of each new container.
    pub garble: Option<Garble>,
    serial: u64,
}

/// Changes the configuration of a container that is being created.
pub(super) type Garble = Box<dyn FnMut(&mut Value) + Send>;

type Outcome<T> = Result<T, EngineError>;

fn conflict<T>(message: impl Into<String>) -> Outcome<T> {
    Err(EngineError::Conflict(message.into()))
}

fn refused<T>(status: u16, message: impl Into<String>) -> Outcome<T> {
    Err(EngineError::Refused {
        status,
        message: message.into(),
    })
}

impl State {
    pub(super) fn new(settings: TwinSettings) -> Self {
        Self {
            settings,
            now: At::ZERO,
            containers: Vec::new(),
            images: Images::default(),
            storage: Storage::new("/var/lib/docker", "overlay2", &[]),
            networks: ["bridge", "host", "none"].map(str::to_owned).into(),
            manager_reachable: true,
            down_until: None,
            down: Down::InOrder,
            restarts: 0,
            cause: Cause::Itself,
            clock: Vec::new(),
            calls: Vec::new(),
            events: Vec::new(),
            faults: None,
            garble: None,
            serial: 0,
        }
    }

    /// 64 hex digits, another each time and the same in each run.
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

    /// Lets everything happen that happens until then, in order.
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

    /// When something will happen next by itself.
    pub(super) fn next_event(&self) -> Option<At> {
        self.containers
            .iter()
            .filter_map(Container::next_event)
            .chain(self.down_until)
            .min()
    }

    fn happen(&mut self, index: usize) {
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
                    container.exit_code = 128;
                }
            }
            Status::Removing { .. } => self.take_away(index),
            Status::Created | Status::Paused(_) | Status::Exited => {}
        }
    }

    fn log(&mut self, index: usize, what: Happened) {
        let container = &self.containers[index];
        self.events.push(Event {
            at: self.now,
            id: container.id.clone(),
            name: container.name.clone(),
            image: container.image_id.clone(),
            what,
            cause: self.cause,
        });
    }

    /// The process of a container ends.
    pub(super) fn exit(&mut self, index: usize, code: i64) {
        self.log(index, Happened::Exited { code });
        let (now, removal_time) = (self.now, self.settings.removal_time);
        let container = &mut self.containers[index];
        let lived = now.saturating_sub(container.life().map_or(now, |life| life.since));
        container.finished = Some(now);
        container.exit_code = code;
        container.addresses.clear();
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

    /// The engine goes away.
    pub(super) fn go_down(&mut self, downtime: Duration, down: Down) {
        self.restarts += 1;
        self.down = down;
        match down {
            Down::InOrder => self.end_all(Some(SHUTDOWN_PATIENCE)),
            Down::PowerLoss => self.end_all(None),
            Down::Live | Down::Killed => {
                for container in &mut self.containers {
                    // Whoever counted the seconds of its stop is gone.
                    if let Status::Running(life) = &mut container.status {
                        life.kill_at = None;
                    }
                }
            }
        }
        self.down_until = Some(self.now + downtime);
    }

    /// All containers end: those that drain within the patience with 0, the others killed.
    fn end_all(&mut self, patience: Option<Duration>) {
        self.cause = Cause::Engine;
        for index in 0..self.containers.len() {
            let container = &self.containers[index];
            if container.life().is_some() {
                let obeys = matches!((container.behaviour.on_stop, patience), (OnStop::Drain(time), Some(patience)) if time <= patience);
                let code = if obeys { 0 } else { 137 };
                self.log(index, Happened::Exited { code });
                let container = &mut self.containers[index];
                container.finished = Some(self.now);
                container.exit_code = code;
            }
            let container = &mut self.containers[index];
            if container.is_running() {
                container.status = Status::Exited;
                container.addresses.clear();
            }
        }
        self.cause = Cause::Itself;
    }

    fn boot(&mut self) {
        self.down_until = None;
        if self.down == Down::Killed {
            self.end_all(Some(RESTORE_PATIENCE));
        }
        self.cause = Cause::Engine;
        let mut index = 0;
        while let Some(container) = self.containers.get_mut(index) {
            // With live-restore; those that ended meanwhile are found out in a moment.
            if container.is_running() {
                index += 1;
                continue;
            }
            // Those that were only created go too.
            if container.auto_remove() || matches!(container.status, Status::Removing { .. }) {
                self.take_away(index);
                continue;
            }
            if container.starts_with_engine() && matches!(container.status, Status::Exited) {
                container.restart_count = 0;
                container.manually_stopped = false;
                if let Err(error) = self.start_process(index) {
                    self.containers[index].error = error.to_string();
                }
            }
            index += 1;
        }
        self.cause = Cause::Itself;
    }

    /// The container of that id, short id or name.
    pub(super) fn find(&self, id: &str) -> Outcome<usize> {
        self.containers
            .iter()
            .position(|container| container.id == id || container.name == id)
            .or_else(|| {
                self.containers
                    .iter()
                    .position(|container| id.len() >= 12 && container.id.starts_with(id))
            })
            .ok_or_else(|| EngineError::NotFound(format!("No such container: {id}")))
    }

    pub(super) fn create(&mut self, name: &str, platform: Option<&str>, body: &Value) -> Outcome<String> {
        self.check_name(name)?;
        let reference = body["Image"].as_str().unwrap_or_default();
        let Some(image) = self.images.find(reference).cloned() else {
            return Err(EngineError::NotFound(format!("No such image: {reference}")));
        };
        if let Some(platform) = platform
            && platform
                .split('/')
                .nth(1)
                .is_some_and(|wanted| wanted != image.architecture)
        {
            return Err(EngineError::NotFound(format!(
                "image with reference {reference} was found but does not match the specified platform: wanted {platform}"
            )));
        }
        let id = self.new_id();
        let mut body = merge(body, &image.config, &id);
        if let Some(garble) = &mut self.garble {
            garble(&mut body.config);
        }
        if body.endpoints.len() > 1 && self.settings.api < ApiVersion::new(1, 44) {
            return refused(
                400,
                "Container cannot be connected to network endpoints: more than one",
            );
        }
        let policy = body.host_config["RestartPolicy"]["Name"]
            .as_str()
            .unwrap_or_default();
        if body.host_config["AutoRemove"] == Value::Bool(true) && policy != "no" {
            return refused(400, "can't create 'AutoRemove' container with restart policy");
        }
        let links = self.links(&mut body.host_config)?;
        self.containers.push(Container {
            id: id.clone(),
            name: name.to_owned(),
            body,
            image_id: image.id,
            image_reference: reference.to_owned(),
            behaviour: image.behaviour,
            created: self.now,
            status: Status::Created,
            started: None,
            finished: None,
            exit_code: 0,
            error: String::new(),
            restart_count: 0,
            manually_stopped: false,
            backoff: Duration::ZERO,
            addresses: BTreeMap::new(),
            probed: Vec::new(),
            links,
            copied: BTreeMap::new(),
            printed: Vec::new(),
        });
        self.log(self.containers.len() - 1, Happened::Created);
        Ok(id)
    }

    /// Takes the links out of a create body: `name:alias`, or `/name:/own-name/alias` as a document shows them.
    fn links(&self, host_config: &mut Value) -> Outcome<Vec<Link>> {
        let given = host_config.as_object_mut().and_then(|all| all.remove("Links"));
        let given = given.as_ref().and_then(Value::as_array).into_iter().flatten();
        given
            .filter_map(Value::as_str)
            .map(|link| {
                let (name, alias) = link.split_once(':').unwrap_or((link, link));
                let target = &self.containers[self.find(name.trim_start_matches('/'))?];
                Ok(Link {
                    target: target.id.clone(),
                    name: target.name.clone(),
                    alias: alias.rsplit('/').next().unwrap_or_default().to_owned(),
                })
            })
            .collect()
    }

    fn check_name(&self, name: &str) -> Outcome<()> {
        let sound = name.len() >= 2
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
        if !sound {
            return refused(
                400,
                format!("Invalid container name ({name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"),
            );
        }
        match self.containers.iter().find(|container| container.name == name) {
            Some(owner) => conflict(format!(
                "Conflict. The container name \"/{name}\" is already in use by container \"{}\". You have to remove \
                 (or rename) that container to be able to reuse that name.",
                owner.id
            )),
            None => Ok(()),
        }
    }

    pub(super) fn rename(&mut self, id: &str, name: &str) -> Outcome<()> {
        let index = self.find(id)?;
        if self.containers[index].name == name {
            return refused(400, "Renaming a container with the same name as its current name");
        }
        if let Status::Restarting { .. } = self.containers[index].status {
            // Seen on 20.10: its network is gone with its process.
            return refused(404, "no such object: sandbox not found");
        }
        self.check_name(name)?;
        let container = &mut self.containers[index];
        let from = std::mem::replace(&mut container.name, name.to_owned());
        if let Status::Removing { gone } = &mut container.status {
            // Engines lose track of it: it stays in this state until they restart.
            *gone = None;
        }
        self.log(index, Happened::Renamed { from });
        let (id, name) = (self.containers[index].id.clone(), name.to_owned());
        for link in self
            .containers
            .iter_mut()
            .flat_map(|container| &mut container.links)
        {
            if link.target == id {
                link.name.clone_from(&name);
            }
        }
        Ok(())
    }

    pub(super) fn start(&mut self, id: &str) -> Outcome<()> {
        let index = self.find(id)?;
        match &self.containers[index].status {
            Status::Running(_) | Status::Restarting { .. } => return Ok(()),
            Status::Paused(_) => {
                return conflict("cannot start a paused container, try unpause instead");
            }
            Status::Removing { .. } => {
                return conflict("container is marked for removal and cannot be started");
            }
            Status::Created | Status::Exited => {}
        }
        let outcome = self.start_process(index);
        let container = &mut self.containers[index];
        match outcome {
            Ok(()) => {
                container.restart_count = 0;
                container.manually_stopped = false;
                container.backoff = Duration::ZERO;
            }
            Err(error) => {
                container.exit_code = 128;
                container.error = error.to_string();
                if container.auto_remove() {
                    self.take_away(index);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn start_process(&mut self, index: usize) -> Outcome<()> {
        let container = &self.containers[index];
        let mode = container.network_mode();
        if let Some(other) = mode.strip_prefix("container:") {
            let joined = self.find(other)?;
            if self.containers[joined].life().is_none() {
                return conflict(format!("cannot join network of a non running container: {other}"));
            }
        }
        for link in &container.links {
            let runs = self
                .find(&link.target)
                .map(|target| self.containers[target].is_running());
            if runs != Ok(true) {
                return refused(
                    500,
                    format!(
                        "Cannot link to a non running container: /{} AS /{}/{}",
                        link.name, container.name, link.alias
                    ),
                );
            }
        }
        if let Some(missing) = container
            .body
            .endpoints
            .keys()
            .find(|name| !self.networks.contains(*name))
        {
            return Err(EngineError::NotFound(format!("network {missing} not found")));
        }
        let taken = self.host_ports(index);
        if let Some(port) = container
            .published_ports()
            .into_iter()
            .find(|port| taken.contains(port))
        {
            return refused(
                500,
                format!(
                    "driver failed programming external connectivity on endpoint {}: Bind for 0.0.0.0:{port} failed: \
                     port is already allocated",
                    container.name
                ),
            );
        }
        let addresses = self.addresses_for(index)?;
        let container = &self.containers[index];
        if let Some(reason) = &container.behaviour.start_error {
            return refused(400, reason.clone());
        }
        let collides = mode == "host" && taken.contains(&container.behaviour.port);
        let now = self.now;
        let container = &mut self.containers[index];
        container.addresses = addresses;
        container.started = Some(now);
        container.error = String::new();
        container.exit_code = 0;
        container.printed.extend_from_slice(&container.behaviour.prints);
        container.status = Status::Running(Life::new(now, collides));
        self.log(index, Happened::Started);
        Ok(())
    }

    /// The host's ports that others than this one hold.
    fn host_ports(&self, index: usize) -> BTreeSet<u16> {
        let mut ports = BTreeSet::new();
        for (other, container) in self.containers.iter().enumerate() {
            let Some(life) = container.life().filter(|_| other != index) else {
                continue;
            };
            ports.extend(container.published_ports());
            if container.network_mode() == "host" && !life.collides {
                ports.insert(container.behaviour.port);
            }
        }
        ports
    }

    fn addresses_for(&self, index: usize) -> Outcome<BTreeMap<String, Ipv4Addr>> {
        let mut addresses = BTreeMap::new();
        for (network, settings) in &self.containers[index].body.endpoints {
            if network == "host" || network == "none" {
                continue;
            }
            let position = self
                .networks
                .iter()
                .position(|name| name == network)
                .unwrap_or_default();
            let subnet = if network == "bridge" {
                17
            } else {
                18 + u8::try_from(position).unwrap_or(200)
            };
            let taken: BTreeSet<Ipv4Addr> = self
                .containers
                .iter()
                .filter_map(|other| other.addresses.get(network))
                .copied()
                .collect();
            let fixed: Option<Ipv4Addr> = settings
                .pointer("/IPAMConfig/IPv4Address")
                .and_then(Value::as_str)
                .and_then(|a| a.parse().ok());
            let address = match fixed {
                Some(fixed) if taken.contains(&fixed) => return refused(403, "Address already in use"),
                Some(fixed) => fixed,
                None => (2..=254)
                    .map(|host| Ipv4Addr::new(172, subnet, 0, host))
                    .find(|address| !taken.contains(address))
                    .ok_or_else(|| EngineError::Refused {
                        status: 500,
                        message: "no free address".to_owned(),
                    })?,
            };
            addresses.insert(network.clone(), address);
        }
        Ok(addresses)
    }

    pub(super) fn stop(&mut self, id: &str, grace: Duration) -> Outcome<()> {
        let index = self.find(id)?;
        let now = self.now;
        let container = &mut self.containers[index];
        match &mut container.status {
            Status::Running(life) => {
                container.manually_stopped = true;
                let kill_at = now + grace;
                life.kill_at = Some(life.kill_at.map_or(kill_at, |earlier| earlier.min(kill_at)));
                if life.signalled.is_none() {
                    life.signalled = Some(now);
                    self.log(index, Happened::Signalled);
                }
            }
            Status::Restarting { .. } => {
                container.manually_stopped = true;
                container.status = Status::Exited;
            }
            Status::Paused(_) => return refused(500, "the twin does not stop paused containers"),
            Status::Created | Status::Removing { .. } | Status::Exited => {}
        }
        self.settle(now);
        Ok(())
    }

    pub(super) fn set_restart_policy(&mut self, id: &str, policy: &Value) -> Outcome<()> {
        let index = self.find(id)?;
        let name = match policy["Name"].as_str() {
            None | Some("") => "no",
            Some(name) if ["no", "always", "unless-stopped", "on-failure"].contains(&name) => name,
            Some(other) => return refused(400, format!("invalid restart policy '{other}'")),
        };
        let container = &mut self.containers[index];
        if matches!(container.status, Status::Removing { .. }) {
            return conflict("Container is marked for removal and cannot be \"update\".");
        }
        if container.auto_remove() && name != "no" {
            return conflict(
                "Restart policy cannot be updated because AutoRemove is enabled for the container",
            );
        }
        let retries = policy["MaximumRetryCount"].as_u64().unwrap_or_default();
        container.body.host_config["RestartPolicy"] = json!({ "Name": name, "MaximumRetryCount": retries });
        Ok(())
    }

    pub(super) fn connect(&mut self, network: &str, id: &str, endpoint: &Value) -> Outcome<()> {
        if !self.networks.contains(network) {
            return Err(EngineError::NotFound(format!("network {network} not found")));
        }
        let index = self.find(id)?;
        if self.containers[index].body.endpoints.contains_key(network) {
            return Ok(());
        }
        let mode = self.containers[index].network_mode();
        if mode == "host" || mode.starts_with("container:") {
            return refused(
                403,
                "container sharing network namespace with another container or host cannot be connected to any other \
                 network",
            );
        }
        let running = self.containers[index].life().is_some();
        self.containers[index]
            .body
            .endpoints
            .insert(network.to_owned(), endpoint.clone());
        if running {
            let address = self.addresses_for(index)?.remove(network);
            self.containers[index]
                .addresses
                .extend(address.map(|address| (network.to_owned(), address)));
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, id: &str) -> Outcome<()> {
        let Ok(index) = self.find(id) else {
            return Ok(());
        };
        let container = &self.containers[index];
        if matches!(container.status, Status::Removing { .. }) {
            return Ok(());
        }
        if container.is_running() {
            return conflict(format!(
                "You cannot remove a running container {}. Stop the container before attempting removal or force \
                 remove",
                container.id
            ));
        }
        self.take_away(index);
        Ok(())
    }

    pub(super) fn remove_image(&mut self, id: &str) -> Outcome<()> {
        let Some(image) = self.images.find(id).map(|image| image.id.clone()) else {
            return Ok(());
        };
        if let Some(user) = self
            .containers
            .iter()
            .find(|container| container.image_id == image)
        {
            let kind = if user.is_running() { "running" } else { "stopped" };
            return conflict(format!(
                "conflict: unable to delete {id} (must be forced) - image is being used by {kind} container {}",
                user.id
            ));
        }
        if self.images.tags_of(&image).len() > 1 {
            return conflict(format!(
                "conflict: unable to delete {id} (must be forced) - image is referenced in multiple repositories"
            ));
        }
        self.images.remove(&image);
        Ok(())
    }

    /// The container's document.
    pub(super) fn document(&mut self, index: usize) -> Value {
        let (now, manager_reachable) = (self.now, self.manager_reachable);
        self.containers[index].probe_until(now, manager_reachable);
        let container = &self.containers[index];
        let restarting = matches!(container.status, Status::Restarting { .. });
        let mut state = json!({
            "Status": container.status.word(),
            "Running": container.is_running(),
            "Paused": matches!(container.status, Status::Paused(_)),
            "Restarting": restarting,
            "OOMKilled": false,
            "Dead": false,
            "Pid": i32::from(container.life().is_some()),
            "ExitCode": container.exit_code,
            "Error": container.error,
            "StartedAt": document::time(container.started.map(|at| self.wall(at))),
            "FinishedAt": document::time(container.finished.map(|at| self.wall(at))),
        });
        if let Some(health) = container.health_document(|at| document::time(Some(self.wall(at)))) {
            state["Health"] = health;
        }
        let mut host_config = container.body.host_config.clone();
        if !container.links.is_empty() {
            let shown = |link: &Link| format!("/{}:/{}/{}", link.name, container.name, link.alias);
            host_config["Links"] = container.links.iter().map(shown).collect();
        }
        let own_alias = self.settings.api < ApiVersion::new(1, 44);
        json!({
            "Id": container.id,
            "Name": format!("/{}", container.name),
            "Created": document::time(Some(self.wall(container.created))),
            "State": state,
            "Image": container.image_id,
            "RestartCount": container.restart_count,
            "Platform": "linux",
            "Config": container.body.config,
            "HostConfig": host_config,
            "NetworkSettings": {
                "Networks": document::networks(
                    &container.body.endpoints, &container.addresses, &container.id, own_alias),
            },
        })
    }
}
