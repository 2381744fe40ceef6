//! The environment → validated [`Settings`], or every problem in it at once.

mod connections;
mod environment;
mod problems;
mod read;
mod redacted;
mod values;

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::engine::EngineHost;
use crate::image::{ImageReference, TargetSettings};
use crate::manager::DelegateToken;
use crate::schedule::Schedule;
use environment::Environment;
use problems::Problems;

pub use problems::{ConfigErrors, Problem};

use crate::text::secret::Secret;

/// All that can be set, checked. One field per variable or group of variables of the documentation.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who says which image is published.
    pub source: Source,
    /// `UPGRADER_WORKLOAD_NAME`: the `DELEGATE_NAME`s to look after; at least one, each once.
    pub workload_names: Vec<String>,
    /// `SCHEDULE` and `TZ`.
    pub schedule: Schedule,
    /// `SCHEDULE_JITTER`: each run is delayed by a random time up to this.
    pub schedule_jitter: Duration,
    /// `RUN_ON_START`: whether the check at start may change something.
    pub run_on_start: bool,
    /// `CONTAINER_STOP_TIMEOUT`: how long an old delegate may finish its tasks; a second at least.
    pub stop_timeout: Duration,
    /// `DISABLE_AUTO_UPGRADE`: health checks only, not one write reaches the engine.
    pub disable_auto_upgrade: bool,
    /// Where the published image is taken from.
    pub target: TargetSettings,
    /// `UPGRADE_STRATEGY`.
    pub strategy: Strategy,
    /// `HEALTHY_TIME`: a candidate must be healthy this long without a break.
    pub healthy_time: Duration,
    /// `HEALTHY_DEADLINE`: and no later than this after its start; more than `healthy_time`.
    pub healthy_deadline: Duration,
    /// The periodic health check.
    pub health: HealthSettings,
    /// `REGISTRY_USERNAME` and `REGISTRY_PASSWORD`.
    pub registry: Option<RegistryLogin>,
    /// The directory of Docker's `config.json`, and whether `DOCKER_CONFIG` names it: `$HOME/.docker` is the usual one.
    pub docker_config: Option<(PathBuf, bool)>,
    /// The way to the Manager.
    pub egress: Egress,
    /// `LISTEN_ADDR`.
    pub listen: SocketAddr,
    /// `WEBHOOK_URL`, a secret since its path often is the key.
    pub webhook_url: Option<Secret>,
    /// `AUDIT_LOG`: the file that events are added to.
    pub audit_log: Option<PathBuf>,
    /// `LOG_LEVEL` and `LOG_FORMAT`.
    pub log: LogSettings,
    /// The container engine.
    pub engine: EngineHost,
    /// What is allowed but looks odd; each line begins with its variable.
    pub warnings: Vec<String>,
}

/// Who says which image is published.
#[derive(Clone, Debug)]
pub enum Source {
    /// A Harness Manager.
    Manager(ManagerSettings),
    /// `PUBLISHED_IMAGE`: always this one.
    Fixed(ImageReference),
    /// Nobody. Only where upgrades are disabled.
    None,
}

/// How to ask the Manager.
#[derive(Clone, Debug)]
pub struct ManagerSettings {
    /// `ACCOUNT_ID`.
    pub account_id: String,
    /// `MANAGER_HOST_AND_PORT`: scheme, host, perhaps port and path, no trailing slash.
    pub base_url: String,
    /// `UPGRADER_TOKEN`.
    pub token: DelegateToken,
}

/// How a delegate is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Start-first unless something forbids two at once.
    #[default]
    Auto,
    /// The new one proves itself before the old one stops.
    StartFirst,
    /// The old one stops before the new one starts.
    StopFirst,
}

/// The periodic health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// `HEALTH_INTERVAL`.
    pub interval: Duration,
    /// `HEALTH_PROBE`; never `Exec`, a write, where upgrades are disabled.
    pub probe: ProbeKind,
    /// `HEALTH_PORT`, of the delegate.
    pub port: u16,
    /// `HEALTH_PATH`, beginning with a slash.
    pub path: String,
    /// `HEALTH_ACTION`; never `Restart` where upgrades are disabled.
    pub action: HealthAction,
}

