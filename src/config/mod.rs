//! The environment → validated [`Settings`], or every problem in it at once.

mod connections;
mod environment;
mod parse;
mod problems;
mod reader;
mod settings;
mod variables;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use strum::{Display, EnumString};

use crate::engine::EngineHost;
use crate::image::{ImageReference, TargetSettings};
use crate::manager::DelegateToken;
use crate::schedule::Schedule;
use problems::Problems;
use variables::Environment;

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
    /// `LOG_LEVEL` and `LOG_FORMAT`.
    pub log: LogSettings,
    /// The container engine.
    pub engine: EngineHost,
    /// What is allowed but looks odd; each line begins with its variable.
    pub warnings: Vec<String>,
    effective: Vec<(&'static str, String)>,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Display, EnumString)]
#[strum(serialize_all = "kebab-case", ascii_case_insensitive)]
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
    /// `HEALTH_PROBE`.
    pub probe: ProbeKind,
    /// `HEALTH_PORT`, of the delegate.
    pub port: u16,
    /// `HEALTH_PATH`, beginning with a slash.
    pub path: String,
}

/// How health is found out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Display, EnumString)]
#[strum(serialize_all = "kebab-case", ascii_case_insensitive)]
pub enum ProbeKind {
    /// The engine's health check, else HTTP, else running and stable.
    #[default]
    Auto,
    /// The engine's health check only.
    Engine,
    /// HTTP only.
    Http,
    /// Running and stable is enough.
    Running,
}

/// What is done about a delegate that stays unhealthy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Display, EnumString)]
#[strum(serialize_all = "kebab-case", ascii_case_insensitive)]
enum HealthAction {
    /// It is reported.
    #[default]
    Report,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Display, EnumString)]
#[strum(serialize_all = "kebab-case", ascii_case_insensitive)]
pub enum LogLevel {
    /// Only what failed.
    Error,
    /// And what looks odd.
    #[strum(to_string = "warn", serialize = "warning")]
    Warn,
    /// And what happened.
    #[default]
    Info,
    /// And why.
    Debug,
    /// And every step.
    Trace,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Display, EnumString)]
#[strum(serialize_all = "kebab-case", ascii_case_insensitive)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines.
    Json,
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
        let mut problems = Problems::default();
        let env = Environment::read(std::env::vars_os(), &mut problems);
        settings::listen_alone(&env, problems)
    }

    /// Reads and checks an environment. Variables that are not ours are ignored; empty ones are unset. The files
    /// that hold secrets are read, those that hold certificates are opened.
    pub fn from_env(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, ConfigErrors> {
        let mut problems = Problems::default();
        let env = Environment::read(vars, &mut problems);
        settings::settings(&env, problems)
    }

    /// Every documented variable with the value in effect, in the order of the documentation. Of a secret it says
    /// only that it is set.
    pub fn redacted(&self) -> &[(&'static str, String)] {
        &self.effective
    }
}