/// How health is found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProbeKind {
    /// The engine's health check, else HTTP, else running and stable.
    Auto,
    /// The engine's health check only.
    Engine,
    /// HTTP only.
    Http,
    /// Running and stable is enough.
    Running,
    /// HTTP from inside the container; a write to the engine.
    Exec,
}

/// What is done about a delegate that stays unhealthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HealthAction {
    /// It is reported.
    Report,
    /// It is reported and restarted.
    Restart,
}

/// The login of a private registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryLogin {
    /// `REGISTRY_USERNAME`.
    pub username: String,
    /// `REGISTRY_PASSWORD`.
    pub password: Secret,
}

/// The way to the Manager: proxy and certificates. The files are PEM and could be opened at start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// `PROXY_*`, `HTTPS_PROXY` or `HTTP_PROXY`.
    pub proxy: Option<ProxySettings>,
    /// `NO_PROXY`: hosts that are reached directly, comma-separated.
    pub no_proxy: Option<String>,
    /// `CA_BUNDLE`: authorities to trust beside the usual ones.
    pub ca_bundle: Option<PathBuf>,
    /// `CLIENT_CERT`; set if and only if the key is.
    pub client_cert: Option<PathBuf>,
    /// `CLIENT_KEY`; set if and only if the certificate is.
    pub client_key: Option<PathBuf>,
}

/// A proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxySettings {
    /// `scheme://host:port`, without user and password.
    pub url: String,
    /// The user's name; set if and only if the password is.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<Secret>,
}

/// How is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// `LOG_LEVEL`.
    pub level: LogLevel,
    /// `LOG_FORMAT`.
    pub format: LogFormat,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Only what failed.
    Error,
    /// And what looks odd.
    Warn,
    /// And what happened.
    Info,
    /// And why.
    Debug,
    /// And every step.
    Trace,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

const STRATEGIES: [(&str, Strategy); 3] = [
    ("auto", Strategy::Auto),
    ("start-first", Strategy::StartFirst),
    ("stop-first", Strategy::StopFirst),
];

/// The text is no [`Strategy`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not auto, start-first or stop-first")]
pub struct StrategyError;

impl FromStr for Strategy {
    type Err = StrategyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        values::word(text.trim(), &STRATEGIES).map_err(|_| StrategyError)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word_of(&STRATEGIES, *self))
    }
}

const PROBES: [(&str, ProbeKind); 5] = [
    ("auto", ProbeKind::Auto),
    ("engine", ProbeKind::Engine),
    ("http", ProbeKind::Http),
    ("running", ProbeKind::Running),
    ("exec", ProbeKind::Exec),
];

const ACTIONS: [(&str, HealthAction); 2] = [
    ("report", HealthAction::Report),
    ("restart", HealthAction::Restart),
];

const LEVELS: [(&str, LogLevel); 6] = [
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
    ("warning", LogLevel::Warn),
];

const FORMATS: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];

/// The first word for a value.
fn word_of<T: PartialEq + Copy>(words: &[(&'static str, T)], value: T) -> &'static str {
    words
        .iter()
        .find(|(_, candidate)| *candidate == value)
        .map_or("", |(word, _)| word)
}

impl From<LogLevel> for tracing::Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

impl Settings {
    /// Reads and checks the environment of this process.
    pub fn from_process_env() -> Result<Self, ConfigErrors> {
        Self::from_env(std::env::vars_os())
    }

    /// Reads and checks `LISTEN_ADDR` alone, for the commands that ask a running daemon.
    pub fn listen_from_process_env() -> Result<SocketAddr, ConfigErrors> {
        let mut findings = Problems::default();
        let env = Environment::read(std::env::vars_os(), &mut findings);
        read::listen_alone(&env, findings)
    }

    /// Reads and checks an environment. Variables that are not ours are ignored; empty ones are unset. The files
    /// that hold secrets are read, those that hold certificates are opened.
    pub fn from_env(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, ConfigErrors> {
        let mut findings = Problems::default();
        let env = Environment::read(vars, &mut findings);
        read::settings(&env, findings)
    }
}
